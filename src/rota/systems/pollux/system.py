"""Pollux — share out all GPUs every minute so that the fitness of all jobs' speedups in goodput is best.

Paper     Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021
Decides   number of GPUs, placement, preemption, batch size
Needs     goodput of each job by nodes, GPUs and batch size: measured while it runs, or profiles
Idea      1. Goodput is throughput times statistical efficiency; for each size the batch with the best counts.
          2. A job's speedup is its goodput over that on a fair share of the cluster; whoever is changed gets
             only the part of it that a restart leaves, given its age and its restarts so far.
          3. A population of allocation matrices is bred for the best power mean of speedups: rows are reset,
             cleared and raised, crossed over, and repaired until no rule is broken.
          4. A job may have at most twice the GPUs that it was measured on, and only one job on several nodes
             uses a node.
Departs   Between two searches waiting jobs start on their least size where it fits (the authors' live
          system does so).  A search begins with what is held, which it never makes worse, and ends when some
          generations find nothing fitter.  Speedups are not weighted by nodes over GPUs, and a fair share
          lies on as many nodes as it needs.  Large clusters are searched in cells.  A job stays on one type
          of GPU; parts of GPUs and jobs that bear no change are not shared out.
Checked   systems/pollux.md, worked examples 1 to 5; mode=artifact in the world of the authors' simulator
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Can, Constraint, Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import GPUS, Targets
from rota.stages.sizes import left_alone
from rota.systems.pollux.cells import carried, cells_of, filled, yielded
from rota.systems.pollux.growing import grown
from rota.systems.pollux.parameters import PolluxParameters
from rota.systems.pollux.placing import Carrier, hard_limits, is_whole
from rota.systems.pollux.published import PublishedSearch
from rota.systems.pollux.reasons import PolluxReasons
from rota.systems.pollux.scaling import wanted_nodes
from rota.systems.pollux.search import Found, Search, SharingProblem
from rota.systems.pollux.speedups import Speedups, models_of, restart_factor
from rota.table.occupancy import EPSILON

_SOON_S = 1e-6
_STORED = 2_000_000
"""Entries of populations that are kept for the next search."""
_ANY = Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE


@register(
    "pollux",
    "Goodput of all jobs, shared out by a population search",
    paper="Pollux, OSDI 2021",
    needs={Knowledge.GOODPUT: True},
    levers={
        **dict.fromkeys((Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE), True),
        Lever.SCALE: lambda p: bool(p.utility),
    },
    parameters=PolluxParameters,
    rotates=True,
)
class Pollux:
    """Searches every interval.

    Memory    `next_s`      moment of the next search
              `searches`    how many there were
              `refused`     per row that the cluster refused to change: see `left_alone`
              `scale_s`     moment of the next look at the number of nodes
              `population`  per cell: rows and matrices with which the next search begins
    """

    def __init__(self, parameters: PolluxParameters | None = None) -> None:
        self.parameters = parameters or PolluxParameters()
        self._speedups: Speedups | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        if not len(rows):
            return Decision(memory, wake=Wake(), wanted_nodes=1 if self.parameters.utility else None)
        now, interval_s = snapshot.now, self.parameters.interval_s
        plan = _Plan(snapshot, rows, self._for(snapshot), memory)
        is_due = now >= memory.get("next_s", -math.inf) - _SOON_S
        if is_due:
            memory["next_s"] = now + interval_s
            memory["searches"] = memory.get("searches", 0) + 1
            plan.search(memory)
        if not (is_due and self.parameters.is_artifact):
            plan.start_waiting()
        return Decision(
            memory,
            plan.changed(batches=is_due),
            plan.preempted(),
            wake=Wake(memory["next_s"]),
            reasons=plan.reasons(),
            targets=plan.targets(),
            target=GPUS,
            wanted_nodes=self._wanted_nodes(plan, memory) if is_due else None,
        )

    def _wanted_nodes(self, plan: _Plan, memory: Memory) -> int | None:
        """How many nodes there are to be, when it is time to look at that again."""
        now = plan.snapshot.now
        if not self.parameters.utility or now < memory.get("scale_s", -math.inf) - _SOON_S:
            return None
        memory["scale_s"] = now + self.parameters.scale_s
        return wanted_nodes(plan.snapshot, plan.speedups, plan.models, plan.grants, memory["searches"])

    def _for(self, snapshot: Snapshot) -> Speedups:
        """Tables for the sizes of this cluster, which remember what they have worked out."""
        cluster = snapshot.cluster
        node_gpus, gpus = int(cluster.node_gpus.max()), cluster.gpus - len(snapshot.occupancy.down)
        old = self._speedups
        if old is None or (old.node_gpus, old.gpus) != (node_gpus, gpus):
            self._speedups = old = Speedups(self.parameters, node_gpus, max(gpus, 1))
        return old


class _Plan:
    """One decision in the making."""

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
        self._is_searched = False

    def _in_order(self, rows: Ints, memory: Memory) -> Ints:
        """Who keeps what he has first, then by attained service and arrival."""
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
        """What each row is to hold is what a search finds."""
        carrier, snapshot = self.carrier, self.snapshot
        self._is_searched = True
        kept = [self.held[row] for row in self.rows[self.pinned].tolist()]
        carrier.keep(kept)
        self._others = carrier.others(self.others)
        for grant in kept:
            carrier.scratch.release(grant)
        table = self.speedups.speedups(self.models, len(self.rows))
        jobs = snapshot.jobs
        age_s = snapshot.now - jobs.submit_s[self.rows]
        factor = restart_factor(age_s, jobs.moves[self.rows], self.parameters.restart_s)
        worth = self.speedups.worth(table, factor)
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
                table[members] if self.parameters.is_artifact else None,
            )
            result = self._run(problem, members, before.get(str(number)), number, memory["searches"])
            state[:, members] = 0  # what a job has in the cell that it leaves
            state[np.ix_(nodes, members)] = result.best
            memory["population"][str(number)] = self._stored(result, members, len(cells))
        self._take_up(state, base)

    def _run(
        self,
        problem: SharingProblem,
        members: Ints,
        before: Mapping[str, Array] | None,
        cell: int,
        number: int,
    ) -> Found:
        parameters = self.parameters
        begins = carried(before, self.rows[members], len(problem.capacity))
        random = np.random.default_rng([self.snapshot.seed, number, cell])
        if parameters.is_artifact:
            published = PublishedSearch(problem, random, parameters.p)
            return published.run(
                begins, parameters.population, parameters.generations, parameters.generations
            )
        ours = [begun := filled(problem), grown(problem, begun)]
        if ((room_made := yielded(problem, begun)) != begun).any():
            ours.append(grown(problem, room_made))
        begins = np.concatenate((np.stack(ours, axis=1), begins), axis=1)
        search = Search(problem, random)
        return search.run(begins, parameters.population, parameters.generations, parameters.patience)

    def _stored(self, result: Found, members: Ints, cells: int) -> dict[str, Array]:
        """As much of a population as is kept for the next search."""
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
        """What the rows `members` want for each GPU of CPUs and memory, and what `nodes` have."""
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
        """Grants for what was found; who is not changed keeps his devices, unless a job with a part of a GPU
        has been placed on one of them, or uses up the quota."""
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
        """Who still waits starts on its least size, where it fits, first come first served."""
        if not self._is_searched:
            self.carrier.keep(list(self.held.values()))
            self._others = self.carrier.others(self.others)
        waiting = [
            row for row in sorted(self.rows.tolist()) if row not in self.grants and row not in self.held
        ]
        for grant in self.carrier.first_come(waiting):
            self.grants[grant.job] = grant

    # -- what is decided ---------------------------------------------------------------------------

    def changed(self, *, batches: bool) -> list[Grant]:
        """Grants that differ from what is held; with `batches` those of all rows are looked at."""
        decided = []
        for place, row in enumerate(self.rows.tolist()):
            grant, old = self.grants.get(row), self.held.get(row)
            if grant is None:
                continue
            is_moved = old is None or grant.devices != old.devices
            if self.parameters.is_artifact:
                grant = grant._replace(
                    batch_size=self.speedups.pinned_batch(self.snapshot, self.models, place)
                )
            elif is_moved or batches:
                grant = self._with_batch(place, grant, old)
            if grant != old:
                decided.append(grant)
        return decided + self._others

    def _with_batch(self, place: int, grant: Grant, old: Grant | None) -> Grant:
        """The grant with the batch that is best there."""
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
    """GPUs of a type that the tenant of a job may have at all."""
    tenants = snapshot.cluster.tenants
    if not tenants:
        return math.inf
    lineage = tenants.lineage(snapshot.jobs.table.name_of("tenant", row))
    quotas = [tenant.quota_by_type.get(gpu_type, math.inf) for tenant in lineage if tenant.hard]
    return min(quotas, default=math.inf)


def _home_types(snapshot: Snapshot, rows: Ints) -> Ints:
    """The type of GPU on which each row is, or on which it is to start: where most are free."""
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
