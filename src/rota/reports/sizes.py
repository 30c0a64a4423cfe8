"""GPUs that single jobs held over time: a lane for each, with the height of its band for their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rota.model.record import Record
from rota.model.units import plural
from rota.reports.chart import UNITS, Tick, path_of
from rota.reports.occupancy import closed_intervals
from rota.reports.series import Steps, binned
from rota.reports.window import Span

LANES = 12
"""Number of jobs shown: those with most changes of size over all runs."""
STEPS = 120
"""Changes of a band that are drawn one by one; of one with more its means."""
HEIGHT = 100
"""Of a lane, in plot coordinates; a band that holds most leaves a gap above."""
LANE_PX = 26
_FULL = 0.86


@dataclass(frozen=True)
class Lane:
    name: str
    path: str
    """Outline of the band, as SVG path data."""


@dataclass(frozen=True)
class SizesFigure:
    """The shown jobs under one policy."""

    policy: str
    caption: str
    text: str
    lanes: tuple[Lane, ...]
    labels: tuple[Tick, ...]
    most: float
    """GPUs of the highest band in any figure."""

    @property
    def height(self) -> int:
        return HEIGHT * len(self.lanes)

    @property
    def height_px(self) -> int:
        return LANE_PX * len(self.lanes)


def sizes_figures(records: Sequence[Record], span: Span) -> list[SizesFigure | None]:
    """One for each run that ranks; None for others; empty if no job changed its size."""
    jobs = changed_most(records)
    if not jobs or not span.length_s:
        return []
    held = [{job: _held(record, job) for job in jobs} for record in records]
    most = max((float(s.value.max()) for own in held for s in own.values() if len(s.value)), default=1.0)
    return [
        _figure(record, own, jobs, span, most) if record.ranked else None
        for record, own in zip(records, held, strict=True)
    ]


def changed_most(records: Sequence[Record]) -> list[int]:
    """The jobs with most changes of size, in order of submission."""
    counts = pl.concat(
        [record.jobs.select("job", "submit_s", "resizes", "service_gpu_s") for record in records]
    )
    summed = counts.group_by("job").agg(pl.col("resizes", "service_gpu_s").sum(), pl.col("submit_s").min())
    chosen = summed.filter(pl.col("resizes") > 0).sort(
        ["resizes", "service_gpu_s", "job"], descending=[True, True, False]
    )
    rows: list[int] = chosen.head(LANES).sort("submit_s", "job")["job"].to_list()
    return rows


def _held(record: Record, job: int) -> Steps:
    rows = closed_intervals(record).filter(pl.col("job") == job)
    amount = (rows["gpus"] * rows["share"]).to_numpy().astype(np.float64)
    return Steps.held(rows["start_s"].to_numpy(), rows["end_s"].to_numpy(), amount)


def _figure(
    record: Record, held: dict[int, Steps], jobs: Sequence[int], span: Span, most: float
) -> SizesFigure:
    ids = dict(record.jobs.select("job", "job_id").iter_rows())
    lanes = tuple(
        Lane(ids[job], _band(held[job], span, most, (number + 1) * HEIGHT)) for number, job in enumerate(jobs)
    )
    own = record.jobs.filter(pl.col("job").is_in(list(jobs)))
    changes = int(own["resizes"].sum())
    words = [f"job {ids[job]} {_range(held[job])}" for job in jobs]
    labels = tuple(Tick((number + 0.4) / len(jobs), ids[job]) for number, job in enumerate(jobs))
    caption = f"{plural(changes, 'change')} of size; a full lane is {plural(round(most), 'GPU')}."
    text = f"{record.policy}: GPUs held over time. {'; '.join(words)}."
    return SizesFigure(record.policy, caption, text, lanes, labels, most)


def _range(steps: Steps) -> str:
    """`1 to 8 GPUs`."""
    sizes = steps.value[steps.value > 1e-9]
    if not len(sizes):
        return "none"
    low, high = float(sizes.min()), float(sizes.max())
    return f"{high:g} GPU{'' if high == 1.0 else 's'}" if low == high else f"{low:g} to {high:g} GPUs"


def _band(steps: Steps, span: Span, most: float, bottom: float) -> str:
    """Corner by corner along the top, with both ends on the bottom of the lane."""
    part = steps.within(span.start_s, span.end_s)
    times, values = part.time_s, part.value
    if len(times) > STEPS:
        bins = binned(steps, span.start_s, span.end_s, STEPS)
        times, values = bins.edges_s[:-1], bins.mean
    x = np.repeat(np.append(times, span.end_s), 2)[1:-1]
    x = np.concatenate(([span.start_s], x, [span.end_s])) - span.start_s
    y = np.concatenate(([0.0], np.repeat(values, 2), [0.0])) / most
    return path_of(x / span.length_s * UNITS, bottom - y * _FULL * HEIGHT)
