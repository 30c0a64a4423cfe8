"""The pictures of a promise: where their curves go."""

from __future__ import annotations

import math

import numpy as np

from rota.reports.promise import chances_chart, ends_chart, reward_chart
from rota.reports.svg import draw

ENDS_S = np.array([80.0, 120.0, math.inf, 90.0])


def test_reward_and_what_is_done_by_then() -> None:
    """The reward falls from 10 to -5; three of four futures end, so the other curve stops a quarter below."""
    chart = reward_chart([(100.0, 10.0), (150.0, -5.0)], ENDS_S, 200.0)
    reward, done = chart.curves
    assert np.interp([90.0, 120.0, 160.0], reward.x, reward.y).tolist() == [10.0, 4.0, -5.0]
    assert (done.y[0], done.y[-1]) == (-5.0, -5.0 + 15.0 * 0.75)
    assert (chart.y.low, chart.y.high) == (-5.0, 10.0)
    assert "75% of the futures end" in draw(chart)


def test_a_reward_that_never_changes_has_an_axis() -> None:
    chart = reward_chart([(100.0, 1.0)], ENDS_S, 200.0)
    assert (chart.y.low, chart.y.high) == (1.0, 2.0)
    assert "NaN" not in draw(chart).replace("nan", "NaN")


def test_ends_beside_their_deadlines() -> None:
    chart = ends_chart([("soon", 85.0, ENDS_S), ("late", 130.0, ENDS_S)], 200.0)
    assert chart.text == "soon: 25% in time, late: 75% in time"
    assert [curve.x.tolist() for curve in chart.curves[1::2]] == [[85.0, 85.0], [130.0, 130.0]]
    assert draw(chart).count('<path class="curve') == 2 + len(chart.curves), "two names, and the curves"


def test_chances_by_size() -> None:
    dues = np.array([100.0, 200.0])
    chart = chances_chart(
        [("2 GPUs", dues, np.array([0.2, 0.9])), ("4 GPUs", dues, np.array([0.5, 1.0]))], 300.0
    )
    assert chart.text == "2 GPUs: 20% to 90%; 4 GPUs: 50% to 100%"
    assert [curve.name for curve in chart.curves] == ["2 GPUs", "4 GPUs"]
