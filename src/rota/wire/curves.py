"""The curves of a job, as people get them: what its programs and agents have said of it over time."""

from __future__ import annotations

from pydantic import BaseModel, Field

UNITS = {
    "loss": "",
    "step_s": "s",
    "batch_size": "samples",
    "throughput": "samples/s",
    "gradient_noise": "samples",
    "gpus": "",
    "utilisation": "part",
    "gpu_memory_gib": "GiB",
    "memory_gib": "GiB",
}
"""Name and unit of each curve that there may be.

`throughput` is batch size over step time, of programs that say both; `gpus` the devices that the job holds;
`utilisation` the part of them that is busy, GPUs as NVML sees it and CPU slots by the cores that are used.
"""


class CurveView(BaseModel):
    """One curve; None where nobody said anything of it."""

    unit: str = ""
    mean: list[float | None]
    low: list[float | None]
    """Least value that was said within each point's time; lossless, however coarse the points are."""
    high: list[float | None]


class CurvesView(BaseModel):
    """All curves of a job over the same points, oldest first."""

    job: str
    spacing_s: float
    """Points of this age are at least so far apart; if it has changed, all points have."""
    at_s: list[float]
    """Unix time of the first thing said within each point."""
    until_s: list[float]
    """Of the last one; what lies between here and the next point is silence."""
    gaps: list[tuple[float, float]] = []
    """Unix times from which and until which it held nothing, oldest first: no line is drawn across these."""
    attempt: list[int] = Field(description="the attempt that said it; of several the last")
    curves: dict[str, CurveView]
    """By name; those of which nobody ever said anything are missing."""
