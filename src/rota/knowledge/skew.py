"""How skewed the tensor sizes of a model are: its largest tensor over all of them.

Figures   computed from the tensor lists of the models in the simulator of Tiresias (NSDI 2019)
Use       a model with a skewed distribution loses speed when its workers are spread over nodes
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rota.knowledge.given import Provides
from rota.knowledge.needs import Knowledge, Provenance, Provider
from rota.knowledge.registry import Setup, Where, provides
from rota.model.jobs import JobTable

SKEW: Mapping[str, float] = {
    "vgg19": 0.717,
    "vgg16": 0.744,
    "vgg11": 0.774,
    "alexnet": 0.611,
    "inception3": 0.138,
    "inception4": 0.044,
    "resnet50": 0.112,
    "resnet101": 0.075,
    "resnet152": 0.060,
}
"""Largest tensor / sum of tensors."""


class ModelSkew(Provides):
    """Skew by the name of the workload, case and punctuation aside; 0 (no skew) for unknown models."""

    def __init__(self, jobs: JobTable, skew: Mapping[str, float] = SKEW) -> None:
        by_name = {_plain(name): value for name, value in skew.items()}
        table = np.array([*(by_name.get(_plain(name), 0.0) for name in jobs.workload_names), 0.0])
        super().__init__(Knowledge.SKEW, Provenance.MEASURED, table[jobs.workload])  # -1 is the last entry


@provides(
    Knowledge.SKEW,
    Provenance.MEASURED,
    "a table of models by name; 0 for others",
    where={Where.SIMULATED},
)
def model_skew(setup: Setup) -> Provider:
    return ModelSkew(setup.jobs)


def _plain(name: str) -> str:
    """`ResNet-50` as `resnet50`."""
    return "".join(c for c in name.lower() if c.isalnum())
