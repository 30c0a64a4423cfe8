"""Deadline-SLA: the reward at risk of the page's example, and what the order does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.job_columns import Deadline
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.systems.deadline_sla.system import DeadlineSlaParameters, key, reward_at_risk
from rota.worlds.simulated.run import Setting, prepare

NONE = np.nan


def first_moment(jobs: str, due_s: list[float], **columns: object) -> Snapshot:
    """What the policy is shown at second 0, before it decides."""
    trace = trace_of(jobs, deadline_s=due_s, **columns)
    seen: list[Snapshot] = []

    class Look:
        needs = parse_policy("deadline_sla").make().needs

        def decide(self, snapshot, memory):
            seen.append(snapshot)
            return parse_policy("fifo").make().decide(snapshot, memory)

    loop, _ = prepare(Look(), trace, parse_cluster("1x1"), Setting())
    loop.step()
    return seen[0]


PAGE = DeadlineSlaParameters(full=10.0, floor=-5.0, grace=0.5, round_s=60.0)


def test_example_a7_reward_at_risk() -> None:
    """Three jobs due at 100 with a grace to 150: the longest risks most, the shortest nothing."""
    snapshot = first_moment("SHORT 1x30 MIDDLE 1x60 LONG 1x95", [100.0, 100.0, 100.0])
    risk = reward_at_risk(snapshot, np.arange(3), PAGE)
    assert risk == pytest.approx([0.0, 0.1, 15.0 / 95.0])
    keys = key(snapshot, np.arange(3), PAGE)
    assert np.argsort(keys).tolist() == [2, 1, 0]
    assert [key(snapshot, row, PAGE) for row in range(3)] == keys.tolist(), "one row as well as many"


def test_who_risks_nothing_comes_in_order_of_deadlines() -> None:
    """Slack or no deadline at all: the earliest first, those without last."""
    snapshot = first_moment("A 1x10 B 1x10 C 1x10", [NONE, 9000.0, 4000.0])
    assert key(snapshot, np.arange(3), PAGE).tolist() == [np.inf, 9000.0, 4000.0]


def test_several_deadlines_count_by_their_values() -> None:
    """Starting now keeps the first, a round later the second: it risks what lies between the two."""
    values = {0: (Deadline(100.0, 5.0), Deadline(200.0, 2.0))}
    snapshot = first_moment("A 2x50 B 1x50", [NONE, NONE], deadlines=values)
    assert reward_at_risk(snapshot, np.arange(2), PAGE) == pytest.approx([3.0 / (2 * 50.0), 0.0])


@pytest.mark.parametrize(
    ("policy", "ends", "why"),
    [
        ("edf", {"A": 30.0, "B": 90.0, "C": 185.0}, "equal deadlines: as they came"),
        ("deadline_sla", {"C": 95.0, "A": 125.0, "B": 185.0}, "then B has lost all it could"),
    ],
)
def test_the_order_is_not_that_of_deadlines(policy: str, ends: dict[str, float], why: str) -> None:
    trace = trace_of("A 1x30 B 1x60 C 1x95", deadline_s=[100.0, 100.0, 100.0])
    assert finishes(play(policy, trace, "1x1")) == pytest.approx(ends), why


def test_preemption_for_whoever_risks_more() -> None:
    """A has time until 1000; B, which has not, takes its GPU once it would lose by waiting on."""
    trace = trace_of("A 1x100 B 1x50@1", deadline_s=[1000.0, 150.0])
    assert finishes(play("deadline_sla", trace, "1x1")) == {"A": 100.0, "B": 150.0}
    ends = finishes(play("deadline_sla:preemptive=yes,round_s=10", replace(trace), "1x1"))
    assert ends["B"] <= 150.0
    assert ends["A"] == 150.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("full=1,floor=2", "floor=2 is not at most full=1"),
        ("grace=-1", "grace=-1 is not 0 or more"),
        ("round_s=0", "round_s=0 is not above 0"),
    ],
)
def test_parameters_out_of_range(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_policy(f"deadline_sla:{text}").make()
