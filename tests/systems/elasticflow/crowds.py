"""Elastic jobs that come close together, on more of which deadlines weigh than four GPUs can keep."""

from __future__ import annotations

import math
from random import Random

from play import trace_of
from rota.model.job_columns import AllowedCounts
from rota.model.trace import Trace


def crowd(draw: Random, *, without: float, factors: tuple[float, float]) -> Trace:
    """Twelve jobs of one to four GPUs; some are `without` a deadline, others have `factors` of their work."""
    at_s = sorted(draw.randint(0, 300) for _ in range(12))
    work_s = [draw.randint(20, 400) for _ in at_s]
    due_s = [
        math.nan if draw.random() < without else at + work * draw.uniform(*factors)
        for at, work in zip(at_s, work_s, strict=True)
    ]
    text = " ".join(f"J{i} 1x{work}@{at}" for i, (at, work) in enumerate(zip(at_s, work_s, strict=True)))
    elastic = {"gpus_min": 1, "gpus_max": 4, "counts": int(AllowedCounts.POWERS_OF_TWO)}
    return trace_of(text, deadline_s=due_s, **elastic)
