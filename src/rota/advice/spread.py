"""How firm a difference between two policies is: the same weeks in other mixtures.

The replayed part is cut into blocks of consecutive submissions.  A draw takes as many blocks as there are,
with replacement, of one of the seeds, and folds every policy's goals from these blocks alone.  All policies
get the same draws, so that a difference is between the same jobs; two names of one policy never differ.

This is the bootstrap with blocks (Carlstein, Annals of Statistics 1986), paired: jobs of one week wait for
each other, so that single jobs are no independent draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.advice.goals import Parts, WeightedGoals
from rota.model.columns import Floats, Ints

DRAWS = 300
LIKELY = 0.95
"""Part of the draws that a stated range holds."""
JOBS_OF_A_BLOCK = 40
BLOCKS = (5, 20)
"""Fewest and most."""
FEWEST_JOBS = 50
"""Below, nothing is told apart."""

Run = Sequence[Parts]
"""The parts of one run, goal by goal."""


@dataclass(frozen=True)
class PolicyCosts:
    """What each of several policies costs (`WeightedGoals.cost`), by draw."""

    names: tuple[str, ...]
    draws: Floats
    """[policy, draw]"""

    def between(self, first: str, second: str) -> tuple[float, float]:
        """Within which the cost of `first` less that of `second` lies in `LIKELY` of the draws."""
        change = self.draws[self.names.index(first)] - self.draws[self.names.index(second)]
        known = change[np.isfinite(change)]
        if not len(known):
            return -np.inf, np.inf
        edge = 50.0 * (1.0 - LIKELY)
        low, high = np.percentile(known, [edge, 100.0 - edge])
        return float(low), float(high)


def drawn_costs(
    runs: Mapping[str, Sequence[Run]], wanted: WeightedGoals, submit_s: Sequence[Floats]
) -> PolicyCosts:
    """The draws of all policies.

    `runs` has for each policy one run of every seed; `submit_s` the counted submissions of every seed.
    """
    rng = np.random.default_rng(0)
    edges = [_edges(moments) for moments in submit_s]
    blocks = [len(one) + 1 for one in edges]
    seeds = rng.integers(len(submit_s), size=DRAWS)
    picks = [rng.integers(blocks[seed], size=blocks[seed]) for seed in seeds.tolist()]
    draws = np.array(
        [
            _costs([_blocks(run, edge) for run, edge in zip(of, edges, strict=True)], seeds, picks, wanted)
            for of in runs.values()
        ]
    )
    return PolicyCosts(tuple(runs), draws.reshape(len(runs), DRAWS))


def _edges(submit_s: Floats) -> Floats:
    """Moments at which one block ends and the next begins."""
    number = int(np.clip(len(submit_s) // JOBS_OF_A_BLOCK, *BLOCKS))
    inner: Floats = np.quantile(submit_s, np.arange(1, number) / number)
    return inner


def _blocks(run: Run, edges: Floats) -> list[list[Floats]]:
    """By goal, the values of each block."""
    cut = []
    for parts in run:
        place = np.searchsorted(edges, parts.moment_s, side="right")
        order = np.argsort(place, kind="stable")
        cut.append(np.split(parts.values[order], np.searchsorted(place[order], np.arange(1, len(edges) + 1))))
    return cut


def _costs(
    by_seed: Sequence[Sequence[Sequence[Floats]]], seeds: Ints, picks: Sequence[Ints], wanted: WeightedGoals
) -> list[float]:
    costs = []
    for seed, chosen in zip(seeds.tolist(), picks, strict=True):
        mixtures = [
            np.concatenate([of_goal[block] for block in chosen.tolist()]) for of_goal in by_seed[seed]
        ]
        values = [goal.fold(mixture) for goal, mixture in zip(wanted.goals, mixtures, strict=True)]
        costs.append(wanted.cost(values) if np.isfinite(values).all() else np.nan)
    return costs
