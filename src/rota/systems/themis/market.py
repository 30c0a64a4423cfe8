"""GPUs on offer and what apps hold of them: bids made one group at a time, on a scratch of the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from rota.knowledge.needs import Knowledge
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.solvers.auction import AuctionStep
from rota.stages.feeding import FeedingFitter
from rota.stages.place import consolidate
from rota.stages.requests import request_kinds
from rota.stages.resize import keeping
from rota.systems.themis.apps import App, Estimates, Holds, value_of
from rota.systems.themis.leases import Leases
from rota.systems.themis.placing import Closely
from rota.table.occupancy import EPSILON, Occupancy


class AppGroup(NamedTuple):
    """The next GPUs an app could use: a gang for one more job, or more of them for one that has some."""

    old: Grant | None
    new: Grant
    value: float
    """Logarithm of the app's value with them."""


class Handed(NamedTuple):
    """One group that was handed out."""

    app: int
    group: AppGroup
    before: float
    """The app's value before."""


class Tables:
    """Data derived from the cluster and the table of jobs alone: kept from one decision to the next."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self.closely: Closely
        self.kinds: list[int]
        self.any_will_do: bool
        self.fastest_will_do: bool

    def follow(self, snapshot: Snapshot) -> None:
        """Bring the market up to this snapshot."""
        placement = snapshot.know(Knowledge.PLACEMENT)
        jobs, cluster, rates = snapshot.jobs.table, snapshot.cluster, placement.shared["rates"]
        before = self._of
        if before and before[0] is jobs and before[1] is cluster and before[2] is rates:
            return
        self._of = (jobs, cluster, rates)
        self.closely = Closely(cluster, placement)
        self.kinds = request_kinds(jobs, cluster).tolist()
        # Where it matters neither how many GPUs a job has nor which, a holder of its gang can do no better;
        # where only their type matters, a holder of it on its fastest.
        is_rigid = bool((jobs.gpus_min == jobs.gpus_max).all())
        self.fastest_will_do = is_rigid and not (rates < 1.0).any()
        self.any_will_do = self.fastest_will_do and len(cluster.type_names) == 1


class OpenMarket:
    """Free GPUs and expired leases, among apps that keep what their other leases hold."""

    def __init__(
        self,
        snapshot: Snapshot,
        apps: list[App],
        crowd: list[float],
        estimates: Estimates,
        leases: Leases,
        tables: Tables,
    ) -> None:
        """`apps` hold something on offer, or may want more than they hold."""
        self.snapshot = snapshot
        self.apps = apps
        self.crowd = crowd
        self.estimates = estimates
        self.fit = FeedingFitter(snapshot, consolidate)
        self.scratch: Occupancy = self.fit.scratch(snapshot)
        for grant in _held_by(leases.ended(), snapshot):
            self.scratch.release(grant)
        self.holds: list[Holds] = [leases.of(app.rows, snapshot) for app in apps]
        self._seconds = [{row: estimates.seconds(g) for row, g in holds.items()} for holds in self.holds]
        self.values = [self._value(i, self.holds[i], self._seconds[i]) for i in range(len(apps))]
        self.log: list[Handed] = []
        self._next: dict[int, AppGroup] = {}
        self.closely, self._kinds = tables.closely, tables.kinds
        self._hopeless: set[tuple[int, int]] = set()

    # -- what the auction asks ---------------------------------------------------------------------

    @property
    def left(self) -> int:
        return self.scratch.free.total

    def step(self, bidder: int) -> AuctionStep | None:
        """The group with which the bidder gains most for its finish."""
        best: AppGroup | None = None
        misfit: AuctionStep | None = None
        for row, count in self._wishes(bidder):
            group = self._group(bidder, row, count)
            if group is not None:
                best = group
                break
            misfit = misfit or self._at_best(bidder, row, count)
        if best is None:
            return misfit
        self._next[bidder] = best
        had = len(best.old.devices) if best.old else 0
        return AuctionStep(best.value - self.values[bidder], max(len(best.new.devices) - had, 1), True)

    def take(self, bidder: int) -> None:
        self._enter(bidder, self._next.pop(bidder))

    def reset(self) -> None:
        while self.log:
            self._undo(len(self.log) - 1)

    # -- besides -----------------------------------------------------------------------------------

    def take_any(self, bidder: int) -> bool:
        """Give the bidder one usable group, whether its finish gains by that or not; False if none fits."""
        for row, count in (*self._wishes(bidder), *self._idle(bidder)):
            group = self._group(bidder, row, count)
            if group is not None and (group.old is None or group.value > self.values[bidder]):
                self._enter(bidder, group)
                return True
        return False

    def give(self, bidder: int, grant: Grant) -> None:
        """Give the bidder exactly this grant, for a job that has nothing."""
        seconds = {**self._seconds[bidder], grant.job: self.estimates.seconds(grant)}
        holds = {**self.holds[bidder], grant.job: grant}
        self._enter(bidder, AppGroup(None, grant, self._value(bidder, holds, seconds)))

    def pay(self, bidder: int, kept: int) -> None:
        """Take the bidder's last groups back until `kept` GPUs or fewer, or only its first one, are left."""
        own = [place for place, handed in enumerate(self.log) if handed.app == bidder]
        sizes = [_size(self.log[place].group) for place in own]
        while len(own) > 1 and sum(sizes) > kept:
            self._undo(own.pop())
            sizes.pop()

    def gained(self, bidder: int) -> int:
        """GPUs it has been given."""
        return sum(_size(handed.group) for handed in self.log if handed.app == bidder)

    def is_near(self, bidder: int) -> bool:
        """True if something is free on a node on which it has GPUs."""
        free = self.scratch.free
        return any(
            free.count[free.node_of[d]] for grant in self.holds[bidder].values() for d in grant.devices
        )

    def won(self) -> Holds:
        """Grants handed out, by row: all that a job then holds."""
        return {handed.group.new.job: handed.group.new for handed in self.log}

    def wants(self, bidder: int) -> bool:
        """True if it could use more than it has."""
        rows, holds = self.apps[bidder].rows, self.holds[bidder]
        if len(holds) < len(rows):
            return True
        if len(rows) == 1:
            return len(holds[rows[0]].devices) < self.estimates.counts(rows[0])[-1]
        return any(True for _ in (*self._wishes(bidder), *self._idle(bidder)))

    # -- single groups -----------------------------------------------------------------------------

    def _wishes(self, bidder: int) -> Iterator[tuple[int, int]]:
        """Jobs with numbers of GPUs that would bring the end of the app nearer, the best first.

        In an app that ends with its first job, that job grows; in one that ends with its last, all start,
        then the one that takes longest grows.
        """
        app, holds, counts = self.apps[bidder], self.holds[bidder], self.estimates.counts
        idle = [row for row in app.rows if row not in holds]
        if idle and (not app.is_first or not holds):
            for row in idle:
                yield row, counts(row)[0]
            return
        seconds = self._seconds[bidder]
        order = sorted(holds, key=lambda row: (seconds[row] if app.is_first else -seconds[row], row))
        for row in order[:1]:
            has = len(holds[row].devices)
            yield from ((row, count) for count in counts(row) if count > has)

    def _idle(self, bidder: int) -> Iterator[tuple[int, int]]:
        """Jobs of the app that have nothing, and more for those that have something."""
        app, holds, counts = self.apps[bidder], self.holds[bidder], self.estimates.counts
        yield from ((row, counts(row)[0]) for row in app.rows if row not in holds)
        for row in app.rows:
            if row in holds:
                has = len(holds[row].devices)
                yield from ((row, count) for count in counts(row)[-1:] if count > has)

    def _group(self, bidder: int, row: int, count: int) -> AppGroup | None:
        """The group of `count` GPUs for `row`, on the best of what is left; None if there is no place."""
        old = self.holds[bidder].get(row)
        kind = (self._kinds[row], count) if old is None else None
        if kind in self._hopeless:
            return None
        grant = self._grown(old, count) if old else self._started(row, count)
        if grant is None:
            if kind is not None:
                self._hopeless.add(kind)
            return None
        holds = {**self.holds[bidder], row: grant}
        seconds = {**self._seconds[bidder], row: self.estimates.seconds(grant)}
        return AppGroup(old, grant, self._value(bidder, holds, seconds))

    def _started(self, row: int, count: int) -> Grant | None:
        """Devices for a job that has none: its own former ones unless others are faster."""
        own = self.snapshot.grants.get(row)
        best, best_s = None, math.inf
        free, fit, estimates = self.scratch.free, self.fit, self.estimates
        if own is not None and own.share == 1.0 and all(map(free.is_free, own.devices)):
            best = self._of_own(own, count)
            best_s = estimates.seconds(best) if best is not None else math.inf
            if best is not None and best_s <= estimates.at_best(row, count) * (1.0 + 1e-9):
                return best
        fit.place = self.closely.rule(estimates.class_of[row])
        for kind, least_s in estimates.by_speed(row, count):
            if least_s >= best_s * (1.0 - 1e-9):
                break
            grant = fit.on_type(self.scratch, row, kind, count)
            if grant is not None:
                seconds = estimates.seconds(grant)
                if seconds < best_s * (1.0 - 1e-9):
                    best, best_s = grant, seconds
        return best

    def _of_own(self, own: Grant, count: int) -> Grant | None:
        """`count` devices: those that the job had before, as far as they are free, or more beside them."""
        if count == len(own.devices):
            return own if self.fit.admits(self.scratch, own) else None
        self.fit.place = keeping(own.devices)
        kind = int(self.snapshot.cluster.device_type[own.devices[0]])
        return self.fit.on_type(self.scratch, own.job, kind, count)

    def _grown(self, old: Grant, count: int) -> Grant | None:
        """A grant of `count` GPUs for the job of `old`, including those it has if that is no worse."""
        self._release(old)
        own = self.snapshot.grants.get(old.job, old)
        free = self.scratch.free
        before = own if count <= len(own.devices) and all(map(free.is_free, own.devices)) else old
        grant = self._of_own(before, count)
        self._hold(old)
        return grant

    def _at_best(self, bidder: int, row: int, count: int) -> AuctionStep:
        """Gain of a group that does not fit, as if there were room."""
        app = self.apps[bidder]
        seconds = {**self._seconds[bidder], row: self.estimates.at_best(row, count)}
        old = self.holds[bidder].get(row)
        holds = {**self.holds[bidder], row: old or Grant(row, tuple(range(count)))}
        value = self._value(bidder, holds, seconds) if app.rows else 0.0
        more = count - (len(old.devices) if old else 0)
        return AuctionStep(value - self.values[bidder], max(more, 1), False)

    def _value(self, bidder: int, holds: Holds, seconds: dict[int, float]) -> float:
        """Logarithm of 1 / ρ."""
        return value_of(self.apps[bidder], self.estimates, holds, seconds, self.crowd[bidder])

    def _enter(self, bidder: int, group: AppGroup) -> None:
        if group.old is not None:
            self._release(group.old)
        self._hold(group.new)
        self.log.append(Handed(bidder, group, self.values[bidder]))
        self._have(bidder, group.new)
        self.values[bidder] = group.value

    def _undo(self, place: int) -> None:
        bidder, group, before = self.log[place]
        old = group.old
        self._release(group.new)
        self._hopeless.clear()
        if old is not None and not self._may_return(old):
            self._shrink(place)
            return
        del self.log[place]
        if old is not None:
            self._hold(old)
            self._have(bidder, old)
        else:
            del self.holds[bidder][group.new.job], self._seconds[bidder][group.new.job]
        self.values[bidder] = before

    def _may_return(self, old: Grant) -> bool:
        """True unless its devices, or the cores and memory beside them, have been given to others since.

        Closed devices take no new jobs, and may well be its own.
        """
        claimed = self.scratch.claimed
        return all(claimed[d] <= EPSILON for d in old.devices) and self.fit.admits(self.scratch, old)

    def _shrink(self, place: int) -> None:
        """Return a job that moved for more GPUs to its former number, on some of the new ones."""
        bidder, group, _ = self.log[place]
        assert group.old is not None
        devices = keeping(group.new.devices)(self.scratch.free.copy(), len(group.old.devices))
        assert devices is not None, "they are some of those that it had"
        new = group.new._replace(devices=devices)
        self._hold(new)
        self._have(bidder, new)
        self.values[bidder] = self._value(bidder, self.holds[bidder], self._seconds[bidder])
        before = next((at for at in range(place - 1, -1, -1) if self._is_of(at, bidder, new.job)), place)
        handed = self.log[before]
        self.log[before] = handed._replace(group=handed.group._replace(new=new, value=self.values[bidder]))
        if before != place:
            del self.log[place]

    def _is_of(self, place: int, bidder: int, row: int) -> bool:
        handed = self.log[place]
        return handed.app == bidder and handed.group.new.job == row

    def _hold(self, grant: Grant) -> None:
        self.scratch.hold(grant)
        self.fit.touch(grant)

    def _release(self, grant: Grant) -> None:
        self.scratch.release(grant)
        self.fit.touch(grant)

    def _have(self, bidder: int, grant: Grant) -> None:
        self.holds[bidder][grant.job] = grant
        self._seconds[bidder][grant.job] = self.estimates.seconds(grant)


def _held_by(rows: list[int], snapshot: Snapshot) -> list[Grant]:
    """What `rows` hold, in the order in which they began to: sums of cores and shares depend on it."""
    grants = snapshot.grants
    if len(rows) < 2:
        return [grants[row] for row in rows]
    theirs = set(rows)
    return [grant for row, grant in grants.items() if row in theirs]


def _size(group: AppGroup) -> int:
    return len(group.new.devices) - (len(group.old.devices) if group.old else 0)
