"""Whatever a policy decides, what the run says of it adds up: random scenes, and their books kept once more.

`naive_books` follows each job through the intervals, without the house's sums: what it has done, paid,
lost and waited for, which attempts failed and when they were tried again, and who held what beside whom.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from book_scenes import BookScene
from rota.model.record import Record
from rota.scheduler.policy import systems
from rota.testing.subject import all_variants
from tiers import seed_ranges

DEFAULTS = list(systems())
VARIANTS = all_variants()


def wrong_under(policy: str, seed: int, *, rich: bool) -> list[str]:
    """What is wrong with a run of the scene."""
    scene = BookScene(seed, rich=rich)
    return scene.complaints(policy, scene.play(policy))


def moved_stay(record: Record) -> Record:
    """One interval begins a second later."""
    frame = record.intervals.with_columns(
        pl.when(pl.int_range(pl.len()) == 0)
        .then(pl.col("start_s") + 1.0)
        .otherwise(pl.col("start_s"))
        .alias("start_s")
    )
    return replace(record, intervals=frame)


SEEDS = seed_ranges(1, 26, 301, at_once=25)


@pytest.mark.parametrize("rich", [False, True], ids=["plain", "rich"])
@pytest.mark.parametrize("policy", DEFAULTS)
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_books_add_up(policy: str, rich: bool, seeds: range) -> None:
    for seed in seeds:
        assert wrong_under(policy, seed, rich=rich) == [], seed


@pytest.mark.soak
@pytest.mark.parametrize("rich", [False, True], ids=["plain", "rich"])
@pytest.mark.parametrize("policy", VARIANTS)
def test_books_of_variants_add_up(policy: str, rich: bool) -> None:
    for seed in range(1000, 1008):
        assert wrong_under(policy, seed, rich=rich) == [], seed


COUNTED = ["run_s", "service_gpu_s", "overhead_s", "lost_s", "waiting_s", "starts", "preemptions", "failures"]


@pytest.mark.parametrize("column", COUNTED)
def test_a_wrong_sum_is_seen(column: str) -> None:
    """The books would notice: one more of anything in the row of one job."""
    scene = BookScene(1, rich=False)
    record = scene.play("srtf")
    one_more = pl.when(pl.col("finish_s").is_not_null()).then(pl.col(column) + 1).otherwise(pl.col(column))
    wrong = replace(record, jobs=record.jobs.with_columns(one_more.alias(column)))
    assert scene.complaints("srtf", record) == []
    assert any(f": {column} is " in line for line in scene.complaints("srtf", wrong))


def test_a_stay_that_began_earlier_is_seen() -> None:
    scene = BookScene(1, rich=False)
    assert scene.complaints("srtf", moved_stay(scene.play("srtf"))) != []
