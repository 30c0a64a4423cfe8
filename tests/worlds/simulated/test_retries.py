"""Retries: budgets by class of failure, pauses that grow, and no more of the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.model.failures import FailureClass, RetryHistory, class_of
from rota.model.jobs import Outcome, Truth
from rota.traces.philly_figures import FAILURES
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.retries import Retries, parse_retries
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import PRESETS

ECC, MPI, SYNTAX, INPUTS = "GPU ECC error", "MPI runtime failure", "syntax error", "incorrect inputs"


@pytest.mark.parametrize(
    ("retries", "failed_of", "pause_s", "why"),
    [
        ("3", ["", "", ""], 0.0, "three blind retries are three"),
        ("3", [""] * 4, None, "and no fourth"),
        ("0", [ECC], None, "blind to what it fails of"),
        ("1", [INPUTS, ""], None, "one retry is one, however they fail"),
        ("2", [SYNTAX, ECC, ""], None, "and two are two"),
        ("adaptive", [SYNTAX], None, "a program that does not parse will not parse"),
        ("adaptive", [INPUTS], 0.0, "inputs get a second chance"),
        ("adaptive", [INPUTS, INPUTS], None, "and no third"),
        ("adaptive", [INPUTS, SYNTAX], None, "each budget for itself"),
        ("adaptive", [""], 0.0, "nobody knows why: once"),
        ("adaptive", ["", "no signature"], None, "both are unknown"),
        ("adaptive", [ECC], 60.0, "the infrastructure: after a minute"),
        ("adaptive", [ECC, MPI], 120.0, "then after two"),
        ("adaptive", [ECC, MPI, ECC, MPI, ECC], 960.0, "after sixteen"),
        ("adaptive", [ECC, MPI, ECC, MPI, ECC, MPI], None, "five retries are spent"),
        ("adaptive", [ECC, ECC, ECC], None, "the same three times in a row"),
        ("adaptive", [ECC, "", ECC, ECC], 240.0, "not in a row"),
        ("adaptive:user=1,pause=5s,alike=0", [SYNTAX], 0.0, "as it is set"),
        ("adaptive:user=1,pause=5s,alike=0", [ECC, ECC, ECC], 20.0, "as it is set"),
    ],
)
def test_pauses(retries: str, failed_of: list[str], pause_s: float | None, why: str) -> None:
    assert parse_retries(retries).pause_after(failed_of) == pause_s, why


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("-1", "--retries: -1 is below 0; expected 0 or more"),
        ("often", "--retries: 'often' is no number of retries; expected a number, or adaptive"),
        ("adaptive:user=x", "--retries: 'user=x' is no number of retries"),
        ("adaptive:luck=1", "--retries: 'luck=1' sets nothing; expected one of user, infrastructure"),
        ("adaptive:others=-1", "--retries: others=-1 is below 0; expected 0 or more"),
        ("adaptive:pause=60", "'60' is not a duration"),
    ],
)
def test_wrong(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_retries(text)
    assert says in str(caught.value)


def test_nothing_said_tries_as_often_as_the_trace_did() -> None:
    assert parse_retries(None).pause_after([""] * 99) == 0.0
    assert Retries.blind(None) == parse_retries(None)


@pytest.mark.parametrize("policy", ["fifo", "philly", "srtf"])
def test_a_pause_is_kept_and_others_run_meanwhile(policy: str) -> None:
    """A fails at 10 of a device and at 130 of MPI; B and C need 5 s, D all GPUs while A pauses."""
    trace = trace_of("A 4x30 B 4x5@1 D 4x20@11")
    truth = replace(trace.truth, failures={0: (10.0, 10.0)}, signatures={0: (ECC, MPI)})
    record = play(policy, replace(trace, truth=truth), "1x4", Setting(retries=Retries.adaptive()))
    runs = record.intervals.filter(record.intervals["job_id"] == "A").sort("start_s")
    if policy != "srtf":
        assert starts(record)["B"] == 10
        assert runs["start_s"].to_list() == [0, 70, 200]  # 60 s after 10, 120 s after 80
        assert finishes(record) == {"A": 230, "B": 15, "D": 35}
    first, second, _ = runs["end_s"].to_list()[-3:]
    later = runs["start_s"].to_list()[-2:]
    assert later[0] - first >= 60
    assert later[1] - second >= 120


@pytest.mark.parametrize("semantics", sorted(PRESETS))
def test_a_job_that_pauses_comes_to_its_end_under_other_clocks(semantics: str) -> None:
    trace = trace_of("A 4x30 B 4x5@1")
    truth = replace(trace.truth, failures={0: (10.0,)}, signatures={0: (ECC,)})
    setting = Setting(retries=Retries.adaptive(), semantics=PRESETS[semantics])
    record = play("fifo", replace(trace, truth=truth), "1x4", setting)
    assert set(record.jobs["state"]) == {"COMPLETED"}
    assert finishes(record)["A"] >= 100


def test_a_job_given_up_has_failed() -> None:
    trace = trace_of("A 4x30 B 4x5@1")
    truth = replace(trace.truth, failures={0: (10.0, 10.0)}, signatures={0: (SYNTAX, SYNTAX)})
    record = play("fifo", replace(trace, truth=truth), "1x4", Setting(retries=Retries.adaptive()))
    assert record.jobs["state"].to_list() == ["FAILED", "COMPLETED"]
    assert finishes(record) == {"A": 10, "B": 15}


def test_signatures_travel_with_their_rows() -> None:
    truth = Truth.build(
        [1.0, 2.0], outcome=[Outcome.FAILED, Outcome.FAILED], failures={0: (3.0,)},
        signatures={0: (ECC, MPI), 1: (SYNTAX,)},
    )  # fmt: skip
    turned = truth.take(np.array([1, 0]))
    assert turned.signatures == {0: (SYNTAX,), 1: (ECC, MPI)}
    assert [turned.signature(1, 0), turned.signature(1, 1), turned.signature(1, 2)] == [ECC, MPI, ""]


def test_classes_of_the_study() -> None:
    """Four signatures are the infrastructure's, one says nothing, all others are the user's."""
    found = {kind: [f.signature for f in FAILURES if class_of(f.signature) is kind] for kind in FailureClass}
    assert found[FailureClass.INFRASTRUCTURE] == ["model checkpoint error", MPI, "job preempted", ECC]
    assert found[FailureClass.UNKNOWN] == ["no signature"]
    assert len(found[FailureClass.USER]) == 15


# -- what the failures of others teach -------------------------------------------------------------

HISTORY: list[tuple[list[tuple[str, int, str, str | None]], bool, str]] = [
    ([("ann", 1, SYNTAX, SYNTAX), ("ann", 2, SYNTAX, SYNTAX)], True, "two other jobs of hers"),
    ([("ann", 1, SYNTAX, SYNTAX), ("ann", 1, SYNTAX, SYNTAX)], False, "one job, however often"),
    ([("ann", 9, SYNTAX, SYNTAX), ("ann", 1, SYNTAX, SYNTAX)], False, "itself does not count"),
    ([("bob", 1, SYNTAX, SYNTAX), ("bob", 2, SYNTAX, SYNTAX)], False, "two jobs of one other user"),
    ([("bob", 1, SYNTAX, SYNTAX), ("eve", 2, SYNTAX, SYNTAX)], True, "jobs of two other users"),
    ([("bob", 1, SYNTAX, SYNTAX), ("eve", 2, SYNTAX, SYNTAX), ("joe", 3, SYNTAX, None)], False, "not joe"),
    ([("ann", 1, SYNTAX, SYNTAX), ("ann", 2, SYNTAX, SYNTAX), ("bob", 3, SYNTAX, None)], True, "not ann"),
    ([("ann", 1, SYNTAX, SYNTAX), ("ann", 2, SYNTAX, INPUTS)], False, "the second got past it"),
    ([("ann", 1, SYNTAX, SYNTAX), ("ann", 2, SYNTAX, "")], False, "of what the second failed nobody knows"),
    ([("ann", 1, INPUTS, INPUTS), ("ann", 2, INPUTS, INPUTS)], False, "another failure"),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "is_vain", "why"), HISTORY)
def test_when_trying_again_is_vain(
    notes: list[tuple[str, int, str, str | None]], is_vain: bool, why: str
) -> None:
    """Asked for ann's ninth job, with two others enough."""
    history = RetryHistory()
    for note in notes:
        history.note(*note)
    assert history.is_vain("ann", 9, SYNTAX, 2) is is_vain, why
    assert not history.is_vain("ann", 9, SYNTAX, 0)


def test_the_infrastructure_teaches_nothing_about_others() -> None:
    history = RetryHistory()
    for row in range(9):
        history.note("ann", row, ECC, ECC)
    assert not history.is_vain("ann", 9, ECC, 2)


@pytest.mark.parametrize(("others", "starts"), [(2, [2, 2, 1, 1]), (0, [2, 2, 2, 2])])
def test_jobs_that_fail_of_what_others_failed_of_are_tried_once(others: int, starts: list[int]) -> None:
    """Four jobs of one user, one after the other, each of which would fail of its inputs twice."""
    trace = trace_of("A 4x30 B 4x30@1 C 4x30@2 D 4x30@3")
    rows = range(4)
    truth = Truth.build(
        [30.0] * 4,
        outcome=[Outcome.FAILED] * 4,
        failures=dict.fromkeys(rows, (10.0,)),
        signatures=dict.fromkeys(rows, (INPUTS, INPUTS)),
    )
    retries = parse_retries(f"adaptive:others={others}")
    record = play("fifo", replace(trace, truth=truth), "1x4", Setting(retries=retries))
    assert record.jobs["starts"].to_list() == starts
    assert record.jobs["state"].to_list() == ["FAILED"] * 4


def test_a_node_that_is_lost_while_everybody_pauses_is_lost_then() -> None:
    """A fails at 5 and pauses until 65; the node is away from 20 to 30, and no clock runs backwards."""
    trace = trace_of("A 1x30")
    truth = replace(trace.truth, failures={0: (5.0,)}, signatures={0: (ECC,)})
    setting = Setting(retries=Retries.adaptive(), faults=[Fault(0, 20.0, 30.0)])
    record = play("fifo", replace(trace, truth=truth), "1x1", setting)
    stays = record.intervals.sort("start_s")
    assert stays.select("start_s", "end_s", "end").rows() == [(0.0, 5.0, "failed"), (65.0, 95.0, "finished")]
