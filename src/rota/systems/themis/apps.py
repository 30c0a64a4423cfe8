"""Apps and what is known of them: which jobs belong together, how long each takes on what it might hold.

An app is the live jobs of one group that belong together, or a single job.  It ends with the first of them
to complete if all of them say so (`group_rule`), else with the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rota.knowledge.needs import Knowledge, Table
from rota.knowledge.placement import Closeness
from rota.knowledge.scaling import rates_on
from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats, Ints
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Can, Grant
from rota.model.job_columns import GroupRule
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.solvers.auction import LEAST_VALUE
from rota.stages.finish_time import finish_time_ratio
from rota.stages.remaining import remaining_s
from rota.systems.themis.parameters import Groups

Holds = dict[int, Grant]
"""What jobs of an app hold, by row."""

_LEAST_S = 1e-6
"""Least seconds that anything takes: no ratio is 0."""


@dataclass(frozen=True)
class App:
    """Jobs that share their GPUs among themselves."""

    key: str
    """`group NAME` and what is added to it, or `row 17` for a single job."""
    rows: tuple[int, ...]
    """Live jobs in the order in which they get GPUs: what ends the app soonest first."""
    is_first: bool
    """True if it ends with the first of them, else with the last."""
    began_s: float
    since_s: float
    """Seconds since the earliest of them was submitted."""
    cluster_s: float
    """Seconds it would take with the whole cluster to itself."""


@dataclass(frozen=True)
class Readings:
    """Readings of live jobs at one moment: of all at once, for estimates of some, now or later."""

    now: float
    table: JobTable
    cluster: Cluster
    healthy: int
    """GPUs of the cluster that are not down."""
    scaling: Table
    placement: Table
    rows: Ints
    left_s: Floats
    total_s: Floats
    rates: Floats
    """Rates by job and type of GPUs."""
    can: Ints
    """Flags of `Can`."""

    @classmethod
    def of(cls, snapshot: Snapshot, rows: Ints) -> Readings:
        """The readings of the live `rows`, ascending."""
        left = np.maximum(remaining_s(snapshot, rows), 0.0)
        return cls(
            snapshot.now,
            snapshot.jobs.table,
            snapshot.cluster,
            snapshot.cluster.gpus - len(snapshot.occupancy.down),
            snapshot.know(Knowledge.SCALING),
            snapshot.know(Knowledge.PLACEMENT),
            rows,
            left,
            np.maximum(snapshot.know(Knowledge.DURATION)[rows], left),
            snapshot.know(Knowledge.THROUGHPUT)[rows],
            snapshot.jobs.can(rows),
        )

    def only(self, which: Bools) -> Readings:
        """The readings of some of the jobs only."""
        rows, left, total = self.rows[which], self.left_s[which], self.total_s[which]
        rates, can = self.rates[which], self.can[which]
        return replace(self, rows=rows, left_s=left, total_s=total, rates=rates, can=can)


class Estimates:
    """How long live jobs would take: what bidders know."""

    def __init__(self, seen: Readings, grants: Mapping[int, Grant]) -> None:
        """`grants` are what jobs hold, by row."""
        jobs, rows, rates, left = seen.table, seen.rows, seen.rates, seen.left_s
        self._jobs = jobs
        self._scaling = seen.scaling
        self._closeness = closeness_of(seen.cluster, seen.placement)
        self._kind_of = seen.cluster.device_type
        top = rates.max(axis=1, keepdims=True, initial=0.0)
        speeds = np.divide(rates, top, out=np.zeros_like(rates), where=top > 0.0)
        asked = jobs.gpus[rows]
        most = np.maximum(np.minimum(jobs.gpus_max[rows], seen.healthy), 1)
        faster = np.maximum(rates_on(self._scaling, rows, most), 1e-12)
        alone = seen.total_s * rates_on(self._scaling, rows, asked) / faster
        gpus = asked * jobs.gpu_share[rows]
        each, classes = rows.tolist(), seen.placement.by_row["class"][rows].tolist()
        self.class_of: dict[int, int] = dict(zip(each, classes, strict=True))
        """The class of each row's placement slowdowns."""
        self.left_s: dict[int, float] = dict(zip(each, left.tolist(), strict=True))
        """Seconds to go on what was asked for, on the fastest type, placed as closely as can be."""
        self.alone_s: dict[int, float] = dict(zip(each, alone.tolist(), strict=True))
        """Seconds of the whole job on as many GPUs as it can use."""
        self.gpus: dict[int, float] = dict(zip(each, gpus.tolist(), strict=True))
        self._speeds: dict[int, list[float]] = dict(zip(each, speeds.tolist(), strict=True))
        elastic = (jobs.gpus_min[rows] < jobs.gpus_max[rows]) & (jobs.gpu_share[rows] == 1.0)
        bears = (seen.can & Can.RESIZE) != 0
        self._counts: dict[int, Sequence[int]] = {}
        for row, resizes in zip(rows[elastic].tolist(), bears[elastic].tolist(), strict=True):
            held = grants.get(row)
            self._counts[row] = (
                feasible_counts(jobs, row) if resizes or held is None else (len(held.devices),)
            )
        self._types: dict[int, list[int]] = {}
        self._ratio: dict[tuple[int, int], float] = {}

    def counts(self, row: int) -> Sequence[int]:
        """Numbers of GPUs that `row` can use, ascending."""
        counts = self._counts.get(row)
        return (self._jobs.gpus.item(row),) if counts is None else counts

    def runs_on(self, row: int, kind: int) -> bool:
        """True if it does any work on GPUs of the type."""
        return self._speeds[row][kind] > 0.0

    def by_speed(self, row: int, count: int) -> list[tuple[int, float]]:
        """Types on which it runs, the fastest first, each with the seconds to go on `count` GPUs of it."""
        if row not in self._types:
            speeds = self._speeds[row]
            self._types[row] = sorted(
                (kind for kind, speed in enumerate(speeds) if speed > 0.0),
                key=lambda kind: (-speeds[kind], kind),
            )
        best_s = self.at_best(row, count)
        return [(kind, best_s / self._speeds[row][kind]) for kind in self._types[row]]

    def seconds(self, grant: Grant) -> float:
        """Seconds that the job of `grant` has to go on what it is given there."""
        row, devices = grant.job, grant.devices
        if not devices:
            return self.left_s[row]
        speed = self._speeds[row][self._kind_of.item(devices[0])] * self._gain(row, len(devices))
        speed *= self._closeness.factor(self.class_of[row], devices)
        return self.left_s[row] / speed if speed > 0.0 else math.inf

    def at_best(self, row: int, count: int) -> float:
        """The value on `count` GPUs of the fastest type, as close as can be."""
        gain = self._gain(row, count)
        return self.left_s[row] / gain if gain > 0.0 else math.inf

    def _gain(self, row: int, count: int) -> float:
        """Speed on `count` GPUs over that on those it asked for."""
        asked = self._jobs.gpus.item(row)
        if count == asked:
            return 1.0
        if (row, count) not in self._ratio:
            at, base = rates_on(self._scaling, np.array([row]), np.array([[count], [asked]])).ravel().tolist()
            self._ratio[row, count] = at / base if base > 0.0 else 0.0
        return self._ratio[row, count]


_CLOSENESS: dict[str, tuple[object, object, Closeness]] = {}


def closeness_of(cluster: Cluster, placement: Table) -> Closeness:
    """Reads the placement slowdowns of one cluster; the last one is kept, being the same for a whole run."""
    rates = placement.shared["rates"]
    kept = _CLOSENESS.get("last")
    if kept is None or kept[0] is not cluster or kept[1] is not rates:
        kept = _CLOSENESS["last"] = (cluster, rates, Closeness(cluster, rates))
    return kept[2]


def key_of(groups: Groups, table: JobTable, row: int) -> str:
    """The app of a job."""
    if groups is Groups.NONE or table.group.item(row) < 0:
        return f"row {row}"
    name = f"group {table.name_of('group', row)}"
    if groups is Groups.EVERY or table.group_rule.item(row) == GroupRule.FIRST:
        return name
    return f"{name}, of {table.submit_s.item(row):g} s"


def app_of(key: str, rows: list[int], seen: Readings, estimates: Estimates) -> App:
    """The app of the live `rows`, which are all of it."""
    table, now = seen.table, seen.now
    if len(rows) == 1:
        began_s, alone_s = table.submit_s.item(rows[0]), max(estimates.alone_s[rows[0]], _LEAST_S)
        return App(key, (rows[0],), False, began_s, now - began_s, alone_s)
    began_s = min(table.submit_s.item(row) for row in rows)
    is_first = all(table.group_rule.item(row) == GroupRule.FIRST for row in rows)
    left = estimates.left_s
    order = sorted(rows, key=lambda row: (left[row] if is_first else -left[row], row))
    alone = [estimates.alone_s[row] for row in rows]
    healthy = max(seen.healthy, 1)
    work = sum(estimates.alone_s[row] * min(table.gpus_max.item(row), healthy) for row in rows)
    cluster_s = min(alone) if is_first else max(*alone, work / healthy)
    return App(key, tuple(order), is_first, began_s, now - began_s, max(cluster_s, _LEAST_S))


def finish_s(app: App, estimates: Estimates, holds: Holds, seconds: dict[int, float]) -> float:
    """Seconds from its begin to its end if it goes on with `holds`, whose jobs take `seconds`.

    Jobs that hold nothing take their turns on the same GPUs, if all have to finish.  Infinite without any.
    """
    if not holds:
        return math.inf
    if len(app.rows) == 1 or app.is_first:
        return max(app.since_s + min(seconds.values()), _LEAST_S)
    size = {row: len(grant.devices) * grant.share for row, grant in holds.items()}
    # From 0.0 on: a sum that starts with the int 0 counts as a sum of ints when compiled.
    work = sum((seconds[row] * size[row] for row in holds), 0.0)
    work += sum((estimates.left_s[row] * estimates.gpus[row] for row in app.rows if row not in holds), 0.0)
    return max(app.since_s + max(*seconds.values(), work / max(sum(size.values(), 0.0), 1e-9)), _LEAST_S)


def value_of(app: App, estimates: Estimates, holds: Holds, seconds: dict[int, float], crowd: float) -> float:
    """Logarithm of 1 / ρ of an app that continues with `holds`, where `crowd` share."""
    finish = finish_s(app, estimates, holds, seconds)
    if finish == math.inf:
        return math.log(LEAST_VALUE)
    return max(math.log(app.cluster_s * crowd / finish), math.log(LEAST_VALUE))


def rho(app: App, finish: float, crowd: float) -> float:
    """Finish-time fairness of an app that ends `finish` seconds after it began, where `crowd` share."""
    return float(finish_time_ratio(0.0, finish, app.cluster_s * crowd))


def rho_at_best(app: App, estimates: Estimates, crowd: float) -> float:
    """ρ with the smallest gang of its first job, on the best GPUs: what ranks those that hold nothing."""
    row = app.rows[0]
    return rho(app, app.since_s + estimates.at_best(row, estimates.counts(row)[0]), crowd)
