"""The first job of a group to complete ends the others that say so, and nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from play import finishes, play, trace_of
from rota.model.job_columns import GroupRule
from rota.worlds.simulated.retries import Retries
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import semantics

FIRST, ALL = GroupRule.FIRST, GroupRule.ALL


# jobs, group of each, rule of each, then on four GPUs: finish of each, and its state
@pytest.mark.parametrize(
    ("jobs",                        "group",   "rule",              "ends",          "states"),
    [
        ("A 1x10 B 1x20 C 1x30",    [0, 0, 1], [FIRST, FIRST, ALL],   [10, 10, 30], "done cut done"),
        ("A 1x10 B 1x20 C 1x30",    [0, 0, 0], [FIRST, ALL, FIRST],   [10, 20, 10], "done done cut"),
        ("A 1x10 B 1x20 C 1x30",    [0, 0, 0], [ALL, FIRST, FIRST],   [10, 20, 20], "done done cut"),
        ("A 4x10 B 4x20 C 4x30",    [0, 1, 0], [FIRST, ALL, FIRST],   [10, 30, 10], "done done cut"),
        ("A 1x10 B 1x10 C 1x30",    [0, 0, 0], [FIRST] * 3,           [10, 10, 10], "done done cut"),
        ("A 1x10 C 1x5@8 B 1x20@10", [0, 1, 0], [FIRST, ALL, FIRST],  [10, 13, 30], "done done done"),
        ("A 1x10 B 1x20 C 1x30",   [-1, -1, -1], [FIRST] * 3,         [10, 20, 30], "done done done"),
    ],
    ids=["running", "says all", "completes, but says all", "waiting", "at once", "later", "no group"],
)  # fmt: skip
def test_who_ends(jobs: str, group: list[int], rule: list[GroupRule], ends: list[float], states: str) -> None:
    trace = trace_of(jobs, group=group, group_names=("g", "h"), group_rule=rule)
    record = play("fifo", trace, "1x4")
    assert [*finishes(record).values()] == ends
    words = {"done": "COMPLETED", "cut": "CANCELLED"}
    assert [*record.jobs["state"]] == [words[word] for word in states.split()]


@pytest.mark.parametrize("preset", ["gavel", "helios", "tiresias"])
def test_in_rounds_too(preset: str) -> None:
    """Who would finish later in the same round is cancelled before."""
    columns = {"group": [0, 0, 0], "group_names": ("g",), "group_rule": FIRST}
    trace = trace_of("A 1x1000 B 1x1100 C 4x3000", **columns)
    record = play("fifo", trace, "1x4", Setting(semantics=semantics(preset)))
    assert [state[0:9] for state in record.jobs["state"]] == ["COMPLETED", "CANCELLED", "CANCELLED"]


@pytest.mark.parametrize("end_s", [5, 40, 65, 70])
def test_who_pauses_when_another_of_its_group_completes_is_cancelled_then(end_s: int) -> None:
    """A fails at 5 and is to pause until 65; B completes then, in its pause, as that ends, or later."""
    trace = trace_of(f"A 1x30 B 1x{end_s}", group=0, group_names=("g",), group_rule=int(GroupRule.FIRST))
    truth = replace(trace.truth, failures={0: (5.0,)}, signatures={0: ("MPI runtime failure",)})
    record = play("fifo", replace(trace, truth=truth), "1x2", Setting(retries=Retries.adaptive()))
    assert record.jobs["state"].to_list() == ["CANCELLED", "COMPLETED"]
    assert record.jobs["finish_s"].to_list() == [end_s, end_s]
    assert record.intervals["end_s"].max() == end_s
