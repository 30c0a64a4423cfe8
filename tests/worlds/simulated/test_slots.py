"""Rounds that end at arrivals or merge events, and what decisions cost in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, starts
from rota.errors import InputError
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.overheads import overhead_s
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import PRESETS, Charge, semantics

MERGED = semantics("elasticflow:round=4m")
ARRIVALS = replace(semantics("elasticflow-gandiva:round=4m"), charge=Charge.COSTS)
STARTED = semantics("elasticflow-tiresias:round=4m")
EVERYONE = semantics("elasticflow-gandiva:round=4m")
STEPS = semantics("tiresias-gandiva")


@pytest.mark.parametrize(
    ("rules", "jobs", "expected", "why"),
    [
        (MERGED, "A 1x9 B 1x9@100 C 1x9@240 D 1x9@900 E 1x9@2000", [0, 240, 240, 900, 2000], "one slot"),
        (MERGED, "A 1x9 B 1x9@100 C 1x9@300 D 1x9@2000", [0, 240, 480, 2000], "each slot follows the last"),
        (MERGED, "A 1x9 B 1x9@100", [0, 100], "the last arrival is not held back"),
        (MERGED, "A 4x50 B 4x50@10 C 1x9@900", [0, 240, 900], "freed GPUs are seen when the slot ends"),
        (
            MERGED,
            "A 4x600 B 4x9@10 C 1x9@900",
            [0, 600, 900],
            "an end after the slot is seen at once",
        ),
        (ARRIVALS, "A 4x300 B 4x9@10 C 1x9@900", [0, 900, 1140], "ends are seen at arrivals only, ..."),
        (ARRIVALS, "A 4x300 B 4x9", [0, 480], "... and slot by slot once nobody is to come"),
        (STEPS, "A 4x25 B 4x9@3", [0, 33], "steps of 10 s begin anew with each arrival"),
    ],
)
def test_when_a_policy_sees_what_happened(rules: object, jobs: str, expected: list[float], why: str) -> None:
    """First starts on one server of 4 GPUs, first come, first served."""
    record = play("fifo:skip=yes", jobs, "1x4", Setting(semantics=rules))  # type: ignore[arg-type]
    assert list(starts(record).values()) == expected, why


@pytest.mark.parametrize(
    ("rules", "expected", "why"),
    [
        (MERGED, {"A": 50.0, "B": 290.0}, "exact, although the GPUs stay idle until the slot ends"),
        (STEPS, {"A": 54.0, "B": 104.0}, "at the end of the step; steps began anew at 4"),
    ],
)
def test_when_an_end_counts(rules: object, expected: dict[str, float], why: str) -> None:
    record = play("fifo:skip=yes", "A 4x50 B 4x46@4", "1x4", Setting(semantics=rules))  # type: ignore[arg-type]
    assert finishes(record) == expected, why


@pytest.mark.parametrize(
    ("gpus", "cluster_gpus", "restarts", "expected"),
    [(1, 128, False, 4), (2, 128, False, 6), (8, 128, False, 10), (8, 128, True, 37), (8, 256, True, 62)],
)
def test_what_setting_a_job_up_costs(gpus: int, cluster_gpus: int, restarts: bool, expected: float) -> None:
    """elasticflow.md, in a simulator: 4 to 12 s by GPUs; a restart of all trainers costs more."""
    assert overhead_s(np.array([gpus]), cluster_gpus, restarts).item() == expected


@pytest.mark.parametrize(
    ("rules", "jobs", "expected", "why"),
    [
        (STARTED, "A 1x300", {"A": 300}, "a job that ends before the next decision pays nothing"),
        (
            STARTED,
            "A 1x300 B 1x300@250 C 1x9@5000",
            {"A": 304, "B": 554, "C": 5009},
            "after a round",
        ),
        (EVERYONE, "A 1x300 B 1x300@250", {"A": 304, "B": 550}, "A pays at 0; at 250 nobody is to come"),
        (EVERYONE, "A 2x300 B 1x50@250 C 1x9@5000", {"A": 312, "B": 304, "C": 5009}, "6 s for 2 GPUs, twice"),
    ],
)
def test_who_pays_for_decisions(rules: object, jobs: str, expected: dict[str, float], why: str) -> None:
    record = play("fifo:skip=yes", jobs, "1x4", Setting(semantics=rules))  # type: ignore[arg-type]
    assert finishes(record) == expected, why
    # One stretch of running each: what is not work is overhead.
    jobs = record.jobs
    stood_still = jobs["finish_s"] - jobs["start_s"] - jobs["duration_s"]
    assert jobs["overhead_s"].to_list() == pytest.approx(stood_still.to_list()), why


def test_all_trainers_restart_every_so_many_decisions() -> None:
    """With slots of 2 s every second decision costs 27 s more; the third one here is at 900."""
    rules = replace(EVERYONE, round_s=2.0)
    record = play(
        "fifo:skip=yes", "A 1x2000 B 1x9@500 C 1x9@900 D 1x9@950 E 1x9@5000", "1x4", Setting(semantics=rules)
    )
    assert finishes(record)["A"] == 2000 + 4 * 4 + 27


def test_what_is_left_of_a_restart_at_the_next_decision_is_forgiven() -> None:
    """The 31 s of the third decision, at 900, meet the fourth 10 s later: A stands still for 10 of them."""
    rules = replace(EVERYONE, round_s=2.0)
    jobs = "A 1x2000 B 1x9@500 C 1x9@900 D 1x9@910 E 1x9@5000"
    record = play("fifo:skip=yes", jobs, "1x4", Setting(semantics=rules))
    assert finishes(record)["A"] == 2000 + 4 + 4 + 10 + 4
    assert record.jobs["overhead_s"][0] == 4 + 4 + 10 + 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("elasticflow:round=0s", "rounds of 0 s"),
        ("exact:round=5m", "cannot have rounds"),
        ("gavel:slot=5m", "no setting 'slot'"),
        ("gavel:round=300", "--semantics gavel:round"),
    ],
)
def test_senseless_rounds_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        semantics(text)


@pytest.mark.parametrize("name", [name for name, rules in PRESETS.items() if rules.round_s])
def test_whoever_waits_for_a_lost_node_has_it_when_it_is_back(name: str) -> None:
    """Nothing else is to come: the run must not be over before the node is there again."""
    setting = Setting(semantics=PRESETS[name], faults=[Fault(0, 20.0, 4000.0)])
    record = play("fifo", "A 1x400", "1x1", setting)
    assert record.jobs["state"].to_list() == ["COMPLETED"]
    assert record.intervals["end"].to_list() == ["lost", "finished"]
    assert 4000.0 <= record.intervals["start_s"].to_list()[1] <= 4000.0 + 2 * (PRESETS[name].round_s or 0.0)
