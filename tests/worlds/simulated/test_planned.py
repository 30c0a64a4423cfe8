"""Rounds with planned ends: who stands still for how long, and when an end counts."""

from __future__ import annotations

import pytest

from play import finishes, play, starts
from rota.worlds.simulated.kinds import world_of
from rota.worlds.simulated.overheads import spared_s
from rota.worlds.simulated.planned import PlannedWorld
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import semantics

RULES = semantics("elasticflow-ef")


@pytest.mark.parametrize(
    ("jobs", "expected", "why"),
    [
        ("A 1x50", {"A": 64.0}, "a whole slot, and 4 s for a GPU that is new"),
        ("A 4x61", {"A": 128.0}, "two slots, and 8 s for four GPUs"),
        ("A 4x50 B 4x50@500", {"A": 68.0, "B": 562.0}, "the same four GPUs again: 2 s"),
        ("A 1x50 B 1x30@10 C 1x9@900", {"A": 122.0, "B": 184.0, "C": 962.0}, "who is interrupted ..."),
        (
            "A 1x130 B 1x30@10 C 1x9@900",
            {"A": 186.0, "B": 124.0, "C": 962.0},
            "... goes on from where it was",
        ),
    ],
)
def test_when_jobs_end(jobs: str, expected: dict[str, float], why: str) -> None:
    """On one server of 4 GPUs, first come, first served, slots of a minute."""
    assert finishes(play("fifo:skip=yes", jobs, "1x4", Setting(semantics=RULES))) == expected, why


def test_arrivals_within_a_slot_are_seen_together_but_for_the_last() -> None:
    record = play("fifo", "A 1x9 B 1x9@20 C 1x9@40 D 1x9@500 E 1x9@520", "1x4", Setting(semantics=RULES))
    assert list(starts(record).values()) == [0.0, 60.0, 60.0, 500.0, 560.0]


def test_large_clusters_stand_still_longer() -> None:
    assert world_of(RULES) is PlannedWorld
    assert [spared_s(gpus) for gpus in (64, 255, 256)] == [2.0, 2.0, 7.0]
