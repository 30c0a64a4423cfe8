"""Opt: cores and memory divided over the whole cluster by an integer program, as an upper bound of `tune`.

The sum of speeds relative to proportional shares is largest, and no job is slower than with its own share.
Jobs of one class with as many GPUs are counted together, so the program grows with the number of classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.model.columns import Floats
from rota.solvers.choice import Choice, ItemKind, choose
from rota.systems.synergy.demand import Demands
from rota.systems.synergy.room import Ask, Room


def divide(room: Room, asks: Sequence[Ask], demands: Demands) -> tuple[list[Ask], Choice]:
    """`asks` with what the program gives them; jobs without a profile keep what they wanted."""
    groups: dict[tuple[int, int], list[Ask]] = {}
    for ask in asks:
        number = demands.class_of(ask.row)
        if number >= 0 and ask.allowed.any():
            groups.setdefault((number, ask.gpus), []).append(ask)
    options = {number: _options(demands, number) for number, _ in groups}
    kinds = [
        ItemKind(len(group), options[number][:, 0], gpus * _needs(options[number], demands))
        for (number, gpus), group in groups.items()
    ]
    choice = choose(kinds, _left(room, asks, demands, groups), demands.parameters.max_nodes)
    given: dict[int, Floats] = {}
    for ((number, _), group), counts in zip(groups.items(), choice.counts, strict=True):
        richest = np.repeat(np.arange(len(counts)), counts)[::-1]
        for ask, option in zip(group, richest.tolist(), strict=True):
            given[ask.row] = options[number][option, 1:]
    return [ask._replace(wants=given.get(ask.row, ask.wants)) for ask in asks], choice


def _options(demands: Demands, number: int) -> Floats:
    """Speed, cores, memory and disk of what a job of the class may have: its share first, [option, 4]."""
    speeds, (cpus, gib) = demands.classes[number], demands.share[:2].tolist()
    fair = speeds.speed(cpus, gib)
    rows = [(fair, np.nan, np.nan, np.nan)]
    for c in speeds.cpus[speeds.cpus <= demands.most[0]].tolist():
        for m in speeds.gib[speeds.gib <= demands.most[1]].tolist():
            speed = speeds.speed(c, m)
            if speed >= fair:
                rows.append((speed, c, m, demands.disk(number, c, m)))
    return np.array(rows)


def _needs(options: Floats, demands: Demands) -> Floats:
    """Use of each option for a GPU, [option, amount]; a share of an unlimited amount counts as 0."""
    share = np.where(np.isfinite(demands.share), demands.share, 0.0)
    return np.where(np.isnan(options[:, 1:]), share, options[:, 1:])


def _left(
    room: Room, asks: Sequence[Ask], demands: Demands, groups: dict[tuple[int, int], list[Ask]]
) -> Floats:
    """Capacity for the jobs in `groups`, [amount]: others get what they want, or their share."""
    inside = {ask.row for group in groups.values() for ask in group}
    share = np.where(np.isfinite(demands.share), demands.share, 0.0)
    left = room.capacity.sum(axis=0)
    for ask in asks:
        if ask.row not in inside:
            left = left - ask.share * ask.gpus * np.fmin(
                np.where(np.isnan(ask.wants), share, ask.wants), share
            )
    gpus = sum(ask.gpus for group in groups.values() for ask in group)
    most: Floats = np.maximum(left, gpus * share)
    return most
