"""The pictures of a promise: its reward and when it would be done, and the chance of each deadline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.model.columns import Floats
from rota.reports.chart import Chart, Curve, share_axis, time_axis, value_axis


def reward_chart(points: Sequence[tuple[float, float]], ends_s: Floats, horizon_s: float) -> Chart:
    """The reward of one agreement over time, and below it how many futures are done by then.

    `points` and `ends_s` count from now; an end that never comes is infinite.
    """
    moments = np.array([0.0, *(at_s for at_s, _ in points), horizon_s])
    values = np.array([points[0][1], *(value for _, value in points), points[-1][1]])
    low, high = float(values.min()), float(values.max())
    y = value_axis(low, high, "reward")
    x, share = _done(ends_s, horizon_s)
    return Chart(
        key="reward",
        title="What it is worth, and when it would be done",
        caption="",
        text=f"reward from {high:g} down to {low:g}; {np.isfinite(ends_s).mean():.0%} of the futures end",
        x=time_axis(horizon_s, "time from now"),
        y=y,
        curves=(
            Curve("reward", 0, moments, values),
            Curve("futures done, none to all", 1, x, y.low + (y.high - y.low) * share, dashed=True),
        ),
    )


def ends_chart(ends_s: Sequence[tuple[str, float, Floats]], horizon_s: float) -> Chart:
    """Share of the futures that are done by each moment, by agreement: its name, its deadline, its ends."""
    curves = []
    for number, (name, due_s, ends) in enumerate(ends_s):
        x, share = _done(ends, horizon_s)
        curves.append(Curve(name, number, x, share))
        curves.append(Curve("", number, np.array([due_s, due_s]), np.array([0.0, 1.0]), dashed=True))
    return Chart(
        key="ends",
        title="Futures that are done, and the deadlines",
        caption="",
        text=", ".join(f"{name}: {(ends <= due_s).mean():.0%} in time" for name, due_s, ends in ends_s),
        x=time_axis(horizon_s, "time from now"),
        y=share_axis("share of the futures that are done"),
        curves=tuple(curves),
    )


def chances_chart(chances: Sequence[tuple[str, Floats, Floats]], horizon_s: float) -> Chart:
    """The chance of each deadline, by size of the job: its name, the deadlines ahead, their chances."""
    return Chart(
        key="chances",
        title="Chance of being in time, by deadline",
        caption="",
        text="; ".join(f"{name}: {share.min():.0%} to {share.max():.0%}" for name, _, share in chances),
        x=time_axis(horizon_s, "deadline, from now"),
        y=share_axis("chance of being in time"),
        curves=tuple(Curve(name, number, x, share) for number, (name, x, share) in enumerate(chances)),
    )


def _done(ends_s: Floats, horizon_s: float) -> tuple[Floats, Floats]:
    """Corners of the share that is done by each moment."""
    ends = np.sort(ends_s[ends_s <= horizon_s])
    share = np.arange(len(ends) + 1) / len(ends_s)
    x = np.concatenate(([0.0], np.repeat(ends, 2), [horizon_s]))
    return x, np.repeat(share, 2)
