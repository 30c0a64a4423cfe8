"""A part of the cluster, seen as if it were the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

import numpy as np

from rota.model.cluster import Cluster
from rota.model.grants import Grant
from rota.table.state import Phase, State

_PENDING, _RUNNING = int(Phase.PENDING), int(Phase.RUNNING)


class View(State):
    """Some nodes of `whole`, as `cluster` describes them, with some of its jobs.

    Rows keep their numbers and share the whole's columns; nodes and devices are renumbered, in the
    order of `nodes`.  Jobs belong to the view once they have been named to `follow`.  Which nodes it
    shows may change.  It is for reading only: the loop changes the whole.

    In an `idle` view no job runs: running jobs are shown as waiting, as when all leases have ended.
    """

    def __init__(self, whole: State, cluster: Cluster, nodes: Sequence[int], *, idle: bool = False) -> None:
        self.whole = whole
        self.idle = idle
        self._outside: dict[int, Grant] = {}
        """What jobs of the view hold if they run, at least in part, on nodes that it does not show."""
        super().__init__(whole.jobs, cluster, whole.progress, whole)
        self._number(nodes)

    def _number(self, nodes: Sequence[int]) -> None:
        first = self.whole.cluster.first_device.tolist()
        self.outer_node = list(nodes)
        """Node of the whole behind each node of the view."""
        self.outer = [d for node in nodes for d in range(first[node], first[node + 1])]
        """Device of the whole behind each device of the view."""
        self.inner = {device: i for i, device in enumerate(self.outer)}
        self._inner_node = {node: i for i, node in enumerate(nodes)}

    def cover(self, cluster: Cluster, nodes: Sequence[int], barred: Set[int] = frozenset()) -> None:
        """Show `nodes` from now on, as `cluster` describes them, with the same jobs; `barred` as in `follow`.

        `log` starts again, so that caches do too.
        """
        rows = [*self.waiting.rows.tolist(), *self.running.rows.tolist(), *self._outside]
        for row in rows:
            self._forget(row)
        self._stand_on(cluster)
        self._number(nodes)
        self.log, self.membership = [], []
        self.follow(rows, barred)

    def _share(self, whole: State) -> None:
        super()._share(whole)
        if not self.idle:
            return
        rows = np.arange(len(whole.phase))
        self.run_s, self.service = whole.ran_s(rows), whole.service_gpu_s(rows)
        self.service_rate = np.zeros(len(rows))
        self.since_s = np.full(len(rows), whole.now)
        self.phase = np.where(whole.phase == _RUNNING, _PENDING, whole.phase).astype(np.int8)

    # -- translation -------------------------------------------------------------------------------

    def contains(self, grant: Grant) -> bool:
        """True if all that `grant`, of the whole, holds is shown here."""
        if not grant.devices:
            return grant.node in self._inner_node
        return all(device in self.inner for device in grant.devices)

    def inward(self, grant: Grant) -> Grant:
        """A grant of the whole, which is shown here, in the numbers of the view."""
        node = self._inner_node[grant.node] if grant.node >= 0 else -1
        return grant._replace(devices=tuple(self.inner[d] for d in grant.devices), node=node)

    def outward(self, grant: Grant) -> Grant:
        """A grant of the view in the numbers of the whole."""
        node = self.outer_node[grant.node] if grant.node >= 0 else -1
        return grant._replace(devices=tuple(self.outer[d] for d in grant.devices), node=node)

    # -- keeping up with the whole -----------------------------------------------------------------

    def follow(self, rows: Iterable[int], barred: Set[int] = frozenset()) -> None:
        """Update the view: `rows` of it have changed, and no job in it may use the devices `barred`.

        Both are in the numbers of the whole.  A job that runs outside, if only in part, is not seen, and
        what it holds in here is barred as well.
        """
        rows = list(rows)
        if self.idle:
            # A running job stays one that waits: only a new log makes orders read its key again.
            self.log, self.membership = [], []
        self._share(self.whole)
        self.occupancy.take_back()
        for row in rows:
            self._forget(row)
        for row in rows:
            self._see(row)
        self.log += rows
        self.membership += rows  # a job that moves may come into view, or leave it
        self._close(barred)
        if self.whole.reservations or self.reservations:
            own = [r for r in self.whole.reservations if all(d in self.inner for d in r.devices)]
            self.reservations = tuple(
                r._replace(devices=tuple(self.inner[d] for d in r.devices)) for r in own
            )

    def _forget(self, row: int) -> None:
        if row in self.waiting:
            self.waiting.remove(row)
            self.waiting_gpus -= self.gpus_of[row]
        elif row in self.running:
            self.running.remove(row)
            self.occupancy.release(self.grants.pop(row))
        else:
            if row in self._outside:
                self._count(self._outside.pop(row), -1.0)
            return
        self.special -= not self._plain[row]

    def _see(self, row: int) -> None:
        held = self.whole.grants.get(row)
        if row in self.whole.waiting or (self.idle and held is not None):
            self.waiting.add(row)
            self.waiting_gpus += self.gpus_of[row]
        elif held is None:
            return
        elif self.contains(held):
            self.running.add(row)
            self.grants[row] = self.inward(held)
            self.occupancy.hold(self.grants[row])
        else:
            self._outside[row] = held
            self._count(held, 1.0)
            return
        self.special += not self._plain[row]

    def _count(self, grant: Grant, sign: float) -> None:
        """Count what tenants hold outside, by the same types, against their quotas."""
        if self.cluster.tenants:
            self.occupancy.count_for_quotas(grant, self.whole.cluster, sign)

    def _close(self, barred: Set[int]) -> None:
        """Nodes and devices that are lost, and those that are `barred`, take no grants."""
        occupancy, lost = self.occupancy, self.whole.occupancy
        occupancy.down_nodes = {i for i, node in enumerate(self.outer_node) if node in lost.down_nodes}
        barred = barred | {d for held in self._outside.values() for d in held.devices}
        if not lost.down and not barred and not occupancy.down:
            return
        closed = {self.inner[device] for device in lost.down | barred if device in self.inner}
        occupancy.close(sorted(closed - occupancy.down))
        occupancy.open(sorted(occupancy.down - closed))
