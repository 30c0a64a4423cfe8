"""Rounds with planned ends: how long jobs stand still, when an end counts, what is seen together."""

from __future__ import annotations

import pytest

from play import finishes, play, starts
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
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


class Planned:
    """Each job on the GPU of its row from its arrival on, to be done when `ends` says so."""

    needs = frozenset[str]()

    def __init__(self, ends: dict[int, float]) -> None:
        self.ends = ends
        self.worked: list[list[float]] = []

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.worked.append([snapshot.worked_s(row) for row in range(len(snapshot.jobs))])
        grants = [Grant(row, (row,)) for row in snapshot.waiting.tolist()]
        ends = {row: at_s for row, at_s in self.ends.items() if row < len(snapshot.jobs)}
        return Decision(memory, grants, ends=ends, wake=Wake())


@pytest.mark.parametrize(
    ("jobs", "ends", "expected", "why"),
    [
        ("A 1x50", {0: 100.0}, {"A": 124.0}, "with the slot in which the plan has it done, and 4 s"),
        ("A 1x100", {0: 30.0}, {"A": 64.0}, "whatever its work"),
        ("A 1x50", {}, {"A": 64.0}, "by its rate where no plan says anything"),
        ("A 1x50 B 1x9@70 C 1x9@5000", {0: 200.0}, {"A": 50.0, "B": 134.0}, "done earlier"),
        ("A 1x67 B 1x9@70 C 1x9@5000", {0: 200.0}, {"A": 71.0, "B": 134.0}, "a second after that"),
        ("A 1x190 B 1x9@140 C 1x9@5000", {0: 130.0}, {"A": 266.0, "B": 204.0}, "idle 130 to 140"),
    ],
)  # fmt: skip
def test_jobs_end_as_planned(jobs: str, ends: dict[int, float], expected: dict[str, float], why: str) -> None:
    """On one server of 4 GPUs, slots of a minute; A is planned as `ends` says, all others by their rates."""
    record = play(Planned(ends), jobs, "1x4", Setting(semantics=RULES))
    assert {name: finishes(record)[name] for name in expected} == expected, why


def test_policies_see_what_the_standstill_has_left_of_a_round() -> None:
    """A stands still for 4 s; in slots of 2 s the arrival at 3 s is seen at once: a second is left."""
    policy = Planned({})
    rules = semantics("elasticflow-ef:round=2s")
    play(policy, "A 1x50 B 1x9@3", "1x4", Setting(semantics=rules))
    assert policy.worked[1][0] == 3.0 - 4.0


@pytest.mark.parametrize(
    ("jobs", "expected", "why"),
    [
        ("A 4x10 B 4x10", [0.0, 10.0], "the end of A is all that is to come"),
        ("A 4x10 B 4x10 C 4x10@900", [0.0, 60.0, 900.0], "C is to come as well"),
    ],
)
def test_the_only_event_left_is_seen_at_once(jobs: str, expected: list[float], why: str) -> None:
    rules = semantics("elasticflow-edf")
    assert list(starts(play("fifo", jobs, "1x4", Setting(semantics=rules))).values()) == expected, why


def test_a_paused_job_is_planned_to_end_too() -> None:
    """C takes the GPUs of A at 60 s.  Its end, at 75 s, is not all that is to come: it is seen at 120 s."""
    rules = semantics("elasticflow-edf")
    record = play("srtf", "A 4x500 C 4x15@10 D 4x900@20", "1x4", Setting(semantics=rules))
    assert finishes(record)["C"] == 75.0
    assert record.intervals.filter(record.intervals["job_id"] == "A")["start_s"].to_list() == [0.0, 120.0]
