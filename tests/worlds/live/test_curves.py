"""What a job says becomes points: never too many, in order, with its first and last word and its extremes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_stage import EPOCH_S, Stage

import strategies  # noqa: F401  (registers the profile)
from rota.wire.numbers import LARGEST
from rota.wire.sync import PartStatus, ProgressReport, Usage
from rota.worlds.live.curves import FULL, LEAST_S, MOST_POINTS, Curves, Point, said_by_program, thinned
from rota.worlds.live.observations import MOST_THINNED

VALUES = st.floats(-LARGEST, LARGEST)
SAID = st.tuples(st.floats(0.0, 40.0), VALUES, st.integers(0, 2))
"""Seconds since the word before, what was said, attempts since."""


def play(said: list[tuple[float, float, int]]) -> tuple[list[Point], Curves]:
    """What is on record of a job that has said these things, thinned whenever that is due; and its end."""
    curves, points, now, attempt = Curves(), [], 0.0, 1
    for seconds, value, more in said:
        now, attempt = now + seconds, attempt + more
        done = curves.see(0, attempt, now, {"loss": value})
        points += [] if done is None else [done]
        if curves.is_full:
            curves.thin()
            points = thinned(points)
        assert len(points) <= curves.points <= MOST_POINTS
    last = curves.close()
    return points + ([] if last is None else [last]), curves


def many(words: list[tuple[float, float, int]], count: int) -> list[tuple[float, float, int]]:
    """These words, said again and again."""
    return (words * (count // len(words) + 1))[:count]


def test_no_point_reaches_across_a_standstill() -> None:
    """A job that was suspended for a second of a long spacing has a point before and a point after."""
    curves = Curves(points=1, spacing_s=100.0)
    assert curves.see(0, 1, 10.0, {"loss": 4.0}, since_s=0.0) is None
    assert curves.see(0, 1, 20.0, {"loss": 3.0}, since_s=0.0) is None
    before = curves.see(0, 1, 40.0, {"loss": 2.0}, since_s=30.0)
    after = curves.close()
    assert before is not None
    assert after is not None
    assert (before.at_s, before.until_s, after.at_s, after.until_s) == (10.0, 20.0, 40.0, 40.0)


@given(st.lists(SAID, min_size=1, max_size=12), st.sampled_from([1, 40, 3 * FULL]))
def test_points(words: list[tuple[float, float, int]], count: int) -> None:
    said = many(words, count)
    points, curves = play(said)
    assert 1 <= len(points) <= MOST_POINTS
    assert curves.spacing_s >= LEAST_S
    for one, two in pairwise(points):
        assert one.at_s <= one.until_s <= two.at_s <= two.until_s
        assert one.attempt <= two.attempt
    values = [value for _, value, _ in said]
    at_s = math.fsum(seconds for seconds, _, _ in said)
    assert points[0].curves["loss"] == pytest.approx([values[0]] * 3 + [1.0], rel=1e-5), "the first word"
    assert points[0].at_s == points[0].until_s == said[0][0]
    assert points[-1].until_s == pytest.approx(at_s), "and when the last was said"
    told = [point.curves["loss"] for point in points]
    assert sum(count for *_, count in told) == len(said), "each word is part of one point"
    assert min(low for _, low, *_ in told) == pytest.approx(min(values), rel=1e-5)
    assert max(high for _, _, high, _ in told) == pytest.approx(max(values), rel=1e-5)
    assert all(low <= mean <= high and math.isfinite(mean) for mean, low, high, _ in told)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40))
def test_means_are_means(values: list[float]) -> None:
    """However often points were merged, the mean over all of them is the mean of what was said."""
    points = [Point(0, 1, float(i), float(i), LEAST_S, {"x": [v, v, v, 1.0]}) for i, v in enumerate(values)]
    while len(points) > 3:
        points = thinned(points)
    total = math.fsum(mean * count for point in points for mean, _, _, count in [point.curves["x"]])
    assert total / len(values) == pytest.approx(math.fsum(values) / len(values), abs=1e-4)


def test_a_silence_stays_one() -> None:
    """A job that was suspended for an hour has no point across it, as long as there is room."""
    said = [(2.0, 1.0, 0)] * (FULL // 2 - 20) + [(3600.0, 1.0, 0)] + [(2.0, 1.0, 0)] * (FULL - 100)
    points, _ = play(said)
    assert max(point.until_s - point.at_s for point in points) < 10.0
    assert len(points) < FULL


def test_numbers_that_are_none() -> None:
    curves = Curves()
    assert curves.see(0, 1, 1.0, {"loss": math.nan, "step_s": math.inf, "batch_size": None}) is None
    assert curves.see(0, 1, 1.0, {"loss": 1e308}) is None, "no program's loss is so large"
    first = curves.see(0, 1, 2.0, {"loss": -LARGEST})
    assert first is not None
    curves.see(0, 1, 2.5, {"loss": -LARGEST})
    curves.see(0, 1, 2.6, {"loss": LARGEST})
    merged = curves.close()
    assert merged is not None
    assert merged.curves["loss"] == [pytest.approx(-LARGEST / 3, abs=LARGEST), -LARGEST, LARGEST, 2.0]


@pytest.mark.parametrize(
    ("said", "throughput"),
    [
        ({"batch_size": 64.0, "step_s": 0.5}, 128.0),
        ({"batch_size": 64.0}, None),
        ({"step_s": 0.5}, None),
        ({"batch_size": 64.0, "step_s": 0.0}, None),
        ({"batch_size": 1e12, "step_s": 5e-324}, None),
    ],
)
def test_throughput(said: dict[str, float], throughput: float | None) -> None:
    assert said_by_program(ProgressReport(**said))["throughput"] == throughput


def progress(stage: Stage, **said: float) -> ProgressReport:
    return ProgressReport(at_s=EPOCH_S + stage.now, **said)


def drawn(stage: Stage) -> list[Point]:
    return [point for news in stage.news for point in news.points]


def test_a_job_draws_while_it_runs() -> None:
    stage = Stage(n0=2)
    row = stage.submit(gpus=2)
    stage.start(row, 0, 1)
    for loss in (3.0, 2.0, 1.0):
        stage.run(row, progress=progress(stage, loss=loss, step_s=0.5, batch_size=8.0))
        stage.run(row, progress=progress(stage, loss=loss, step_s=0.5, batch_size=8.0))
        stage.now += 2.5
    stage.end(row)
    first, second, last = drawn(stage)
    assert first.curves["loss"] == [3.0, 3.0, 3.0, 1.0]
    assert second.curves["loss"] == [2.0, 2.0, 2.0, 1.0], "what is told twice counts once"
    assert last.curves["loss"] == [1.0, 1.0, 1.0, 1.0], "the last word is there when the job has ended"
    assert (last.curves["gpus"][0], last.curves["throughput"][0]) == (2.0, 16.0)
    assert [point.attempt for point in drawn(stage)] == [1, 1, 1]


def test_use_of_devices_is_drawn() -> None:
    stage = Stage(kind="nvidia", n0=1)
    row = stage.submit(gpus=1)
    stage.start(row, 0)
    used = Usage(at_s=EPOCH_S + stage.now, gpu_utilisation=0.25, gpu_memory_gib=10.0, memory_gib=2.0)
    stage.run(row, usage=used)
    [point] = drawn(stage)
    assert {name: numbers[0] for name, numbers in point.curves.items()} == {
        "gpus": 1.0, "utilisation": 0.25, "gpu_memory_gib": 10.0, "memory_gib": 2.0,
    }  # fmt: skip


def test_what_an_agent_said_holds_for_a_while() -> None:
    """It says nothing while nothing changes; after a minute nobody knows any more."""
    stage = Stage(kind="nvidia", n0=1)
    row = stage.submit(gpus=1)
    stage.start(row, 0)
    stage.run(row, usage=Usage(at_s=EPOCH_S + stage.now, gpu_utilisation=0.25, gpu_memory_gib=10.0))
    for seconds in (10.0, 100.0, 10.0):
        stage.now += seconds
        stage.run(row, progress=progress(stage, loss=seconds))
    assert ["utilisation" in point.curves for point in drawn(stage)] == [True, True, False]


def test_few_jobs_are_thinned_at_once() -> None:
    """Many jobs that began together are full together: a step stays short, and no point is lost."""
    stage = Stage(n0=12)
    rows = stage.submit_all([{"gpus": 1}] * 12)
    for row in rows:
        stage.start(row, row)
        stage.job(row).curves.points = FULL - 1
    before = len(stage.news)
    for loss in (1.0, 2.0):
        for row in rows:
            said = progress(stage, loss=loss)
            stage.tell("n0", stage.report(row, PartStatus.RUNNING, progress=said), settle=False)
        stage.now += LEAST_S
        stage.settle()
    assert max(len(news.thinned) for news in stage.news[before:]) <= MOST_THINNED
    assert all(stage.job(row).curves.points <= MOST_POINTS for row in rows)


def test_a_lost_node_ends_the_curves_with_what_was_said_last() -> None:
    stage = Stage(n0=1)
    row = stage.submit(gpus=1, retries=0)
    stage.start(row, 0)
    for loss in (3.0, 2.0):
        stage.run(row, progress=progress(stage, loss=loss))
        stage.now += 1.0
    stage.silent = frozenset({"n0"})
    stage.wait(60.0)
    assert drawn(stage)[-1].curves["loss"][0] == 2.0
