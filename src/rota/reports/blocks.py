"""How firm a number is: the same weeks in other mixtures.

A trace is cut into blocks of consecutive submissions.  A draw takes as many blocks as there are, with
replacement, of one of the seeds, and a number is worked out of these blocks alone.  All policies get the same
draws, so that a difference is between the same jobs; two names of one policy never differ.

This is the bootstrap with blocks (Carlstein, Annals of Statistics 1986), paired: jobs of one week wait for
each other, so that single jobs are no independent draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats, Ints

DRAWS = 300
LIKELY = 0.95
"""Part of the draws that a stated range holds."""
JOBS_OF_A_BLOCK = 40
BLOCKS = (5, 20)
"""Fewest and most."""
FEWEST_JOBS = 50
"""Below, nothing is told apart."""


@dataclass(frozen=True)
class Mixtures:
    """Draws of blocks: of each its seed, and the numbers of its blocks, some of them several times."""

    seeds: Ints
    """[draw]"""
    picks: tuple[Ints, ...]
    """By draw, as many blocks as its seed has."""


def edges_of(submit_s: Floats) -> Floats:
    """Moments at which one block ends and the next begins."""
    number = int(np.clip(len(submit_s) // JOBS_OF_A_BLOCK, *BLOCKS))
    inner: Floats = np.quantile(submit_s, np.arange(1, number) / number)
    return inner


def mixtures(blocks: Sequence[int]) -> Mixtures:
    """The draws where each seed has so many blocks; the same numbers give the same draws."""
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
