"""How firm the numbers of a run are: their values in other mixtures of its weeks.

A trace is cut into blocks of consecutive submissions.  A draw takes as many blocks as there are, with
replacement, of one of the seeds, and a number is computed from these blocks alone.  All policies share the
draws, so that a difference is between equal jobs; two names of one policy never differ.

This is the bootstrap with blocks (Carlstein, Annals of Statistics 1986), paired: jobs of one week wait for
each other, so that single jobs are no independent draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rota.model.columns import Floats, Ints
from rota.reports.metrics import METRICS
from rota.reports.occupancy import available_gpu_s, granted
from rota.reports.sample import Sample
from rota.reports.window import Span

DRAWS = 300
LIKELY = 0.95
"""Part of the draws that a stated range holds."""
JOBS_OF_A_BLOCK = 40
BLOCKS = (5, 20)
"""Fewest and most."""
FEWEST_JOBS = 50
"""With fewer jobs no two policies count as different."""


@dataclass(frozen=True)
class Mixtures:
    """Draws of blocks: of each its seed, and the numbers of its blocks, some of them several times."""

    seeds: Ints
    """[draw]"""
    picks: tuple[Ints, ...]
    """By draw, as many blocks as its seed has."""


def edges_of(submit_s: Floats) -> Floats:
    """Moments between one block and the next."""
    number = int(np.clip(len(submit_s) // JOBS_OF_A_BLOCK, *BLOCKS))
    inner: Floats = np.quantile(submit_s, np.arange(1, number) / number)
    return inner


def mixtures(blocks: Sequence[int]) -> Mixtures:
    """The draws for seeds with these numbers of blocks; equal numbers give equal draws."""
    rng = np.random.default_rng(0)
    seeds = rng.integers(len(blocks), size=DRAWS)
    return Mixtures(seeds, tuple(rng.integers(blocks[seed], size=blocks[seed]) for seed in seeds.tolist()))


def likely(draws: Floats) -> tuple[float, float]:
    """Within which `LIKELY` of the draws lie that are numbers; anything may be if none is one."""
    known = draws[np.isfinite(draws)]
    if not len(known):
        return -np.inf, np.inf
    edge = 50.0 * (1.0 - LIKELY)
    low, high = np.percentile(known, [edge, 100.0 - edge])
    return float(low), float(high)


_OF_JOBS = tuple(
    f"{prefix}_{stem}"
    for stem in ("jct_s", "waiting_s", "delay_s", "slowdown", "rho")
    for prefix in ("mean", "p50", "p90", "p99")
)
DRAWN = (*_OF_JOBS, "max_rho", "goodput", "deadline_share", "promises_kept_share", "utilisation")
"""Metrics that have an interval: times and shares."""


def drawn(sample: Sample) -> Mapping[str, Floats]:
    """Each metric of `DRAWN` in each draw, NaN if it has no number; empty if there are too few jobs.

    Draws from equal jobs have equal blocks, whichever policy ran them.
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
