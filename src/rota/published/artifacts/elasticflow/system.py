"""ElasticFlow as its authors' simulator carries it out: `elasticflow@authors`.

Paper     Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning",
          ASPLOS 2023
Decides   admission, number of GPUs over time, preemption, placement
Needs     speed of each job by number of GPUs; durations
Idea      1. pkusys/ElasticFlow, ElasticFlow/scheduler (04a0109): `ef-accessctrl`, and `ef` with `refuse=no`.
          2. Plans climb backwards from each deadline; jobs that come together are refused together.
          3. What is left goes to the job whose GPU time grows most by it.
          4. All jobs are placed again at each decision, the largest first.
Departs   Nothing is known to differ.
Checked   `ef-accessctrl` (643 jobs of four workloads) and `ef` (100 jobs): every job in the same second
          (docs/fidelity.md); a naive twin of their program on random lists and clusters: the same
"""

from __future__ import annotations

from rota.published.artifacts.elasticflow.artifact import ElasticFlowArtifact
from rota.published.artifacts.elasticflow.parameters import ArtifactParameters
from rota.published.registration import register_like
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.snapshot import Snapshot


@register_like(
    "elasticflow",
    "elasticflow@authors",
    "ElasticFlow as the authors' simulator carries it out",
    parameters=ArtifactParameters,
)
class ElasticFlowOfAuthors:
    """All jobs planned again at each moment at which it is asked."""

    def __init__(self, parameters: ArtifactParameters | None = None) -> None:
        self.parameters = parameters or ArtifactParameters()
        self.inner = ElasticFlowArtifact(self.parameters)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
