"""Where waiting comes from, and two policies job by job, against hand-computed examples."""

from __future__ import annotations

import numpy as np
import pytest
from report_toys import Row, record

from rota.model.record import Record
from rota.reports.against import pairs
from rota.reports.compare import compare
from rota.reports.sample import Sample
from rota.reports.summary import summarise
from rota.reports.waits import (
    AGAIN,
    FIRST,
    HELD,
    causes,
    hour_chart,
    size_bars,
    split,
    split_bars,
)

SPLITS = [
    # submit eligible start waiting    held  first again   why
    (0.0, None, 10.0, 10.0, 0.0, 10.0, 0.0, "the trace does not say when it was eligible"),
    (0.0, 4.0, 10.0, 10.0, 4.0, 6.0, 0.0, "a dependency kept it for 4 s"),
    (0.0, 4.0, 10.0, 25.0, 4.0, 6.0, 15.0, "preempted for 15 s later on"),
    (0.0, 99.0, 10.0, 10.0, 10.0, 0.0, 0.0, "eligible after it started: all of the wait, and no more"),
    (5.0, 1.0, 5.0, 7.0, 0.0, 0.0, 7.0, "eligible before it was submitted"),
    (0.0, None, 10.0, 6.0, 0.0, 6.0, 0.0, "parts never add up to more than it waited"),
]


@pytest.mark.parametrize(("submit", "eligible", "start", "waiting", "held", "first", "again", "why"), SPLITS)
def test_split(submit, eligible, start, waiting, held, first, again, why) -> None:  # type: ignore[no-untyped-def]
    row = {"submit_s": submit, "eligible_s": eligible, "start_s": start, "finish_s": 100.0, "gpus": 1}
    sample = Sample.of(record([row | {"waiting_s": waiting}]))
    assert split(sample) == {HELD: held, FIRST: first, AGAIN: again}, why


def test_causes_of_the_first_wait() -> None:
    """Shares of the time to the first start, the largest first; who never waited has no cause."""
    waits = [("Priority", 30.0), ("Resources", 10.0), ("Priority", 50.0), ("", 0.0)]
    rows: list[Row] = [
        {"submit_s": 0.0, "start_s": s, "finish_s": 99.0, "waiting_s": s, "gpus": 1, "wait_code": code}
        for code, s in waits
    ]
    told, silent = record(rows), record([row | {"wait_code": ""} for row in rows])
    assert causes([told, silent]) == [("Priority", [80 / 90, None]), ("Resources", [10 / 90, None])]
    assert causes([silent]) == []


def _run(policy: str, *waits_s: float, submit_s: tuple[float, ...] | None = None) -> Record:
    """Jobs of 1, 2, 3 ... GPUs that wait for so long; NaN never ends."""
    submits = submit_s or (0.0,) * len(waits_s)
    rows: list[Row] = [
        {"submit_s": s, "start_s": s + w, "finish_s": s + w + 5, "waiting_s": w, "gpus": i + 1}
        if w == w
        else {"submit_s": s, "gpus": i + 1, "state": "PENDING", "starts": 0}
        for i, (s, w) in enumerate(zip(submits, waits_s, strict=True))
    ]
    return record(rows, policy=policy)


def test_bars_have_one_scale() -> None:
    runs = [_run("a", 10, 30), _run("b", 5, 5)]
    bars = split_bars(runs)
    assert bars is not None
    assert [row.parts for row in bars.rows] == [(0.0, 20.0, 0.0), (0.0, 5.0, 0.0)]
    assert [bars.said(row) for row in bars.rows] == [[(FIRST, "20s")], [(FIRST, "5s")]]
    assert [bars.has(part) for part in range(3)] == [False, True, False]
    assert split_bars([_run("a", 0, 0)]) is None
    sizes = size_bars(compare([summarise(run) for run in runs]))
    assert [(of.title, of.caption, [row.parts[0] for row in of.rows], of.scale) for of in sizes] == [
        ("1 GPU", "1 job", [10.0, 5.0], 30.0),
        ("2-4 GPUs", "1 job", [30.0, 5.0], 30.0),
    ]


def test_waiting_by_hour_of_submission() -> None:
    hour = 3600.0
    run = _run("a", 10, 20, 60, submit_s=(0.0, 1.5 * hour, 25 * hour))
    chart = hour_chart([run])
    assert chart is not None
    assert chart.curves[0].y[:6].tolist() == [10, 10, 40, 40, 0, 0], "the second and third in the second hour"
    assert chart.caption.endswith("each hour of the day. At 0 where there are none: 22 of the hours.")
    assert "not known" in chart.x.label
    stamp = {"epoch": "2024-02-28 22:30:00", "time_zone": "UTC"}
    dated = hour_chart([record(run.jobs.to_dicts(), policy="a", provenance=stamp)])
    assert dated is not None
    assert dated.curves[0].y[::2][[22, 23, 0]].tolist() == [10, 60, 20]
    assert hour_chart([_run("a", 10, 20)]) is None, "less than a day"


def test_pairs() -> None:
    """Same within a second; a job that one policy did not finish is nobody's gain."""
    first, second = _run("a", 10, 50, 30, np.nan, 0), _run("b", 100, 20, 30.4, 5, 8)
    (pair,) = pairs([first, second])
    assert (pair.shorter, pair.same, pair.longer, pair.jobs) == (1, 1, 2, 4)
    assert (pair.gained_s, pair.lost_s) == (30.0, 49.0)
    assert [(m.row, m.first_s, m.second_s) for m in pair.losses] == [(0, 10.0, 100.0), (4, 0.0, 8.0)]
    assert [m.row for m in pair.gains] == [1]
    turned, (other,) = pair.turned(), pairs([second, first])
    assert (turned.shorter, turned.longer, turned.gains) == (other.shorter, other.longer, other.gains)
    assert (turned.gained_s, turned.lost_s, turned.losses) == (other.gained_s, other.lost_s, other.losses)
    assert pairs([first]) == []


def test_many_policies_are_paired_with_the_first() -> None:
    runs = [_run(name, 1.0) for name in "abcdefghij"]
    assert [(pair.first, pair.second) for pair in pairs(runs)] == [(0, n) for n in range(1, 10)]
    assert len(pairs(runs[:5])) == 10
