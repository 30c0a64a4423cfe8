"""How fast the jobs of a fork work: as the moment, and so the policy that plans in it, knows.

A policy that plans with measured speeds (by GPU type, number of GPUs, batch, neighbours, placement, host)
would be forecast wrongly in a world where types are equal and speed is in proportion to GPUs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rota.knowledge.goodput import BatchLimits, GoodputProfile, Noise, TrainingPhase, profiles_of
from rota.knowledge.needs import Knowledge, Known, Provenance, Table
from rota.knowledge.scaling import linear_scaling, rates_on
from rota.knowledge.throughput import accepted
from rota.model.cluster import Cluster
from rota.model.columns import Array, Floats, Ints
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.model.trace import Trace
from rota.scheduler.moments.packing import unpack_known
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.sharing import LeftOver
from rota.worlds.simulated.slowdowns import SLOWING, Efficiency, Slowdowns
from rota.worlds.simulated.speed import FixedDuration, SpeedModel
from rota.worlds.simulated.speed_goodput import GrantGoodputs, seconds_for

SPEEDS = (
    Knowledge.THROUGHPUT, Knowledge.SCALING, Knowledge.GOODPUT, Knowledge.PAIRS, Knowledge.PLACEMENT,
    Knowledge.HOSTS, Knowledge.SERVERS, Knowledge.UTILISATION,
)  # fmt: skip
"""Kinds of knowledge about the speeds of jobs."""


def speed_of(known: Mapping[Knowledge, Known], jobs: JobTable, cluster: Cluster) -> SpeedModel:
    """The speeds in `known`; durations as they are where it has none."""
    if not any(kind in known for kind in SPEEDS):
        return FixedDuration(jobs, cluster)
    return KnownSpeed(known, jobs, cluster)


class KnownSpeed:
    """Rates by all knowledge; work in seconds at the requested number on the fastest type.

    If the goodput of a job is known, it covers type, number of GPUs and batch.
    """

    def __init__(self, known: Mapping[Knowledge, Known], jobs: JobTable, cluster: Cluster) -> None:
        self.jobs = jobs
        told = {kind: known[kind].values for kind in SLOWING if kind in known}
        sharing = LeftOver() if Knowledge.UTILISATION in told else None
        self.efficiency = Efficiency(jobs, cluster, Slowdowns(sharing=sharing), told)
        self._type_of: list[int] = cluster.device_type.tolist()
        self._by_type = self._scaling = self._pairs = self._goodput = None
        if Knowledge.THROUGHPUT in known:
            self._by_type = _relative(known[Knowledge.THROUGHPUT].values)
        if Knowledge.SCALING in known:
            self._scaling = known[Knowledge.SCALING].values
        if Knowledge.PAIRS in known:
            self._pairs = known[Knowledge.PAIRS].values
        if Knowledge.GOODPUT in known:
            self._goodput = KnownGoodput(known[Knowledge.GOODPUT], jobs, cluster)
        self.batch_now = np.full(len(jobs), math.nan)

    def total(self, trace: Trace) -> Floats:
        return trace.truth.duration_s

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        asked = self.jobs.gpus.item(row)
        if not asked:
            return Pace(1.0)
        rate, until_work = self._alone(row, grant, at.done)
        together = self._together(row, grant, beside)
        if together is not None:
            return Pace(rate * together * self.efficiency.placed(row, grant), until_work)
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        return Pace(rate * factor, until_work, until_s)

    def _alone(self, row: int, grant: Grant, done: float) -> tuple[float, float]:
        """Rate on whole GPUs that no other job shares, and the work at which it changes."""
        if self._goodput is not None and self._goodput.knows(row):
            rate, self.batch_now[row], until_work = self._goodput.rate(row, grant, done)
            return rate, until_work
        asked, gpus = self.jobs.gpus.item(row), len(grant.devices)
        rate = gpus / asked
        if isinstance(self._scaling, Table) and gpus != asked:
            there, here = rates_on(self._scaling, np.array([row]), np.array([asked, gpus])).tolist()
            rate = here / there if there else rate
        if self._by_type is not None:
            rate *= min([self._by_type.item(row, self._type_of[device]) for device in grant.devices])
        return rate, math.inf

    def _together(self, row: int, grant: Grant, beside: Sequence[Grant]) -> float | None:
        """Part of its rate that a packed job has beside one other, if that was measured."""
        if not isinstance(self._pairs, Table) or grant.role is not Role.PACKED or len(beside) != 1:
            return None
        classes, (other,) = self._pairs.by_row["class"], beside
        one, its = classes.item(row), classes.item(other.job)
        if one < 0 or its < 0 or not (self._as_asked(grant) and self._as_asked(other)):
            return None
        kinds = sorted({self._type_of[device] for device in grant.devices})
        rates, alone = self._pairs.shared["rates"][one, its, kinds], self._pairs.shared["alone"][one, kinds]
        if np.isnan(rates).any() or not (alone > 0.0).all():
            return None
        return float((rates / alone).min())

    def _as_asked(self, grant: Grant) -> bool:
        return len(grant.devices) == self.jobs.gpus.item(grant.job)


_UNKNOWN = GoodputProfile(BatchLimits(1, 1, 1, 1), {}, (TrainingPhase(math.inf, Noise(1.0, 0.0)),))
"""The profile of a job of which nothing is known: it runs nowhere."""


class KnownGoodput:
    """Goodput by a table of profiles, with work in seconds at the requested GPUs.

    On a type without a fit a job cannot run if the fits were given.  If they were measured it has not been
    seen there, and must not stand still when it is granted one: it is as fast as where it was seen.
    """

    def __init__(self, goodput: Known, jobs: JobTable, cluster: Cluster) -> None:
        table: Any = goodput.values
        profiles = [*profiles_of(table, cluster.type_names), _UNKNOWN]  # the last is that of class -1
        if goodput.provenance is Provenance.MEASURED:
            profiles = [_on_any_type(profile) for profile in profiles]
        self._profiles = [profiles[number] for number in table.by_row["class"].tolist()]
        self._goodputs = GrantGoodputs(self._profiles, jobs, cluster)
        self._accepted = accepted(jobs, cluster)
        self._asked: dict[int, list[float]] = {}
        """Goodput of each phase at the request, for the rows looked at so far."""

    def knows(self, row: int) -> bool:
        """True if it has a profile under which it can run at its request."""
        return all(rate > 0.0 for rate in self._at_request(row))

    def rate(self, row: int, grant: Grant, done: float) -> tuple[float, float, float]:
        """Rate under `grant` after `done` work, the batch, and the work at which the rate changes."""
        asked = self._at_request(row)
        ends = self._ends(row, asked)
        phase = min(bisect_right(ends, done), len(ends) - 1)
        goodput, seen = self._goodputs.on(row, phase, grant)
        return goodput / asked[phase], seen.batch_size, ends[phase]

    def seconds(self, row: int, examples: float) -> float:
        """Work in seconds at the request, of a job that counts it in examples."""
        return seconds_for(self._profiles[row].ends, self._at_request(row), examples)

    def examples(self, row: int, seconds: float) -> float:
        """Examples after `seconds` at the request: the inverse of `seconds`."""
        done = 0.0
        for end, rate in zip(self._profiles[row].ends, self._at_request(row), strict=True):
            if rate * seconds <= end - done:
                break
            seconds -= (end - done) / rate
            done = end
        return done + rate * seconds

    def at_request(self, row: int, examples: float) -> tuple[float, float]:
        """Examples per second at the request after `examples`, and the examples at which that changes."""
        ends = self._profiles[row].ends
        phase = min(bisect_right(ends, examples), len(ends) - 1)
        return self._at_request(row)[phase], ends[phase]

    def _at_request(self, row: int) -> list[float]:
        """Goodput of each phase at the requested GPUs of the type that is fastest in the first."""
        if row not in self._asked:
            kinds = np.flatnonzero(self._accepted[row]).tolist()
            first = [self._goodputs.asked(row, 0, kind) for kind in kinds]
            best = kinds[int(np.argmax(first))] if kinds else 0
            phases = range(len(self._profiles[row].phases))
            self._asked[row] = [self._goodputs.asked(row, phase, best) for phase in phases]
        return self._asked[row]

    def _ends(self, row: int, asked: Sequence[float]) -> list[float]:
        """Work at the end of each phase."""
        ends = self._profiles[row].ends
        return [seconds_for(ends, asked, end) for end in ends]


def _on_any_type(profile: GoodputProfile) -> GoodputProfile:
    """The profile with the first of its fits on the types that have none."""
    seen = next(iter(profile.fits.values()), None)
    return profile if seen is None else replace(profile, fits={"*": seen, **profile.fits})


def _relative(rates: Any) -> Floats:
    """Rates of each job relative to its best type, [job, type]; 1 for a job that has none."""
    best = rates.max(axis=1, keepdims=True)
    relative: Floats = np.where(best > 0.0, rates / np.where(best > 0.0, best, 1.0), 1.0)
    return relative


# -- from a moment ---------------------------------------------------------------------------------


def known_speeds(
    stored: Mapping[str, Mapping[str, Any]], jobs: JobTable, cluster: Cluster
) -> dict[Knowledge, Known]:
    """The speeds that a moment stores, for all of `jobs`, the last of which may be newer than it.

    A newer job is as fast as the last one of the same workload and size; one that is like no other is as fast
    as it would be without any knowledge.  What is only assumed of utilisation says nothing about speed.
    """
    known = {}
    for kind in SPEEDS:
        assumed = stored.get(kind.value, {}).get("provenance") == Provenance.ASSUMED
        if kind.value in stored and not (assumed and kind is Knowledge.UTILISATION):
            values = unpack_known(stored[kind.value]["values"])
            if kind is Knowledge.SCALING:
                values = _scaling_of_all(values, jobs, cluster)
            elif isinstance(values, Table):
                values = _classes_of_all(values, jobs)
            else:
                fresh = accepted(jobs, cluster) if kind is Knowledge.THROUGHPUT else np.ones(len(jobs))
                values = _of_all(values, _like(jobs, len(values)), fresh.astype(np.float64))
            known[kind] = Known(values, Provenance(stored[kind.value]["provenance"]))
    return known


def _scaling_of_all(scaling: Any, jobs: JobTable, cluster: Cluster) -> Table:
    like = _like(jobs, len(scaling.by_row["curve"]))
    assert isinstance(scaling, Table)
    if (like == np.arange(len(like))).all():
        return scaling
    linear = linear_scaling(jobs, cluster).known()
    assert isinstance(linear, Table)
    curves, line = scaling.shared["rates"], linear.shared["rates"]
    width = max(curves.shape[1], line.shape[1])
    rates = np.vstack([np.pad(each, ((0, 0), (0, width - each.shape[1])), "edge") for each in (curves, line)])
    by_row = {
        "curve": _of_all(scaling.by_row["curve"], like, linear.by_row["curve"] + len(curves)),
        "unit": _of_all(scaling.by_row["unit"], like, linear.by_row["unit"]),
    }
    return Table(by_row, {"rates": rates})


def _classes_of_all(table: Table, jobs: JobTable) -> Table:
    """A table with a class for each job; -1 for jobs like no other, of which nothing is known."""
    classes = table.by_row["class"]
    fresh = np.full(len(jobs), -1, dtype=np.int64)
    return Table({"class": _of_all(classes, _like(jobs, len(classes)), fresh)}, table.shared)


def _of_all(column: Array, like: Ints, fresh: Array) -> Array:
    """`column` for all jobs: the value of the job that each is like, else that of `fresh`."""
    of_all = fresh.copy()
    of_all[like >= 0] = column[like[like >= 0]]
    return of_all


def _like(jobs: JobTable, known: int) -> Ints:
    """For each job one of the first `known` that is as fast: itself, or the last like it; -1 if none."""
    like = np.arange(len(jobs))
    for row in range(known, len(jobs)):
        same = (jobs.workload[:known] == jobs.workload[row]) & (jobs.gpus[:known] == jobs.gpus[row])
        twins = np.flatnonzero(same & (jobs.workload[row] >= 0))
        like[row] = twins[-1] if len(twins) else -1
    return like
