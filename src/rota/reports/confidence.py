"""The numbers of a run by draw: what they come to in other mixtures of the same weeks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from rota.model.columns import Floats
from rota.reports.blocks import FEWEST_JOBS, Mixtures, edges_of, mixtures
from rota.reports.metrics import METRICS
from rota.reports.occupancy import available_gpu_s, granted
from rota.reports.sample import Sample
from rota.reports.window import Span

_OF_JOBS = tuple(
    f"{prefix}_{stem}"
    for stem in ("jct_s", "waiting_s", "delay_s", "slowdown", "rho")
    for prefix in ("mean", "p50", "p90", "p99")
)
DRAWN = (*_OF_JOBS, "max_rho", "goodput", "deadline_share", "promises_kept_share", "utilisation")
"""Metrics that have an interval: those of times and shares."""


def drawn(sample: Sample) -> Mapping[str, Floats]:
    """Each metric of `DRAWN` in each draw, NaN where it has no number; empty if there are too few jobs.

    Draws of the same jobs are of the same blocks, whichever policy ran them.
    """
    submit_s = sample.column("submit_s")
    if len(submit_s) < FEWEST_JOBS:
        return {}
    edges = edges_of(submit_s)
    draws = mixtures([len(edges) + 1])
    place = np.searchsorted(edges, submit_s, side="right")
    blocks = [sample.rows[place == number] for number in range(len(edges) + 1)]
    values: dict[str, list[float]] = {key: [] for key in DRAWN if METRICS[key].scope == "jobs"}
    for picked in draws.picks:
        part = sample.at(np.concatenate([blocks[number] for number in picked.tolist()]))
        for key, column in values.items():
            value = METRICS[key].of(part)
            column.append(np.nan if value is None else float(value))
    return {key: np.array(column) for key, column in values.items()} | _utilisation(sample, edges, draws)


def _utilisation(sample: Sample, edges: Floats, draws: Mixtures) -> dict[str, Floats]:
    """GPU-seconds granted over those there, between the edges of blocks."""
    span, steps = sample.span, granted(sample.record)
    cuts = [span.start_s, *np.clip(edges, span.start_s, span.end_s).tolist(), span.end_s]
    parts = [Span(first, last) for first, last in pairwise(cuts)]
    held = np.array([steps.integral(part.start_s, part.end_s) for part in parts])
    there = np.array([available_gpu_s(sample.record, part) for part in parts])
    sums = [(held[picked].sum(), there[picked].sum()) for picked in draws.picks]
    return {"utilisation": np.array([used / whole if whole > 0 else np.nan for used, whole in sums])}
