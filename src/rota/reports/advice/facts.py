"""What an advice says, and all that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.reports.advice.adopting import Adoption, adoption
from rota.reports.advice.candidates import Candidates
from rota.reports.advice.goals import WeightedGoals
from rota.reports.advice.part import ReplayedPart
from rota.reports.advice.slurm import Near, nearest
from rota.reports.advice.trials import TrialRuns
from rota.reports.advice.verdict import Verdict
from rota.reports.likeness import PolicyFit
from rota.scheduler.policy import PolicySpec, parse_policy


@dataclass(frozen=True)
class AdviceFacts:
    """What to do, and all that it rests on."""

    trace: Trace
    """As it was read."""
    part: ReplayedPart
    cluster: Cluster
    cluster_said: str
    """As somebody typed it."""
    wanted: WeightedGoals
    present: PolicySpec
    candidates: Candidates
    knowledge: Mapping[str, str]
    costs: str
    durations: tuple[str, ...]
    """Other sources of durations that were to be tried."""
    seeds: int
    """Replays of each policy that were to be made."""
    nearer: PolicyFit | None
    """The fit to what was recorded, if the present policy was named and does not fit."""
    trials: TrialRuns
    verdict: Verdict

    @property
    def best(self) -> PolicySpec:
        return parse_policy(self.verdict.best.policy)

    @property
    def adoption(self) -> Adoption:
        """How the best comes into force."""
        return adoption(self.best, self.knowledge)

    @property
    def is_calibrated(self) -> bool:
        """Whether it is known how far the replay of the present policy is from what happened."""
        return self.trials.calibration is not None and self.trials.calibration.calibrated

    @property
    def is_slurm(self) -> bool:
        """Whether the trace is from a site with Slurm."""
        return self.trace.format == "sacct"

    @property
    def slurm(self) -> Near:
        """What comes nearest to the best in Slurm."""
        return nearest(self.best, self.trace)
