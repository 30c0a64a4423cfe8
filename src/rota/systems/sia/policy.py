"""Sia's round: menus, values, one integer program, placement; and what it says of jobs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

import numpy as np

from rota.knowledge.goodput import stages_of
from rota.knowledge.needs import Knowledge, Table
from rota.model.columns import Bools, Floats, Ints
from rota.model.grants import Can, Grant
from rota.model.reasons import Code, Constraint
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import GPUS, Targets
from rota.solvers.configurations import NOTHING, Assignment, ConfigurationOptions, SearchLimits, assign
from rota.stages.priority import ByPriority
from rota.stages.quota_caps import typed_limits
from rota.stages.sizes import are_silent, left_alone
from rota.stages.trial import admit_placed
from rota.systems.sia.configurations import (
    HeldGpus,
    Menu,
    TypeShape,
    configurations,
    menu_of,
    power_cost,
    restart_factor,
    shapes_of,
    values,
)
from rota.systems.sia.goodputs import Goodputs, SizesByType
from rota.systems.sia.parameters import SiaParameters
from rota.systems.sia.placing import Placer, WantedConfiguration
from rota.table.occupancy import Occupancy

_TIE_HELD, _TIE_GPU, _TIE_PLACE = 1e-5, 1e-7, 1e-10
"""Preference among equal costs: what a job has, fewer GPUs, the configuration that comes first."""
_ROUNDED = 0.01
"""The least by which two rounded costs differ."""
_BY_SUBMISSION = ByPriority(lambda snapshot, row: row)
_MOST = 6
"""Configurations named in one answer."""


@dataclass
class SiaMemory:
    """What the policy remembers from round to round."""

    next_s: float = 0.0
    """When the next round begins."""
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Jobs that have run, ascending, ..."""
    most: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """... and the most GPUs that each has held."""
    cut: int = 0
    """Programs whose search ended at its limit; ..."""
    missing: float = 0.0
    """... and by how much the last one may miss the optimum."""
    refused: dict[int, list[float]] = field(default_factory=dict)
    """Jobs that the cluster refused to change: see `left_alone`."""


@dataclass(frozen=True)
class _Round:
    """The program of one round, and what came out."""

    rows: Ints
    held: HeldGpus
    menu: Menu
    value: Floats
    cost: Floats
    chosen: Assignment


def _targets(turn: _Round) -> Targets:
    """GPUs of the configuration chosen for each job."""

    def by_row() -> dict[int, float]:
        option = turn.chosen.option
        gpus = np.where(option >= 0, turn.menu.gpus[option] if len(turn.menu.gpus) else 0, 0)
        return dict(zip(turn.rows.tolist(), gpus.astype(np.float64).tolist(), strict=True))

    return Targets(by_row)


class SiaRounds:
    """Weighs the configurations of all jobs each round."""

    clips: ClassVar[bool] = True
    """As in `GoodputSizes`."""
    alone_known: ClassVar[bool] = True
    """True if the known goodput of a job on one GPU counts at its first start."""
    news: ClassVar[Event] = Event.ROUND | Event.CAPACITY | Event.IDLE
    """Events at which a decision is made."""

    def __init__(self, parameters: SiaParameters) -> None:
        self.parameters = parameters
        self._sizes = SizesByType(clips=self.clips)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        book = SiaMemory(**memory)
        rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        rows = rows[snapshot.jobs.gpus[rows] > 0]
        shapes = _shapes(snapshot)
        self._note(snapshot, book)
        movable = rows[~_pinned(snapshot, rows, left_alone(snapshot, book.refused))]
        turn = self._solve(snapshot, book, movable, shapes)
        decision = self._carry_out(snapshot, turn, shapes)
        book.next_s = snapshot.now + self.parameters.round_s
        decision.ranking = ByConfiguration(
            turn.rows, turn.menu, turn.value, turn.cost, turn.chosen.option, book.next_s
        )
        decision.targets, decision.target = _targets(turn), GPUS
        decision.is_cut = turn.chosen.is_cut
        decision.memory = vars(book)
        decision.wake = Wake(book.next_s, self.news) if len(rows) else Wake()
        return decision

    # -- what is known -----------------------------------------------------------------------------

    def _note(self, snapshot: Snapshot, book: SiaMemory) -> None:
        """Remember how far each job that lives has grown."""
        live = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        known = np.isin(book.rows, live)
        most = dict(zip(book.rows[known].tolist(), book.most[known].tolist(), strict=True))
        for row, grant in snapshot.grants.items():
            most[row] = max(most.get(row, 0), len(grant.devices))
        book.rows = np.array(sorted(most), dtype=np.int64)
        book.most = np.array([most[row] for row in book.rows.tolist()], dtype=np.int64)

    def _reach(self, book: SiaMemory, told: Table, rows: Ints) -> Ints:
        """GPUs that each row may be given at most: twice what it has been measured on."""
        p = self.parameters
        if "profiled" in told.by_row:
            most = told.by_row["profiled"][rows].max(axis=1, initial=0)
        else:
            place = np.minimum(np.searchsorted(book.rows, rows), max(len(book.rows) - 1, 0))
            ran = book.rows[place] == rows if len(book.rows) else np.zeros(len(rows), dtype=bool)
            most = np.where(ran, book.most[place] if len(book.rows) else 0, 0)
        grown = np.maximum(np.floor(p.growth * most), 1.0)
        limits = told.shared["limits"][told.by_row["class"][rows]]
        stages = stages_of(told, told.by_row["class"][rows]).max(axis=1)
        split = np.maximum(limits[:, 1] // np.maximum(limits[:, 2], 1.0), 1.0) * stages
        reach: Ints = np.minimum(np.minimum(grown, split), p.most_gpus).astype(np.int64)
        return reach

    # -- the program -------------------------------------------------------------------------------

    def _solve(self, snapshot: Snapshot, book: SiaMemory, rows: Ints, shapes: list[TypeShape]) -> _Round:
        p, jobs, told = self.parameters, snapshot.jobs, snapshot.know(Knowledge.GOODPUT)
        held = HeldGpus.of(snapshot, rows)
        sets = configurations(shapes, p.most_gpus)
        stages = stages_of(told, told.by_row["class"][rows])
        menu = menu_of(snapshot, rows, held, self._reach(book, told, rows), sets, shapes, stages)
        goodputs = self.goodputs(snapshot, told, rows)
        goodput = goodputs.of(menu, shapes, self._sizes, alone_known=self.alone_known)
        value = values(menu, goodput, self.units(snapshot, rows, goodputs))
        factor = self._factors(snapshot, rows, held)
        needs_restart = held.runs[menu.job] & ~menu.is_held
        worth = np.where(needs_restart, value * factor[menu.job], value)
        cost = power_cost(worth, p.power, p.no_allocation)
        ties = _TIE_GPU * menu.gpus - _TIE_HELD * menu.is_held + _TIE_PLACE * np.arange(len(cost))
        usable = np.flatnonzero(worth > 0.0)
        share: Floats = jobs.gpu_share[rows][menu.job]
        cost_of = cost + ties
        job, kind, room = menu.job[usable], menu.kind[usable], _room(snapshot, rows, shapes)
        options = ConfigurationOptions(job, kind, (menu.gpus * share)[usable], cost_of[usable])
        if (quotas := typed_limits(snapshot, rows, job, kind)) is not None:
            options, room = options._replace(counts_in=quotas.counts_in), np.append(room, quotas.left)
        gap = p.gap * p.no_allocation * len(rows)
        limits = SearchLimits(gap if gap >= _ROUNDED else 0.0, p.nodes, wall_s=p.wall_s)
        assignment = assign(options, len(rows), room, limits)
        option = (
            np.where(assignment.option >= 0, usable[assignment.option], NOTHING)
            if len(usable)
            else assignment.option
        )
        book.cut += assignment.is_cut
        book.missing = assignment.cost - assignment.bound
        return _Round(rows, held, menu, value, cost, assignment._replace(option=option))

    def goodputs(self, snapshot: Snapshot, told: Table, rows: Ints) -> Goodputs:
        """The known goodput of `rows`."""
        return Goodputs(told, rows, snapshot.jobs.work_done(rows), fixed_batch(snapshot, rows))

    def units(self, snapshot: Snapshot, rows: Ints, goodputs: Goodputs) -> Ints:
        """Value of each job's least useful configuration: the fewest GPUs that it asks for."""
        fewest: Ints = snapshot.jobs.gpus_min[rows]
        return fewest

    def restart_s(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """Seconds that a restart of each row is taken to cost."""
        return np.full(len(rows), self.parameters.restart_s)

    def _factors(self, snapshot: Snapshot, rows: Ints, held: HeldGpus) -> Floats:
        """The part of a configuration's value that a restart leaves."""
        p, jobs = self.parameters, snapshot.jobs
        if not p.restart_factor:
            return np.ones(len(rows))
        age_s = snapshot.now - jobs.submit_s[rows]
        return restart_factor(age_s, jobs.moves[rows], self.restart_s(snapshot, rows))

    # -- carrying it out ---------------------------------------------------------------------------

    def _carry_out(self, snapshot: Snapshot, turn: _Round, shapes: list[TypeShape]) -> Decision:
        menu, option = turn.menu, turn.chosen.option
        has = np.flatnonzero(option >= 0)
        place = option[has]
        wanted = [
            WantedConfiguration(*one)
            for one in zip(
                turn.rows[has].tolist(), menu.kind[place].tolist(), menu.gpus[place].tolist(), strict=True
            )
        ]
        stays = turn.rows[has[menu.is_held[place]]].tolist()
        keeps = {row: snapshot.grants[row] for row in stays}
        gone = [row for row in turn.rows[turn.held.runs].tolist() if row not in keeps]
        placer = Placer(snapshot, shapes, gone)
        placer.place(wanted, keeps)
        self._place_otherwise(turn, placer)
        after = {**keeps, **placer.placed}
        lost = {one.row for one in placer.failed} - placer.placed.keys()
        grants = [grant for row, grant in after.items() if row not in lost and _differs(snapshot, row, grant)]
        running = turn.rows[turn.held.runs].tolist()
        preempt = [row for row in running if row in lost or row not in after]
        waiting = snapshot.waiting
        idle = waiting[snapshot.jobs.gpus[waiting] == 0].tolist()
        return Decision({}, [*grants, *admit_placed(idle, placer.scratch, placer.fit)], preempt)

    def _place_otherwise(self, turn: _Round, placer: Placer) -> None:
        """Give a job without a place the best of its menu that has one; at last, parts of several nodes."""
        place_of = {row: place for place, row in enumerate(turn.rows.tolist())}
        for one in placer.failed:
            menu = np.flatnonzero((turn.menu.job == place_of[one.row]) & (turn.cost < 0.0))
            best = menu[np.argsort(turn.cost[menu], kind="stable")].tolist()
            for scattered, place in product((False, True), best):
                other = WantedConfiguration(one.row, turn.menu.kind.item(place), turn.menu.gpus.item(place))
                if placer.add(other, scattered=scattered):
                    break


def _shapes(snapshot: Snapshot) -> list[TypeShape]:
    cluster, down = snapshot.cluster, sorted(snapshot.occupancy.down)
    healthy = cluster.node_gpus - np.bincount(cluster.device_node[down], minlength=cluster.nodes)
    return shapes_of(cluster.node_type, healthy, len(cluster.type_names))


def _pinned(snapshot: Snapshot, rows: Ints, alone: Container[int]) -> Bools:
    """Rows that stay as they are: they restore, bear no stop of any kind, or are left `alone`.

    On a live cluster the end of a first start is unknown until the program has spoken.
    """
    ready_s = snapshot.jobs.ready_s(rows)
    restores = np.isfinite(ready_s) & (ready_s > snapshot.now)
    runs = np.array([row in snapshot.grants for row in rows.tolist()], dtype=bool)
    bears = (snapshot.jobs.can(rows) & (Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE)) != 0
    refused = np.array([row in alone for row in rows.tolist()], dtype=bool)
    pinned: Bools = restores | (runs & (~bears | refused)) | are_silent(snapshot, rows)
    return pinned


def fixed_batch(snapshot: Snapshot, rows: Ints) -> Floats:
    """Batch size of the jobs that may not choose it; NaN for the others."""
    jobs = snapshot.jobs
    free = jobs.batch_max[rows] > jobs.batch_min[rows]
    fixed: Floats = np.where(free, np.nan, jobs.batch_size[rows])
    return fixed


def _room(snapshot: Snapshot, rows: Ints, shapes: list[TypeShape]) -> Floats:
    """GPUs of each type that `rows` may divide: healthy ones, less what others hold."""
    room = np.array([shape.gpus for shape in shapes], dtype=np.float64)
    among, kinds = set(rows.tolist()), snapshot.cluster.device_type
    for row, grant in snapshot.grants.items():
        if row not in among:
            for device in grant.devices:
                room[kinds[device]] -= grant.share * (device not in snapshot.occupancy.down)
    return np.maximum(room, 0.0)


def _differs(snapshot: Snapshot, row: int, grant: Grant) -> bool:
    """True if `grant` is not what the job holds."""
    held = snapshot.grants.get(row)
    return held is None or held.devices != grant.devices or held.share != grant.share


class ByConfiguration:
    """The configurations of one decision: why a job runs as it does, or waits."""

    spreads = False

    def __init__(
        self, rows: Ints, menu: Menu, value: Floats, cost: Floats, chosen: Ints, next_s: float
    ) -> None:
        self._rows = rows
        self._menu = menu
        self._value = value
        self._cost = cost
        self._chosen = chosen
        """By job, its place on the menu; -1 for none."""
        self._next_s = next_s

    def ahead(self, snapshot: Snapshot, row: int) -> Sequence[int]:
        """No job: all are weighed together."""
        return ()

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        return _BY_SUBMISSION.fits(snapshot, scratch, row)

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """The program's result for a job; None if the program did not look at it."""
        if snapshot.gpus_of[row] == 0:
            return None
        left_s = max(self._next_s - snapshot.now, 0.0)
        place = np.flatnonzero(self._rows == row)
        if not len(place):  # it came after the decision, or goes on as it is
            return None if row in snapshot.grants else Constraint(Code.ROUND, provided=left_s)
        job = int(place[0])
        runs = row in snapshot.grants
        if not runs and self._chosen[job] >= 0:
            return None  # it has been given GPUs, but there was no place for them: the cluster says why
        worth = self._worth(snapshot, job)
        if runs:
            return Constraint(Code.TURN, 1.0, left_s, f"weighed by goodput, {worth}")
        return Constraint(Code.POLICY, detail=f"others gain more from the GPUs; to this job {worth}")

    def _worth(self, snapshot: Snapshot, job: int) -> str:
        """`worth 3.6 with 4 A100, 2 with 2 A100, 1 with 1 T4`, the best first."""
        places = np.flatnonzero((self._menu.job == job) & (self._value > 0.0))
        best = places[np.lexsort((places, self._cost[places]))]
        names = snapshot.cluster.type_names
        words = [
            f"{self._value.item(place):.3g} with {self._menu.gpus.item(place)} "
            f"{names[self._menu.kind.item(place)]}" + " (chosen)" * int(place == self._chosen[job])
            for place in best[:_MOST].tolist()
        ]
        if len(best) > _MOST:
            words.append(f"{len(best) - _MOST} others")
        return f"they are worth {', '.join(words)}" if words else "no configuration is of any use"
