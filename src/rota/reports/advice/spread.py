"""How firm a difference between two policies is: their costs by the goals, in other mixtures of the weeks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats
from rota.reports.advice.goals import Parts, WeightedGoals
from rota.reports.blocks import DRAWS, Mixtures, edges_of, likely, mixtures

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
        return likely(change)


def drawn_costs(
    runs: Mapping[str, Sequence[Run]], wanted: WeightedGoals, submit_s: Sequence[Floats]
) -> PolicyCosts:
    """The draws of all policies.

    `runs` has for each policy one run of every seed; `submit_s` the counted submissions of every seed.
    """
    edges = [edges_of(moments) for moments in submit_s]
    drawn = mixtures([len(one) + 1 for one in edges])
    draws = np.array(
        [
            _costs([_blocks(run, edge) for run, edge in zip(of, edges, strict=True)], drawn, wanted)
            for of in runs.values()
        ]
    )
    return PolicyCosts(tuple(runs), draws.reshape(len(runs), DRAWS))


def _blocks(run: Run, edges: Floats) -> list[list[Floats]]:
    """By goal, the values of each block."""
    cut = []
    for parts in run:
        place = np.searchsorted(edges, parts.moment_s, side="right")
        order = np.argsort(place, kind="stable")
        cut.append(np.split(parts.values[order], np.searchsorted(place[order], np.arange(1, len(edges) + 1))))
    return cut


def _costs(
    by_seed: Sequence[Sequence[Sequence[Floats]]], drawn: Mixtures, wanted: WeightedGoals
) -> list[float]:
    costs = []
    for seed, chosen in zip(drawn.seeds.tolist(), drawn.picks, strict=True):
        mixtures = [
            np.concatenate([of_goal[block] for block in chosen.tolist()]) for of_goal in by_seed[seed]
        ]
        values = [goal.fold(mixture) for goal, mixture in zip(wanted.goals, mixtures, strict=True)]
        costs.append(wanted.cost(values) if np.isfinite(values).all() else np.nan)
    return costs
