"""Pollux' decision: how many GPUs each job gets on which nodes, and with which batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Can, Code, Constraint, Grant
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import Targets
from rota.stages.sizes import left_alone
from rota.systems.pollux.cells import carried, cells_of, filled, grown, yielded
from rota.systems.pollux.placing import Carrier, hard_limits, is_whole
from rota.systems.pollux.search import Found, Search, SharingProblem
from rota.systems.pollux.speedups import Models, Speedups, models_of, restart_factor
from rota.table.occupancy import EPSILON

_STORED = 2_000_000
"""Entries of populations that are kept for the next search."""
_ANY = Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE


class PolluxPlan:
    """One decision in the making: the jobs in order, a search for each cell, grants, batches."""

    def __init__(self, snapshot: Snapshot, rows: Ints, speedups: Speedups, memory: Memory) -> None:
        self.snapshot, self.speedups = snapshot, speedups
        self.parameters = speedups.parameters
        whole = np.array([is_whole(snapshot, row) for row in rows.tolist()], dtype=bool)
        self.rows = self._in_order(rows[whole], memory)
        self.others = [row for row in rows[~whole].tolist() if row not in snapshot.grants]
        self.kinds = _home_types(snapshot, self.rows)
        self.models = models_of(snapshot, self.rows, self.kinds)
        scratch = snapshot.scratch()
        self.held = {row: snapshot.grants[row] for row in self.rows.tolist() if row in snapshot.grants}
        for grant in self.held.values():
            scratch.release(grant)
        self.carrier = Carrier(snapshot, scratch)
        self.grants: dict[int, Grant] = dict(self.held)
        """What each row is to hold."""
        self.is_searched = False

    def _in_order(self, rows: Ints, memory: Memory) -> Ints:
        """Jobs that keep what they have first, then by attained service and arrival."""
        alone = left_alone(self.snapshot, memory.setdefault("refused", {}))
        bears = (self.snapshot.jobs.can(rows) & _ANY) != 0
        runs = np.isin(rows, self.snapshot.running)
        stays = np.array([row in alone for row in rows.tolist()], dtype=bool)
        pinned = runs & (~bears | stays)
        order = np.lexsort((rows, self.snapshot.jobs.service_gpu_s(rows), ~pinned))
        self.pinned: Bools = pinned[order]
        ordered: Ints = rows[order]
        return ordered

    def targets(self) -> Targets:
        """GPUs that each row is to hold."""
        rows, grants = self.rows, self.grants
        return Targets(
            lambda: {row: float(len(grants[row].devices)) if row in grants else 0.0 for row in rows.tolist()}
        )

    # -- the search --------------------------------------------------------------------------------

    def search(self, memory: Memory) -> None:
        """Run a search, which decides what each row is to hold."""
        carrier, snapshot = self.carrier, self.snapshot
        self.is_searched = True
        kept = [self.held[row] for row in self.rows[self.pinned].tolist()]
        carrier.keep(kept)
        self._others = carrier.others(self.others)
        for grant in kept:
            carrier.scratch.release(grant)
        self.table = self.speedups.speedups(self.models, len(self.rows))
        jobs = snapshot.jobs
        age_s = snapshot.now - jobs.submit_s[self.rows]
        factor = restart_factor(age_s, jobs.moves[self.rows], self.parameters.restart_s)
        worth = self.speedups.worth(self.table, factor)
        limit = self.speedups.limits(snapshot, self.models)
        base, capacity = self._base(), carrier.capacity()
        allowed = self._allowed()
        limits = hard_limits(snapshot, carrier.scratch, self.rows, self.kinds)
        cells = cells_of(base, allowed, self.pinned, capacity, self.parameters.cell_nodes)
        before = memory.get("population", {})
        memory["population"] = {}
        state = base.copy()
        for number, (nodes, members) in enumerate(cells):
            if not len(members):
                continue
            problem = SharingProblem(
                base[np.ix_(nodes, members)],
                capacity[nodes],
                worth[members],
                limit[members],
                allowed[np.ix_(nodes, members)],
                self.pinned[members],
                not self.parameters.avoid_interference,
                self.parameters.most_nodes,
                _quotas_of(members, state, limits),
                self._hosts(nodes, members),
            )
            begins = carried(before.get(str(number)), self.rows[members], len(nodes))
            random = np.random.default_rng([snapshot.seed, memory["searches"], number])
            result = self.run(problem, members, begins, random)
            state[:, members] = 0  # what a job has in the cell that it leaves
            state[np.ix_(nodes, members)] = result.best
            memory["population"][str(number)] = self._stored(result, members, len(cells))
        self._take_up(state, base)

    def run(self, problem: SharingProblem, members: Ints, begins: Array, random: Generator) -> Found:
        """A search among the rows `members`.

        It begins with what is held and what free GPUs add to it, and with the last population, `begins`.
        """
        ours = [begun := filled(problem), grown(problem, begun)]
        if ((room_made := yielded(problem, begun)) != begun).any():
            ours.append(grown(problem, room_made))
        begins = np.concatenate((np.stack(ours, axis=1), begins), axis=1)
        p = self.parameters
        return Search(problem, random).run(begins, p.population, p.generations, p.patience)

    def _stored(self, result: Found, members: Ints, cells: int) -> dict[str, Array]:
        """The part of a population that is kept for the next search."""
        nodes, population, jobs = result.states.shape
        most = max(2, min(population, _STORED // max(cells * nodes * jobs, 1)))
        return {"rows": self.rows[members].copy(), "states": result.states[:, :most].copy()}

    def _base(self) -> Array:
        """GPUs that each row holds on each node, [node, row]."""
        base = np.zeros((self.snapshot.cluster.nodes, len(self.rows)), dtype=np.int16)
        for place, row in enumerate(self.rows.tolist()):
            if row in self.held:
                for device in self.held[row].devices:
                    base[self.snapshot.cluster.device_node.item(device), place] += 1
        return base

    def _allowed(self) -> Bools:
        """Nodes that each row can use, [node, row]."""
        snapshot, fit = self.snapshot, self.carrier.fit
        if snapshot.uniform:
            return np.ones((snapshot.cluster.nodes, len(self.rows)), dtype=bool)
        allowed = np.zeros((snapshot.cluster.nodes, len(self.rows)), dtype=bool)
        for place, (row, kind) in enumerate(zip(self.rows.tolist(), self.kinds.tolist(), strict=True)):
            least = feasible_counts(snapshot.jobs.table, row)[0]
            mask = fit.nodes_for(self.carrier.scratch, row, least)[kind]
            allowed[:, place] = [mask >> node & 1 for node in range(len(allowed))]
        return allowed

    def _hosts(self, nodes: Ints, members: Ints) -> tuple[tuple[Floats, Floats], ...]:
        """CPUs and memory that the rows `members` want for each GPU, and that `nodes` have."""
        cluster, table, scratch = self.snapshot.cluster, self.snapshot.jobs.table, self.carrier.scratch
        rows, hosts = self.rows[members], []
        gpus = np.maximum(table.gpus[rows], 1)
        for asked, capacity, used in (
            (table.cpus, cluster.node_cpus, scratch.cpus_used),
            (table.memory_gib, cluster.node_memory_gib, scratch.memory_used),
        ):
            if asked[rows].any() and capacity.any():
                room = np.where(capacity > 0.0, capacity - np.array(used), math.inf)
                hosts.append((asked[rows] / gpus, room[nodes]))
        return tuple(hosts)

    def _take_up(self, state: Array, base: Array) -> None:
        """Grants for the matrix `state`.

        A job that is not changed keeps its devices, unless a job with a part of a GPU has been placed on
        one of them, or uses up the quota.
        """
        same = (state == base).all(axis=0)
        rows = self.rows.tolist()
        unchanged = [(row, self.pinned.item(place)) for place, row in enumerate(rows) if same[place]]
        stays = self.carrier.kept([(self.held[row], pinned) for row, pinned in unchanged if row in self.held])
        settled = {grant.job for grant in stays}
        wanted = {}
        for place in np.flatnonzero(state.sum(axis=0) > 0).tolist():
            if rows[place] not in settled:
                nodes = np.flatnonzero(state[:, place]).tolist()
                wanted[rows[place]] = {node: int(state[node, place]) for node in nodes}
        self.grants = {grant.job: grant for grant in stays} | self.carrier.carry_out(wanted)

    # -- between searches --------------------------------------------------------------------------

    def start_waiting(self) -> None:
        """Each job that still waits starts on its least size, where it fits, first come first served."""
        if not self.is_searched:
            self.carrier.keep(list(self.held.values()))
            self._others = self.carrier.others(self.others)
        waiting = [
            row for row in sorted(self.rows.tolist()) if row not in self.grants and row not in self.held
        ]
        for grant in self.carrier.first_come(waiting):
            self.grants[grant.job] = grant

    # -- what is decided ---------------------------------------------------------------------------

    def changed(self, *, batches: bool) -> list[Grant]:
        """Grants that differ from what is held; with `batches` the batches of all rows are looked at."""
        decided = []
        for place, row in enumerate(self.rows.tolist()):
            grant, old = self.grants.get(row), self.held.get(row)
            if grant is None:
                continue
            if batches or old is None or grant.devices != old.devices:
                grant = self.with_batch(place, grant, old)
            if grant != old:
                decided.append(grant)
        return decided + self._others

    def with_batch(self, place: int, grant: Grant, old: Grant | None) -> Grant:
        """The grant with the best batch there."""
        is_same = old is not None and grant.devices == old.devices
        row = grant.job
        if is_same and (self.pinned[place] or not self.snapshot.jobs.can(row) & Can.BATCH):
            return grant
        now = old.batch_size if is_same and old is not None else math.nan
        nodes = len({self.snapshot.cluster.device_node.item(device) for device in grant.devices})
        batch = self.speedups.batch_size(self.models, place, nodes, len(grant.devices), now)
        return grant if batch != batch or batch == now else grant._replace(batch_size=batch)

    def preempted(self) -> list[int]:
        return sorted(row for row in self.held if row not in self.grants)

    def reasons(self) -> Mapping[int, Constraint]:
        """Why rows wait."""
        waiting = [row for row in self.rows.tolist() if row not in self.grants]
        return PolluxReasons(self.models, self.speedups, waiting)


def _quotas_of(
    members: Ints, state: Array, limits: list[tuple[Bools, float]]
) -> tuple[tuple[Bools, int], ...]:
    """`limits` for the rows `members` alone: what they leave beside all others' in `state`, [node, row]."""
    others = state.sum(axis=0)
    others[members] = 0
    return tuple(
        (own[members], max(math.floor(left - others[own].sum() + EPSILON), 0))
        for own, left in limits
        if own[members].any()
    )


def _most_of(snapshot: Snapshot, row: int, gpu_type: str) -> float:
    """Most GPUs of a type that the tenant of a job may have."""
    tenants = snapshot.cluster.tenants
    if not tenants:
        return math.inf
    lineage = tenants.lineage(snapshot.jobs.table.name_of("tenant", row))
    quotas = [tenant.quota_by_type.get(gpu_type, math.inf) for tenant in lineage if tenant.hard]
    return min(quotas, default=math.inf)


def _home_types(snapshot: Snapshot, rows: Ints) -> Ints:
    """The GPU type on which each row runs, or is to start: where most are free."""
    cluster = snapshot.cluster
    kinds = np.zeros(len(rows), dtype=np.int64)
    if len(cluster.type_names) < 2:
        return kinds
    table, free = snapshot.jobs.table, snapshot.occupancy.free
    room = np.zeros(len(cluster.type_names))
    np.add.at(room, cluster.node_type, np.array(free.count, dtype=float))
    size = np.zeros(len(room))
    np.add.at(size, cluster.node_type, cluster.node_gpus)
    for place, row in enumerate(rows.tolist()):
        grant = snapshot.grants.get(row)
        if grant is not None:
            kinds[place] = cluster.device_type[grant.devices[0]]
            continue
        names = table.types_in(table.gpu_types.item(row))
        least = min(table.gpus_min.item(row), table.gpus.item(row))
        able = [
            (room[kind], size[kind], -kind)
            for kind, name in enumerate(cluster.type_names)
            if (not names or name in names) and size[kind] >= least and least <= _most_of(snapshot, row, name)
        ]
        kinds[place] = -max(able)[2] if able else 0
        room[kinds[place]] -= least
    return kinds


@dataclass(frozen=True)
class PolluxReasons(Mapping[int, Constraint]):
    """Why jobs wait, put into words when asked for."""

    models: Models
    speedups: Speedups
    waiting: Sequence[int]

    def __iter__(self) -> Iterator[int]:
        return iter(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)

    def __getitem__(self, row: int) -> Constraint:
        if row not in self.waiting:
            raise KeyError(row)
        place = self.models.rows.tolist().index(row)
        said = "the search gave its GPUs to others, whose speedups are worth more together"
        return Constraint(Code.POLICY, detail=f"{said}; {self._by_size(place)}")

    def _by_size(self, place: int) -> str:
        """Goodput by size, in words."""
        if not self.models.known[place]:
            return "it has not run yet, so every GPU is taken to speed it up as much as the first"
        one = Models(
            self.models.rows[place : place + 1],
            self.models.fits[place : place + 1],
            self.models.limits[place : place + 1],
            self.models.noises[place : place + 1],
            self.models.profiled[place : place + 1],
            self.models.stages[place : place + 1],
        )
        table = self.speedups.goodputs(one)[0]
        sizes = [1 << power for power in range(7) if 1 << power <= self.speedups.most]
        values = {gpus: float(table[int(gpus > self.speedups.node_gpus), gpus]) for gpus in sizes}
        shown = ", ".join(f"{value:.4g} on {gpus}" for gpus, value in values.items() if value > 0.0)
        return f"its goodput in examples/s by GPUs: {shown}"
