"""How fast one job works on how many GPUs: measured where it has run, predicted elsewhere.

Predictions are those that policies of goodput plan with (`rota.knowledge.step_fit`): a fit through the step
times on one type of GPU, the batch with the best goodput within the job's range, as few nodes as will do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rota.knowledge.needs import Provenance
from rota.knowledge.seen import Shape, Speeds
from rota.knowledge.step_fit import StepSample, fit_steps, pad, predict

_BATCHES = 50
"""Sizes that are compared."""


class SizeSpeed(NamedTuple):
    """What a job does on one size."""

    shape: Shape
    speed: float
    """Samples per second, or steps where batches have no size."""
    goodput: float
    """Samples per second that teach as much as those of its first batch; NaN where unknown."""
    provenance: Provenance


@dataclass(frozen=True)
class BatchesAsked:
    """What a job states about its batches; NaN for what it does not state."""

    initial: float = math.nan
    most: float = math.nan
    noise: float = math.nan
    """Scale of the noise of its gradient, as measured."""

    def worth(self, batch: Any) -> Any:
        """Efficiency of `batch`, or of each of an array, relative to the first batch."""
        return (self.noise + self.initial) / (self.noise + batch)


def speeds_by_size(
    speeds: Speeds, counts: Sequence[int], node_gpus: Mapping[str, int], asked: BatchesAsked
) -> list[SizeSpeed]:
    """The measured `speeds`, and predictions for `counts` of GPUs; by type, GPUs and nodes.

    `node_gpus` are the GPUs of the largest node of each type.
    """
    kinds = dict.fromkeys(shape.gpu_type for shape in speeds)
    by_size = [
        SizeSpeed(shape, speed, speed * asked.worth(shape.batch_size or math.nan), Provenance.MEASURED)
        for shape, speed in speeds.items()
    ]
    for kind in kinds:
        own = {shape: speed for shape, speed in speeds.items() if shape.gpu_type == kind and shape.nodes}
        by_size += _predicted(own, counts, node_gpus.get(kind, 1), asked)
    return sorted(by_size, key=lambda one: (one.shape[:3], one.shape.batch_size))


def _predicted(own: Speeds, counts: Sequence[int], node_gpus: int, asked: BatchesAsked) -> list[SizeSpeed]:
    """Predictions of its fit for the sizes on which it was not measured."""
    if not own:
        return []
    has_batch = any(shape.batch_size for shape in own)
    kind, initial = next(iter(own)).gpu_type, asked.initial
    if not (has_batch and initial > 0.0):
        initial = min(shape.batch_size or 1.0 for shape in own)
    samples = [_sample(shape, speed) for shape, speed in own.items()]
    fit, seen = fit_steps(pad([samples]))[0], {(shape.nodes, shape.gpus) for shape in own}
    predicted = []
    for gpus in [count for count in counts if count > 0]:
        nodes = -(-gpus // max(node_gpus, 1))
        if (nodes, gpus) not in seen:
            batches = np.geomspace(initial, _most(asked, initial), _BATCHES)
            speeds = batches / predict(fit, nodes, gpus, batches / gpus)
            best = int(np.argmax(speeds * asked.worth(batches))) if asked.noise >= 0.0 else 0
            batch, speed = float(np.round(batches[best])), speeds.item(best)
            shape = Shape(kind, nodes, gpus, batch if has_batch else 0.0)
            predicted.append(SizeSpeed(shape, speed, speed * asked.worth(batch), Provenance.PREDICTED))
    return predicted


def _sample(shape: Shape, speed: float) -> StepSample:
    batch = shape.batch_size or 1.0
    return StepSample(shape.nodes, shape.gpus, batch / shape.gpus, 0, batch / speed)


def _most(asked: BatchesAsked, initial: float) -> float:
    """The largest batch that it would choose; the first where it does not choose."""
    return asked.most if asked.noise >= 0.0 and asked.most > initial else initial
