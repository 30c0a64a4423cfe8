"""Optimus — predict when jobs will have converged, and give GPUs to whoever saves most time with one more.

Paper     Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
          EuroSys 2018
Decides   number of GPUs and of parameter servers (CPUs), order, placement, preemption
Needs     how long each job still needs (from its losses so far), and its speed by number of GPUs, or by
          parameter servers and workers
Idea      1. Every job gets its least, in order of arrival, so that nobody starves.
          2. One more unit, a worker or a server, saves a job Q / f - Q / f' seconds, Q being what is left of
             it and f its speed; whoever saves most for what the unit takes of the cluster gets it, until
             nobody saves anything.
          3. Of jobs whose losses say little yet the saving counts for a little less.
          4. Small jobs are placed first, each on the fewest servers that hold it in equal parts.
          All of it anew every ten minutes; whose number stays the same stays where he is.
Departs   A worker is a GPU, a server some CPUs of the grant: they lie as the GPUs do, and a server may count
          in parts on two nodes.  More or fewer servers alone are no restart.  Whose workload has no speeds by
          servers reduces gradients among its workers; where nobody has any, a unit is a GPU and divides
          nothing.  Slow workers are not replaced, and which server holds which parameters is left to the
          program.  A resize that saves less than it costs is left out (ours); sizes between which a job must
          jump are compared by saving per GPU (ours).
          A job about which nobody knows anything is taken to need what the others need in the mean (ours).
          The cluster is taken to be of one type.  `mode=artifact` follows the baseline in Pollux' simulator.
Checked   systems/optimus.md, worked examples 1 to 3; `mode=artifact`: every job of thirteen workloads of
          Pollux' simulator ends in the same second (docs/fidelity.md)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import rates_on, shared_curves
from rota.model.columns import Floats, Ints
from rota.model.grants import Code, Constraint, Grant
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import GPUS
from rota.solvers.one_by_one import fill_savings
from rota.stages.feeding import FeedingFitter
from rota.stages.place import even
from rota.stages.quota_caps import caps_of
from rota.stages.sizes import left_alone
from rota.stages.sizing import Sizing
from rota.systems.optimus.artifact import BySteps
from rota.systems.optimus.placing import place_anew
from rota.systems.optimus.serving import ServedJobs, ServingFitter, hand_out_both, seconds_at, served_rows

YOUNG = 10
"""So many losses have to be heard before a prediction counts in full."""
_OUTBID = Constraint(Code.POLICY, detail="all GPUs went to jobs that came before it")
_OUTBID_OF_BOTH = Constraint(Code.POLICY, detail="GPUs, or CPUs for a server, went to jobs before it")


class OptimusMode(StrEnum):
    """Whose rules hold where paper and published simulator differ."""

    PAPER = "paper"
    ARTIFACT = "artifact"  # the baseline in Pollux' simulator


@dataclass(frozen=True)
class OptimusParameters:
    """Parameters of `optimus`."""

    interval_s: float = 600.0
    """T: seconds between two decisions."""
    event_driven: bool = False
    """Decide when jobs come and go as well."""
    young_factor: float = 0.95
    """What counts of the saving of a job with fewer than ten losses."""
    restart_s: float = 30.0
    """A resize that saves less than this is left out."""
    mode: OptimusMode = OptimusMode.PAPER
    """The paper's rules, or those of the baseline in Pollux' simulator, which looks every minute."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("interval_s", 1.0, math.inf),
            ("young_factor", 0.0, 1.0),
            ("restart_s", 0.0, math.inf),
        ):
            value = getattr(self, name)
            if not least <= value <= most or value == math.inf:
                above = f"{least:g} to {most:g}" if most < math.inf else f"{least:g} or more"
                raise InputError(f"policy 'optimus': {name}={value:g}; expected {above}")


@register(
    "optimus",
    "Most time saved by one more GPU, from predicted convergence and speed",
    paper="EuroSys 2018",
    needs={
        Knowledge.SCALING: lambda p: True,
        Knowledge.CONVERGENCE: lambda p: True,
        Knowledge.SERVERS: lambda p: p.mode is OptimusMode.PAPER,
    },
    levers={Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE},
    parameters=OptimusParameters,
    work_conserving=False,
)
class Optimus:
    """Marginal savings of time."""

    def __init__(self, parameters: OptimusParameters | None = None) -> None:
        self.parameters = p = parameters or OptimusParameters()
        self.inner = ByIntervals(p) if p.mode is OptimusMode.PAPER else BySteps()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)


class ByIntervals:
    """The paper's rules.

    Memory    `refused`  running jobs of which a change was refused: see `left_alone`
    """

    def __init__(self, parameters: OptimusParameters) -> None:
        self.parameters = parameters

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        sizing = Sizing(snapshot, left_alone(snapshot, memory.setdefault("refused", {})))
        served = served_rows(snapshot.know(Knowledge.SERVERS), sizing.rows.tolist())
        serving = ServedJobs(snapshot.jobs.table, served)
        shares = self._shares(snapshot, sizing, serving)
        fit = ServingFitter(snapshot, even, serving) if served else FeedingFitter(snapshot, even)
        grants, preempt = place_anew(snapshot, shares, fit, serving.limited)
        outbid = _OUTBID_OF_BOTH if served else _OUTBID
        reasons = {row: outbid for row, share in shares.items() if not share}
        wake = self._wake(snapshot, sizing.rows)
        return Decision(memory, grants, preempt, wake=wake, reasons=reasons, targets=shares, target=GPUS)

    def _wake(self, snapshot: Snapshot, rows: Ints) -> Wake:
        """When the next interval begins; on whatever happens if nobody is there, or runs."""
        if not len(rows):
            return Wake()
        interval_s = self.parameters.interval_s
        at_s = (math.floor(snapshot.now / interval_s) + 1) * interval_s
        return Wake(at_s, Event.ANY if self.parameters.event_driven else Event.IDLE)

    def _shares(self, snapshot: Snapshot, sizing: Sizing, serving: ServedJobs) -> dict[int, int]:
        """GPUs for each row, by the time that a step saves for what it takes; `serving` is told servers."""
        known, rows = snapshot.know(Knowledge.CONVERGENCE).by_row, sizing.rows
        scaling, jobs = snapshot.know(Knowledge.SCALING), snapshot.jobs.table
        left = _left(known["left_s"][rows])
        is_alone = np.array([row not in serving.of for row in rows.tolist()], dtype=bool)
        asked = rates_on(scaling, rows, jobs.gpus[rows])
        left *= np.where(is_alone & (asked > 0.0), asked, 1.0)  # in what its curve counts
        young = known["points"][rows] < YOUNG
        worth = np.where(young, self.parameters.young_factor, 1.0)
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
                if saved_s < self.parameters.restart_s:
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
    """What a unit of work takes on 0, 1, ... GPUs; jobs share their curves."""
    known: dict[int, list[float]] = {}
    for curve in curves:
        if id(curve) not in known:
            known[id(curve)] = [1.0 / rate if rate > 0.0 else math.inf for rate in curve]
    return [known[id(curve)] for curve in curves]


def _left(left_s: Floats) -> Floats:
    """Seconds left; of those about whom nobody knows anything, as many as the others have in the mean."""
    known = ~np.isnan(left_s)
    mean = float(left_s[known].mean()) if known.any() else 1.0
    left: Floats = np.maximum(np.where(known, left_s, mean), 0.0)
    return left
