"""Optimus' decision: predictions, GPUs and servers by the time that they save, placement."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import rates_on, shared_curves
from rota.model.columns import Floats, Ints
from rota.model.grants import Code, Constraint, Grant
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import GPUS
from rota.solvers.one_by_one import fill_savings
from rota.stages.feeding import FeedingFitter
from rota.stages.place import even
from rota.stages.quota_caps import caps_of
from rota.stages.sizes import left_alone
from rota.stages.sizing import Sizing
from rota.systems.optimus.placing import place_again
from rota.systems.optimus.serving import ServedJobs, ServingFitter, hand_out_both, seconds_at, served_rows

YOUNG = 10
"""Losses that must be known before a prediction counts in full."""
_OUTBID = Constraint(Code.POLICY, detail="all GPUs went to jobs that came before it")
_OUTBID_OF_BOTH = Constraint(Code.POLICY, detail="GPUs, or CPUs for a server, went to jobs before it")


class MarginalSavings:
    """One more worker, or server, for the job that saves most time by it, every interval.

    Memory    `refused`  running jobs to which a change was refused: see `left_alone`
    """

    def __init__(
        self, interval_s: float, young_factor: float, restart_s: float, *, event_driven: bool
    ) -> None:
        self.interval_s = interval_s
        self.young_factor = young_factor
        """Weight of the saving of a job with fewer than `YOUNG` losses."""
        self.restart_s = restart_s
        """A resize that saves less than this is left out."""
        self.event_driven = event_driven
        """True if arrivals and ends call for a decision as well."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        sizing = Sizing(snapshot, left_alone(snapshot, memory.setdefault("refused", {})))
        served = served_rows(snapshot.know(Knowledge.SERVERS), sizing.rows.tolist())
        serving = ServedJobs(snapshot.jobs.table, served)
        shares = self._shares(snapshot, sizing, serving)
        fit = ServingFitter(snapshot, even, serving) if served else FeedingFitter(snapshot, even)
        grants, preempt = place_again(snapshot, shares, fit, serving.limited)
        outbid = _OUTBID_OF_BOTH if served else _OUTBID
        reasons = {row: outbid for row, share in shares.items() if not share}
        wake = self._wake(snapshot, sizing.rows)
        return Decision(memory, grants, preempt, wake=wake, reasons=reasons, targets=shares, target=GPUS)

    def _wake(self, snapshot: Snapshot, rows: Ints) -> Wake:
        """When the next interval begins; at any event if there is no job, or none runs."""
        if not len(rows):
            return Wake()
        at_s = (math.floor(snapshot.now / self.interval_s) + 1) * self.interval_s
        return Wake(at_s, Event.ANY if self.event_driven else Event.IDLE)

    def _shares(self, snapshot: Snapshot, sizing: Sizing, serving: ServedJobs) -> dict[int, int]:
        """GPUs for each row, by the time that a step saves for what it takes; servers go to `serving`."""
        known, rows = snapshot.know(Knowledge.CONVERGENCE).by_row, sizing.rows
        scaling, jobs = snapshot.know(Knowledge.SCALING), snapshot.jobs.table
        left = _left(known["left_s"][rows])
        is_alone = np.array([row not in serving.of for row in rows.tolist()], dtype=bool)
        asked = rates_on(scaling, rows, jobs.gpus[rows])
        left *= np.where(is_alone & (asked > 0.0), asked, 1.0)  # in what its curve counts
        young = known["points"][rows] < YOUNG
        worth = np.where(young, self.young_factor, 1.0)
        curves = shared_curves(scaling, rows, sizing.most)
        seconds = _seconds(curves)
        if serving.of:
            shares = hand_out_both(snapshot, sizing, serving, curves, left, worth)
        else:
            caps = caps_of(snapshot, rows)
            shares = fill_savings(seconds, (left * worth).tolist(), sizing.counts, sizing.gpus, caps)
        for job, row in enumerate(rows.tolist()):
            held = snapshot.grants.get(row)
            if held is not None and 0 < len(held.devices) < shares[job]:
                saved_s = left.item(job) * self._faster(seconds[job], serving, held, shares[job])
                if saved_s < self.restart_s:
                    shares[job] = serving.keep(held)
        return dict(zip(rows.tolist(), shares, strict=True))

    def _faster(self, seconds: Sequence[float], serving: ServedJobs, held: Grant, share: int) -> float:
        """Seconds that a unit of work takes less on `share` GPUs than under `held`."""
        row, before = held.job, len(held.devices)
        if row not in serving.units:
            return seconds[before] - seconds[share]
        servers = serving.of[row].granted(serving.jobs, held)
        return seconds_at(serving, row, servers, before) - seconds_at(serving, row, *serving.units[row])


def _seconds(curves: Sequence[list[float]]) -> list[list[float]]:
    """Time for a unit of work on 0, 1, ... GPUs; jobs share their curves."""
    known: dict[int, list[float]] = {}
    for curve in curves:
        if id(curve) not in known:
            known[id(curve)] = [1.0 / rate if rate > 0.0 else math.inf for rate in curve]
    return [known[id(curve)] for curve in curves]


def _left(left_s: Floats) -> Floats:
    """Seconds left; for a job about which nothing is known, the mean of the others."""
    known = ~np.isnan(left_s)
    mean = float(left_s[known].mean()) if known.any() else 1.0
    left: Floats = np.maximum(np.where(known, left_s, mean), 0.0)
    return left
