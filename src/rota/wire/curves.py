"""The curves of a job: what its programs and agents have reported over time."""

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
"""Name and unit of each possible curve.

`throughput` is batch size over step time, for programs that report both; `gpus` is the number of devices that
the job holds; `utilisation` is the busy part of them: for GPUs as NVML measures it, for CPU slots by the
cores in use.
"""


class CurveView(BaseModel):
    """One curve; None at points for which no value was reported."""

    unit: str = ""
    mean: list[float | None]
    low: list[float | None]
    """Lowest value reported within each point's time; exact, however coarse the points are."""
    high: list[float | None]


class CurvesView(BaseModel):
    """All curves of a job over common points, oldest first."""

    job: str
    spacing_s: float
    """Seconds that points of this age are at least apart; when it changes, it changes for all points."""
    at_s: list[float]
    """Unix time of the first report within each point."""
    until_s: list[float]
    """Unix time of the last report within each point; nothing was reported between it and the next point."""
    gaps: list[tuple[float, float]] = []
    """Unix times between which the job held nothing, oldest first: no line is drawn across these."""
    attempt: list[int] = Field(description="the attempt that said it; of several the last")
    curves: dict[str, CurveView]
    """Curves by name; a curve without any reported value is missing."""
