"""Marks of axes: at round values, the last at the end, and as many as were asked for at most."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from rota.reports.chart import (
    TIME_STEPS_S,
    Axis,
    Tick,
    duration_axis,
    hour_axis,
    log_time_axis,
    number_axis,
    share_axis,
    time_axis,
    time_marks,
    value_axis,
    with_marks,
)

DAY_S = 86400.0
BEGAN = datetime(2017, 10, 3, 14, 37, 12, 400_000, tzinfo=UTC)
LENGTHS_S = (0.2, 1, 7, 45, 100, 3599, 3601, 7 * 3600, 1.1 * DAY_S, 14.2 * DAY_S, 29.3 * DAY_S, 31 * DAY_S)
LENGTHS_S += (100 * DAY_S, 400 * DAY_S, 5000 * DAY_S)

AXES: list[Axis] = [
    *(time_axis(length_s, "x") for length_s in LENGTHS_S),
    *(time_axis(length_s, "x", BEGAN) for length_s in LENGTHS_S),
    *(duration_axis(length_s, "y") for length_s in (0.0, *LENGTHS_S)),
    *(log_time_axis(low, high, "x") for low, high in ((0.1, 0.2), (3, 59), (70, 5 * 3600), (1, 25 * DAY_S))),
    *(log_time_axis(700.0, days * DAY_S, "x") for days in (340, 366, 800, 5001)),
    *(number_axis(high, "y") for high in (0, 1, 3, 7, 12, 66, 101, 999, 1001, 123_456, 2_345_678)),
    *(
        value_axis(low, high, "y")
        for low, high in ((-5, 10), (1, 2), (0, 0.37), (-0.02, 1), (3, 3), (-7, -1))
    ),
    share_axis("y"),
    hour_axis("x"),
]


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: f"{axis.kind}-{axis.low:g}-{axis.high:g}")
def test_the_last_mark_is_at_the_end(axis: Axis) -> None:
    places = [tick.at for tick in axis.ticks]
    assert places[-1] == pytest.approx(1.0)
    assert places == sorted(places)
    texts = [tick.text for tick in axis.ticks]
    assert all(texts[i] != texts[i + 1] for i in range(len(texts) - 1)), "neighbours say different things"
    assert max(len(tick.text) for tick in axis.ticks) <= 9


@pytest.mark.parametrize("most", range(2, 15))
def test_no_more_marks_than_there_is_room_for(most: int) -> None:
    for axis in AXES:
        made = with_marks(axis, most)
        assert len(made.ticks) - 1 <= most
        assert made.ticks[-1].at == pytest.approx(1.0)
        assert made.low <= axis.low
        assert made.high >= axis.high * (1 - 1e-9), "nothing is cut off"


@pytest.mark.parametrize("length_s", LENGTHS_S[2:-1])
@pytest.mark.parametrize("began", [None, BEGAN])
def test_little_stays_empty_behind_the_end(length_s: float, began: datetime | None) -> None:
    marks = time_marks(length_s, 8, began)
    assert length_s <= marks[-1] <= 1.17 * length_s
    assert np.allclose(np.diff(marks), marks[1] - marks[0])


def test_dates_stand_at_midnights_and_weeks_at_mondays() -> None:
    axis = time_axis(45 * DAY_S, "x", datetime(2017, 10, 3, 14, 0, tzinfo=UTC))
    assert [tick.text for tick in axis.ticks] == [
        *("9 Oct", "16 Oct", "23 Oct", "30 Oct", "6 Nov", "13 Nov", "20 Nov"),
    ]
    seconds = time_axis(100.0, "x", datetime(2017, 10, 3, 14, 37, tzinfo=UTC))
    assert [tick.text for tick in seconds.ticks][:3] == ["14:37", "14:37:20", "14:37:40"]


def test_marks_of_the_part_that_is_shown() -> None:
    """The axis goes on behind it, to a round moment of its own."""
    axis = time_axis(51.4 * DAY_S, "x", shown_s=26.8 * DAY_S)
    assert [tick.text for tick in axis.ticks] == ["0", "4d", "8d", "12d", "16d", "20d", "24d", "28d"]
    assert axis.high / DAY_S == 56
    assert axis.ticks[-1].at == pytest.approx(28 / 56)
    assert with_marks(axis, 4, axis.ticks[-1].at).ticks[-1].text == "28d"


def test_marks_that_are_given_stay() -> None:
    axis = Axis(1.0, 1000.0, "live jobs", "given", log=True, ticks=(Tick(0.0, "1"), Tick(1.0, "1,000")))
    assert with_marks(axis, 7) == axis


def test_the_page_s_script_has_the_same_steps() -> None:
    """Read from the script, since the two are to give one axis."""
    from importlib.resources import files

    script = (files("rota.reports") / "templates" / "core.js").read_text(encoding="utf-8")
    for unit in (1, 60, 3600, 86400):
        longer = [step for step in TIME_STEPS_S if step >= unit]
        counts = [step // unit for step in longer if step < {1: 60, 60: 3600, 3600: 86400}.get(unit, 1e9)]
        assert f"[{unit}, [{', '.join(map(str, counts))}]]" in script
