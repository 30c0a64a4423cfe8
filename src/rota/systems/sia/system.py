"""Sia — choose GPU type, number of GPUs and batch of every job each minute with one small integer program.

Paper     Jayaram Subramanya et al., "Sia: Heterogeneity-aware, Goodput-optimized ML-cluster Scheduling",
          SOSP 2023
Decides   GPU type, number of GPUs, order, preemption, placement
Needs     goodput of each job by GPU type: step times as far as they were measured, noise of its gradient
Idea      1. A job may have GPUs of one type: 1, 2, 4, ... of a node, or whole nodes.  There are about
             twenty such configurations, and a place for all whose GPUs add up.
          2. Each is worth its goodput in multiples of the job's worst one.  Where a job has not run, it is
             what it does on another type, times the ratio of one GPU to one GPU.
          3. A configuration that needs a restart is worth less, the more the younger a job is and the more
             often it was restarted.
          4. One integer program each minute: the sum of the values to the power -0.5 is least, and so is the
             number of jobs without GPUs.
          5. A job starts on one GPU and at most doubles in a round, so that unknown speeds are found out.
Departs   Ties of the program are decided in favour of what a job has, then of fewer GPUs (ours).
          A configuration that a job may not have has no variable; the authors give it a value of 1e-4.  Jobs
          that can use no configuration (3 GPUs, say) are placed as compactly as can be.  A job without a
          place, for cores or memory, gets the next best that fits.  Each hard quota is one more row of the
          program (ours).  A job that is restoring is pinned.
          What the authors' simulator does otherwise is `sia@authors` and `sia@fixed`.
Checked   systems/sia.md, worked examples 1 to 5
"""

from __future__ import annotations

from rota.knowledge.needs import Knowledge
from rota.scheduler.policy import Lever, register
from rota.systems.sia.parameters import SiaParameters
from rota.systems.sia.policy import SiaRounds

PAPER = "Sia, SOSP 2023"


@register(
    "sia",
    "GPU type, number of GPUs and batch by goodput, one integer program a round",
    paper=PAPER,
    needs={Knowledge.GOODPUT: True},
    levers={Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE},
    parameters=SiaParameters,
    rotates=True,
)
class Sia(SiaRounds):
    """Configurations by goodput, one integer program a round."""

    def __init__(self, parameters: SiaParameters | None = None) -> None:
        super().__init__(parameters or SiaParameters())
