"""Sia as the authors' simulator carries it out: `sia@authors`, and `sia@fixed` for jobs of one size.

Paper     Jayaram Subramanya et al., "Sia: Heterogeneity-aware, Goodput-optimized ML-cluster Scheduling",
          SOSP 2023
Decides   GPU type, number of GPUs, order, preemption, placement
Needs     goodput of each job by GPU type
Idea      siasosp23/artifacts, `sia-simulator`; its policies `mip` and `sia_fix` differ in three things:
          1. nothing is known of a job before its first start, and its batch is at most that of the file;
             candidates of batches are not clipped;
          2. `authors`: a restart is taken to cost other seconds for each workload;
          3. `fixed`: their separate program for jobs of one size, which maximises (`power=0.5`).  The least
             of a job with known speeds is worth 1, that of others the GPUs that it asks for.
Departs   GPUs that fall idle within a round wait for the next one.
Checked   authors' simulator, 40 jobs: mean completion -0.2 % (`authors`), +0.1 % (`fixed`); docs/fidelity.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.knowledge.needs import Table
from rota.model.columns import Floats, Ints
from rota.published.registration import register_like
from rota.scheduler.decision import Event
from rota.scheduler.snapshot import Snapshot
from rota.systems.sia.goodputs import Goodputs
from rota.systems.sia.parameters import SiaParameters
from rota.systems.sia.policy import SiaRounds, fixed_batch

RESTART_S = {"deepspeech2": 25.0, "imagenet": 250.0, "cifar10": 30.0, "bert": 120.0, "yolov3": 45.0}
"""Assumed cost of a restart in the authors' policy, in seconds by workload; `restart_s` for all others."""


class SimulatorRounds(SiaRounds):
    """Sia's rounds in which a job has to start before anything is known of it."""

    clips = False
    alone_known = False
    news = Event.ROUND | Event.CAPACITY

    def goodputs(self, snapshot: Snapshot, told: Table, rows: Ints) -> Goodputs:
        jobs = snapshot.jobs
        most = jobs.batch_size[rows]
        return Goodputs(told, rows, jobs.work_done(rows), fixed_batch(snapshot, rows), most)


@register_like(
    "sia",
    "sia@authors",
    "Sia as the authors' simulator carries it out",
    parameters=SiaParameters,
)
class SiaOfAuthors(SimulatorRounds):
    """The authors' seconds for a restart."""

    def __init__(self, parameters: SiaParameters | None = None) -> None:
        super().__init__(parameters or SiaParameters())

    def restart_s(self, snapshot: Snapshot, rows: Ints) -> Floats:
        table, others_s = snapshot.jobs.table, self.parameters.restart_s
        return np.array([RESTART_S.get(table.name_of("workload", row), others_s) for row in rows.tolist()])


@dataclass(frozen=True)
class SiaFixedParameters(SiaParameters):
    """Parameters of `sia@fixed`."""

    power: float = 0.5
    """Power of goodput in the objective (p), whose sum is maximised."""


@register_like(
    "sia",
    "sia@fixed",
    "Sia's separate program for jobs of one size, as the authors' simulator carries it out",
    parameters=SiaFixedParameters,
)
class SiaFixed(SimulatorRounds):
    """Jobs of one size."""

    def __init__(self, parameters: SiaFixedParameters | None = None) -> None:
        super().__init__(parameters or SiaFixedParameters())

    def units(self, snapshot: Snapshot, rows: Ints, goodputs: Goodputs) -> Ints:
        is_known = goodputs.has_fit.sum(axis=1) > 0
        units: Ints = np.where(is_known, 1, snapshot.jobs.gpus_min[rows])
        return units
