"""Changes since the last decision: nodes that came or went, jobs that came, ended, or run already.

None of this is in the paper: a live cluster loses nodes, drains them and gets others, and a policy can take
over jobs that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.model.grants import Role
from rota.scheduler.decision import Event
from rota.scheduler.snapshot import Snapshot
from rota.stages.turn_lengths import TurnLengths
from rota.systems.gandiva.derived import Derived
from rota.systems.gandiva.servers import members
from rota.table.state import Phase

# As in `loop`: with plain integers nothing is looked up, and no flag is made of the result.
_CAPACITY, _SHAKEN = int(Event.CAPACITY), int(Event.FAILURE | Event.CAPACITY)
_PENDING, _RUNNING = int(Phase.PENDING), int(Phase.RUNNING)


class ClusterChanges:
    """Brings the homes up to date."""

    def __init__(
        self, snapshot: Snapshot, derived: Derived, changed: Sequence[int] | None, lengths: TurnLengths
    ) -> None:
        self.snapshot = snapshot
        self.derived = derived
        self.memory = derived.memory
        self.changed = changed
        """Rows with news, from `Derived.news`; None if any row may have news."""
        self.lengths = lengths
        self.homes = derived.homes
        self.homeless = derived.homeless
        self.sizes = snapshot.gpus_of
        self.gpus = snapshot.occupancy.free.size
        self.strays: dict[int, list[int]] = derived.memory.setdefault("strays", {})
        self.left: set[int] = set()
        """Homes that a job has left."""
        self.due: set[int] = set()
        """Homes whose running jobs are chosen again."""
        self._evacuated: list[int] = []
        """Jobs whose home was lost."""

    def follow(self) -> None:
        """Update homes for lost, added and returned nodes, and for jobs that came or ended."""
        if self.derived.gpus is not self.gpus:
            self._follow_cluster()
        self._follow_nodes()
        self._follow_jobs()

    # -- nodes -------------------------------------------------------------------------------------

    def _follow_cluster(self) -> None:
        """Nodes that are new, or have other GPUs, become empty homes; their jobs need another one."""
        before = self.memory["gpus"]
        self.derived.gpus = self.gpus
        if before == self.gpus:
            return
        changed = [
            node for node in range(len(self.gpus)) if node >= len(before) or before[node] != self.gpus[node]
        ]
        for key, home in list(self.homes.homes.items()):
            if not set(changed).isdisjoint(home["nodes"]):
                self._evacuate(key)
                self.homes.close(key, self.gpus, changed)
        self.memory["down"] = [node for node in self.memory["down"] if node not in changed]
        for node in changed:
            self.homes.open([node], self.gpus)
        if before:
            self.left.update(changed)
        self.memory["gpus"] = list(self.gpus)

    def _follow_nodes(self) -> None:
        """Lost nodes are no homes; their jobs need another one."""
        first, down = self.snapshot.cluster.first_device, self.snapshot.occupancy.down
        if self.derived.down == down and not self.snapshot.cause & _CAPACITY:
            return
        self.derived.down = set(down)
        is_down = [self.gpus[node] == 0 or int(first[node]) in down for node in range(len(self.gpus))]
        for node in [node for node in self.memory["down"] if not is_down[node]]:
            self.memory["down"].remove(node)
            self.homes.open([node], self.gpus)
            self.left.add(node)
            self._bring_home(node)
        for key, home in list(self.homes.homes.items()) if down else ():
            lost = [node for node in home["nodes"] if is_down[node]]
            if lost:
                self._evacuate(key)
                self.homes.close(key, self.gpus, lost)
                self.memory["down"] += lost
                self.left.update(node for node in home["nodes"] if node not in lost)

    def _bring_home(self, node: int) -> None:
        """Assign a home to jobs that ran on while `node` took no new ones."""
        node_of = self.snapshot.occupancy.free.node_of
        grants = self.snapshot.grants
        rows = [row for row, grant in grants.items() if any(node_of[d] == node for d in grant.devices)]
        for row in rows:
            if row in self.homes.home_of:
                self._leave(row)
        self._evacuated += rows

    def _evacuate(self, key: int) -> None:
        rows = sorted(members(self.homes.homes[key]))
        for row in rows:
            self.homes.remove(row)
        self._evacuated += rows

    # -- jobs --------------------------------------------------------------------------------------

    def _follow_jobs(self) -> None:
        """Take out jobs that have ended, take over jobs that run already, line up jobs that came."""
        phase_of, home_of = self.snapshot.by_row.phase_of, self.homes.home_of
        changed = self._all_rows() if self.changed is None else self.changed
        strangers, held = set(self._evacuated), self.snapshot.grants
        for stray in [stray for stray in self.strays if stray not in held]:
            strangers.add(stray)
            self._make_room(self.strays.pop(stray))
        row: Any  # as in `TurnDevices.swap`
        for row in changed:
            if row not in home_of:
                if row not in self.strays:
                    strangers.add(row)
                continue
            if row in held:
                continue
            phase: int = phase_of[row]
            if phase != _PENDING and phase != _RUNNING:
                self._leave(row)
                self._forget(row)
        for row in sorted(strangers):
            self._meet(row, phase_of[row])
        if self.snapshot.cause & _SHAKEN:
            self.due.update(home_of.values())
        self.due.update(home_of[row] for row in self.snapshot.refused if row in home_of)

    def _make_room(self, nodes: list[int]) -> None:
        """Note that a job that belonged to no home has left `nodes`."""
        self.left.update(
            key for key, home in self.homes.homes.items() if not set(nodes).isdisjoint(home["nodes"])
        )

    def _all_rows(self) -> list[int]:
        live = [*self.snapshot.running.tolist(), *self.snapshot.waiting.tolist()]
        return sorted({*self.homes.home_of, *live})

    def _meet(self, row: int, phase: int) -> None:
        """A job without a home, about which there is news: it runs, waits or has ended."""
        self.strays.pop(row, None)
        if not self.sizes[row]:
            (self.derived.without_gpus.add if phase == _PENDING else self.derived.without_gpus.discard)(row)
        elif phase == _PENDING:
            self.homeless.add(row, self.derived.grounds.kind[row])
        else:
            self.homeless.discard(row)
            if row in self.snapshot.grants:  # else it runs on nodes that are not shown
                self._take_over(row)
            elif phase != _RUNNING:
                self._forget(row)

    def _leave(self, row: int) -> None:
        """Take `row` out of its home, which is split if it was several servers and has no job left."""
        key = self.homes.remove(row)
        self.left.add(key)
        self.homes.split_if_empty(key, self.gpus)

    def _forget(self, row: int) -> None:
        """Forget the measurements of `row`, which has ended."""
        self.derived.grant_of.pop(row, None)
        for name in ("alone", "bad", "moves", "barred"):
            self.memory[name].pop(row, None)
        self.lengths.drop(row)

    def _take_over(self, row: int) -> None:
        """A job that runs already stays where it is; homes that it spans become one."""
        node_of = self.snapshot.occupancy.free.node_of
        grant = self.snapshot.grants[row]
        nodes = {node_of[device] for device in grant.devices}
        spanned = {key for key, home in self.homes.homes.items() if nodes.intersection(home["nodes"])}
        if sum(self.homes.homes[key]["gpus"] for key in spanned) < self.sizes[row]:
            self.strays[row] = sorted(nodes)  # some are being emptied: it runs on there, and will not again
            return
        key = self.homes.join(spanned, self.gpus)
        self.homes.add(row, key, self.sizes[row])
        if grant.role is Role.PACKED and self.snapshot.jobs.table.gpu_share.item(row) == 1.0:
            home = self.homes.homes[key]
            for other in home["circle"][:-1]:
                if self.snapshot.grants[other].devices == grant.devices:
                    self.homes.pair(home, (other, row))
                    return
