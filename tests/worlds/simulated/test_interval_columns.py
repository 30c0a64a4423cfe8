"""Long runs keep their intervals as columns of numbers: the record is the same."""

from __future__ import annotations

import pytest

from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Role
from rota.scheduler.world import How, Lost
from rota.traces.generate import generate
from rota.worlds.simulated.interval_columns import IntervalBook, IntervalColumns
from rota.worlds.simulated.run import run

INTERVALS = [
    (Grant(3, (0, 1)), 0.0, 10.0, How.FINISHED, Lost()),
    (Grant(1, (2,), 0.5, Role.PACKED, batch_size=8.0), 1.0, 4.0, How.RESIZED, Lost(2.0, 0.25)),
    (Grant(2, (), node=4), 2.0, 2.5, How.LOST, Lost()),
]


def test_columns_say_what_was_told() -> None:
    columns = IntervalColumns(INTERVALS)
    assert columns.jobs.tolist() == [3, 1, 2]
    assert columns.gpus.tolist() == [2, 1, 0]
    assert columns.devices.tolist() == [0, 1, 2]
    assert columns.gpu_s.tolist() == [20.0, 1.5, 0.0]
    assert columns.ended(How.RESIZED).tolist() == [False, True, False]
    assert columns.lost_s.tolist() == [0.0, 0.25, 0.0]
    assert columns.limits["batch_size"].tolist()[1] == 8.0


def test_folded_intervals_are_let_go_of_and_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.worlds.simulated.interval_columns._PART", 2)
    book, told = IntervalBook(), list(INTERVALS)
    book.fold(told)
    told += INTERVALS[:1]
    book.fold(told)
    assert not told
    assert [part.count for part in book.parts] == [2, 1, 1]
    assert book.of_all(lambda part: part.start_s).tolist() == [0.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize("policy", ["gandiva", "tiresias", "pai"])
def test_a_record_is_the_same_however_often_columns_are_made(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = parse_cluster("3x8")
    trace = generate(120, seed=3, load=1.2, cluster=cluster)
    whole = run(policy, trace, cluster)
    monkeypatch.setattr("rota.worlds.simulated.recorder.MOST_AS_TOLD", 17)
    folded = run(policy, trace, cluster)
    assert folded.intervals.equals(whole.intervals)
    assert folded.jobs.equals(whole.jobs)
    assert len(whole.intervals) > 100
