"""What a policy of somebody else answers: of the right form, put right, or refused in one sentence."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from play import trace_of
from rota.errors import PolicyError
from rota.model.cluster import parse_cluster
from rota.model.grants import Code, Constraint, Grant, Reservation, Role
from rota.model.promises import Offer, Promise
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.forms import Extent, formed
from rota.scheduler.moments.packing import pack_grant
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.run import run

A: Any = Grant(1, (2, 3))
PACKED = Grant(1, (2, 3), 0.5, Role.PACKED)
KEPT: Any = Reservation(1, (2, 3), 9.0)
NAN = math.nan
EXTENT = Extent(jobs=2, gpus=4, nodes=1)

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"memory": None}, "memory=None; expected a dict"),
    ({"grants": None}, "grants=None; expected a list of grants"),
    ({"grants": A}, r"grants=Grant\(job=1.*; expected a list of grants"),
    ({"grants": {A}}, r"grants=\{Grant.*; expected a list of grants"),
    ({"grants": {1: (2, 3)}}, r"grants=\{1: \(2, 3\)\}; expected a list of grants"),
    ({"grants": [A, (1, (2, 3))]}, r"grants\[1\]=\(1, \(2, 3\)\); expected a Grant, such as"),
    ({"grants": [A._replace(job="B")]}, r"grants\[0\].job='B'; expected the row of a job, a whole number"),
    ({"grants": [A._replace(job=True)]}, r"grants\[0\].job=True; expected the row of a job"),
    ({"grants": [A._replace(job=1.0)]}, r"grants\[0\].job=1.0; expected the row of a job"),
    ({"grants": [A._replace(devices=2)]}, r"grants\[0\].devices=2; expected a tuple of device numbers"),
    ({"grants": [A._replace(devices=(2.0, 3))]}, r"grants\[0\].devices=2.0; expected device numbers"),
    ({"grants": [A._replace(devices=np.zeros((1, 2)))]}, r"grants\[0\].devices=\[0.0, 0.0\]; expected devi"),
    ({"grants": [A._replace(share="half")]}, r"grants\[0\].share='half'; expected a number"),
    ({"grants": [A._replace(role="packed")]}, r"grants\[0\].role='packed'; expected Role.ALONE or Role.PACK"),
    ({"grants": [A._replace(role=9)]}, r"grants\[0\].role=9; expected Role.ALONE"),
    ({"grants": [A._replace(purpose=7)]}, r"grants\[0\].purpose=7; expected Purpose.RUN or Purpose.PROFILE"),
    ({"grants": [A._replace(node="n0")]}, r"grants\[0\].node='n0'; expected a node's number"),
    ({"grants": [A._replace(node=5)]}, r"grants\[0\].node=5; expected -1 where devices say it"),
    ({"grants": [A._replace(batch_size=None)]}, r"grants\[0\].batch_size=None; expected a number, or NaN"),
    ({"grants": [A._replace(batch_size=0)]}, r"grants\[0\].batch_size=0; expected a number above 0, or NaN"),
    ({"grants": [A._replace(cpus=math.inf)]}, r"grants\[0\].cpus=inf; expected a number of 0 or more"),
    ({"preempt": 0}, "preempt=0; expected a list of rows"),
    ({"preempt": "A"}, "preempt='A'; expected a list of rows"),
    ({"preempt": [A]}, r"preempt=Grant\(job=1.*; expected the row of a job"),
    ({"preempt": np.array([0.5])}, r"preempt=(np.float64\()?0.5\)?; expected the row of a job"),
    ({"leave": "checkpoint"}, "leave='checkpoint'; expected Leave.CHECKPOINT or Leave.IN_MEMORY or Leave.AB"),
    ({"reject": [1]}, r"reject=\[1\]; expected a dict by row"),
    ({"reject": {1: None}}, r"reject\[1\]=None; expected a sentence that says why"),
    ({"cancel": {"B": "no"}}, "cancel: key='B'; expected the row of a job"),
    ({"offers": {1: 500.0}}, r"offers\[1\]=500.0; expected an Offer"),
    ({"offers": {1: Offer("late", 1.0, "")}}, r"offers\[1\].deadline_s='late'; expected a number"),
    ({"reservations": Reservation(1, (2,), 9.0)}, "reservations=Reservation.*; expected a list of reserv"),
    ({"reservations": [(1, (2,), 9.0)]}, r"reservations\[0\]=\(1, \(2,\), 9.0\); expected a Reservation"),
    ({"reservations": [Reservation(1, (2,), NAN)]}, r"reservations\[0\].until_s=nan; expected a moment"),
    ({"wake": 5}, r"wake=5; expected a Wake, such as Wake\(at_s=snapshot.now \+ 60.0\)"),
    ({"wake": Wake(at_s=NAN)}, "wake.at_s=nan; expected a moment in seconds"),
    ({"reasons": {1: "because"}}, r"reasons\[1\]='because'; expected a Constraint, such as Constraint\(Code"),
    ({"reasons": {1: Constraint("Because")}}, r"reasons\[1\].code='Because'; expected a Code"),
    ({"reasons": {2: Constraint(Code.POLICY)}}, "reasons: key=2; expected a row from 0 on and below 2, "),
    ({"promises": {-1: Promise(1.0, 2.0)}}, "promises: key=-1; expected a row from 0 on and below 2"),
    ({"promises": {1: Promise(NAN, 1.0)}}, r"promises\[1\]=Promise.*; expected two moments"),
    ({"wanted_nodes": 1.5}, "wanted_nodes=1.5; expected a whole number of nodes, or None"),
    ({"ranking": [0, 1]}, r"ranking=\[0, 1\]; expected an object with ahead\(\), fits\(\) and spreads"),
    ({"otherwise": "its turn"}, "otherwise='its turn'; expected a Constraint"),
    ({"guaranteed": 1}, "guaranteed=1; expected a set of rows, or None"),
    ({"plan_of": {}}, r"plan_of=\{\}; expected a function of a row, or None"),
    ({"targets": {1: NAN}}, r"targets\[1\]=nan; expected a finite number"),
    ({"ends": {1: NAN}}, r"ends\[1\]=nan; expected a finite number"),
    ({"target": ""}, "target=''; expected a word or two"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "sentence"), WRONG, ids=[sentence[:30] for _, sentence in WRONG])
def test_what_is_of_another_form_is_refused_in_a_sentence(fields: dict[str, Any], sentence: str) -> None:
    decision = Decision(**{"memory": {}} | fields)
    with pytest.raises(PolicyError, match=rf"^Mine\.decide gave {sentence}"):
        formed(decision, "Mine", EXTENT)


INDEXES: dict[str, tuple[Callable[[Any], dict[str, Any]], int, str]] = {
    "grants[0].job": (lambda n: {"grants": [A._replace(job=n)]}, 2, "the jobs submitted so far"),
    "grants[0].devices": (lambda n: {"grants": [A._replace(devices=(1, n))]}, 4, "the cluster's devices"),
    "grants[0].node": (lambda n: {"grants": [Grant(1, (), node=n)]}, 1, "the cluster's nodes"),
    "preempt": (lambda n: {"preempt": [0, n]}, 2, "the jobs submitted so far"),
    "reject: key": (lambda n: {"reject": {n: "no"}}, 2, "the jobs submitted so far"),
    "cancel: key": (lambda n: {"cancel": {n: "no"}}, 2, "the jobs submitted so far"),
    "offers: key": (lambda n: {"offers": {n: Offer(9.0, 5.0, "late")}}, 2, "the jobs submitted so far"),
    "promises: key": (lambda n: {"promises": {n: Promise(9.0, 9.0)}}, 2, "the jobs submitted so far"),
    "reasons: key": (lambda n: {"reasons": {n: Constraint(Code.POLICY)}}, 2, "the jobs submitted so far"),
    "targets: key": (lambda n: {"targets": {n: 1.0}}, 2, "the jobs submitted so far"),
    "guaranteed": (lambda n: {"guaranteed": {n}}, 2, "the jobs submitted so far"),
    "reservations[0].job": (
        lambda n: {"reservations": [KEPT._replace(job=n)]}, 2, "the jobs submitted so far"
    ),
    "reservations[0].devices": (
        lambda n: {"reservations": [KEPT._replace(devices=(n,))]}, 4, "the cluster's devices"
    ),
}  # fmt: skip
"""Every field that names a job, a device or a node by its number: with which one, and how many there are."""


@pytest.mark.parametrize("field", INDEXES)
def test_every_number_of_something_is_that_of_one_that_exists(field: str) -> None:
    make, count, of = INDEXES[field]
    formed(Decision({}, **make(count - 1)), "Mine", EXTENT)
    for wrong in (count, -1 if "node" not in field else -2, 1 << 63, np.int64(count)):
        with pytest.raises(PolicyError) as refused:
            formed(Decision({}, **make(wrong)), "Mine", EXTENT)
        said = str(refused.value)
        value = int(wrong) if "devices" in field else wrong
        assert said.startswith(f"Mine.decide gave {field}={value!r}; expected "), said
        assert f"below {count}, {of}" in said


@pytest.mark.parametrize("wrong", [NAN, True, "1", 1.0, None], ids=repr)
@pytest.mark.parametrize("field", INDEXES)
def test_what_is_no_whole_number_is_the_number_of_nothing(field: str, wrong: object) -> None:
    with pytest.raises(PolicyError, match=rf"^Mine\.decide gave {re.escape(field)}={wrong!r}; expected "):
        formed(Decision({}, **INDEXES[field][0](wrong)), "Mine", EXTENT)


HUGE = 10**400
UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "a share": ({"grants": [A._replace(share=HUGE)]}, r"grants\[0\].share=1000.*; expected a number that a"),
    "a wake": ({"wake": Wake(at_s=HUGE)}, r"wake.at_s=1000.*; expected a moment in seconds"),  # type: ignore[arg-type]
    "an offer": ({"offers": {1: Offer(1e300, 1.0, "")}}, r"offers\[1\].deadline_s=1e\+300; expected a mom"),
    "a promise": ({"promises": {1: Promise(-1e300, 1.0)}}, r"promises\[1\].due_s=-1e\+300; expected a mo"),
    "why not": ({"reject": {1: "\udcff"}}, r"reject\[1\]='\\udcff'; expected text"),
    "a reason": ({"otherwise": Constraint(Code.POLICY, detail="\ud800")}, r"otherwise.detail=.*; expected t"),
    "its words": ({"offers": {1: Offer(9.0, 1.0, "\ud800")}}, r"offers\[1\].why='\\ud800'; expected text"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNFIT)
def test_what_no_store_and_no_calendar_can_hold_is_refused(what: str) -> None:
    fields, sentence = UNFIT[what]
    with pytest.raises(PolicyError, match=rf"^Mine\.decide gave {sentence}"):
        formed(Decision({}, **fields), "Mine", EXTENT)


PUT_RIGHT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"grants": [Grant(np.int64(1), (2, 3))]}, {"grants": [A]}, "a row of snapshot.waiting"),
    ({"grants": (Grant(1, one) for one in [[2, 3]])}, {"grants": [A]}, "what can be gone through only once"),
    ({"grants": [A._replace(devices=np.array([3, 2]))]}, {"grants": [A]}, "devices in another order"),
    ({"grants": [A._replace(role=1, share=np.float64(0.5))]}, {"grants": [PACKED]}, "numbers"),
    ({"preempt": np.array([], dtype=int)}, {"preempt": []}, "an array without rows"),
    ({"preempt": {1, 0}}, {"preempt": [0, 1]}, "a set, which has no order"),
    ({"preempt": (row for row in (0,))}, {"preempt": [0]}, "what the guard would have used up"),
    ({"reject": {np.int64(1): "no"}}, {"reject": {1: "no"}}, "keys"),
    ({"reservations": [KEPT._replace(devices=[3, 2], until_s=9)]}, {"reservations": [KEPT]}, "all of it"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "meant", "why"), PUT_RIGHT, ids=[row[2] for row in PUT_RIGHT])
def test_what_differs_in_its_type_alone_is_put_right(
    fields: dict[str, Any], meant: dict[str, Any], why: str
) -> None:
    put_right = formed(Decision({}, **fields), "Mine", EXTENT)
    assert put_right == formed(Decision({}, **meant), "Mine", EXTENT), why
    for grant in put_right.grants:
        assert {type(value) for value in grant[1]} == {int}
        assert type(grant.job) is int
        assert pack_grant(grant)


def test_of_what_is_well_formed_nothing_is_made_anew() -> None:
    """A run looks at who holds the very object that somebody has left."""
    decision = formed(Decision({}, [A]), "Mine", EXTENT)
    assert decision.grants[0] is A


# -- in a run ------------------------------------------------------------------------------------------------


class Mine:
    """Serves whoever comes first where there is room; `does` something at the second call."""

    needs = frozenset()  # type: ignore[var-annotated]

    def __init__(self, does: Callable[[Snapshot, Memory], object] | None = None) -> None:
        self.does, self.calls = does, 0

    def decide(self, snapshot: Snapshot, memory: Memory) -> Any:
        self.calls += 1
        if self.calls == 2 and self.does is not None:
            return self.does(snapshot, memory)
        claimed = np.array(snapshot.occupancy.claimed)
        grants = []
        for row in snapshot.waiting:
            free = np.flatnonzero(claimed[: len(snapshot.cluster.device_node)] == 0)
            if len(free) >= snapshot.jobs.gpus[row]:
                grants.append(Grant(row, free[: snapshot.jobs.gpus[row]]))  # type: ignore[arg-type]
                claimed[list(grants[-1].devices)] = 1
        return Decision(memory, grants)


TRACE = "A 2x100 B 2x50@5 C 2x50@10"


def replayed(does: Callable[[Snapshot, Memory], object] | None = None) -> list[float]:
    record = run(Mine(does), trace_of(TRACE), parse_cluster("1x4"))
    ends: list[float] = record.jobs["finish_s"].to_list()
    return ends


def test_rows_and_devices_as_numpy_gives_them_will_do() -> None:
    """The loop that everybody writes first: `for row in snapshot.waiting`."""
    assert replayed() == [100.0, 55.0, 105.0]


def test_what_a_policy_is_shown_of_grants_is_its_own_copy() -> None:
    def note(snapshot: Snapshot, memory: Memory) -> Decision:
        snapshot.grants.pop(0)  # type: ignore[attr-defined]
        return Decision(memory, [A])

    assert replayed(note) == [100.0, 55.0, 105.0]


def raise_key_error(snapshot: Snapshot, memory: Memory) -> Decision:
    return {}["x"]  # type: ignore[no-any-return]


FAILS = [
    (raise_key_error, r"Mine.decide raised KeyError: 'x' \(test_forms.py, line \d+\), at 5 s"),
    (lambda *_: sys.exit(3), r"Mine.decide raised SystemExit: 3 \(test_forms.py, line \d+\), at 5 s"),
    (
        lambda *_: np.zeros((2, 2)) @ np.zeros(3),
        r"raised ValueError: matmul.* \(test_forms.py, line \d+\)",
    ),
    (lambda s, m: Decision(m | {"seen": {1}}), r"memory\['seen'\] holds a set, which cannot be stored"),
    (
        lambda s, m: Decision(m | {"x": np.float64(1)}),
        r"memory\['x'\] holds a float64, which cannot be",
    ),
    (lambda s, m: (m.update(me=m), Decision(m))[1], "memory goes too deep, or holds itself"),
    (
        lambda s, m: s.occupancy.hold(A),
        r"has changed snapshot.occupancy at 5 s.* expected it to try things",
    ),
    (lambda s, m: s.queue, "raised AttributeError: 'Snapshot' object has no attribute 'queue'"),
    (
        lambda s, m: Decision(m, preempt=[2]),
        r"gave preempt=2; expected a row from 0 on and below 2, the jobs",
    ),
]


@pytest.mark.parametrize(("does", "sentence"), FAILS, ids=[sentence[:40] for _, sentence in FAILS])
def test_a_policy_that_fails_ends_the_run_with_a_sentence_that_names_it(does: Any, sentence: str) -> None:
    with pytest.raises(PolicyError, match=rf"^policy Mine: .*{sentence}") as failed:
        replayed(does)
    if " raised " in str(failed.value):
        assert failed.value.__cause__ is not None, "whoever wrote it wants to see where"
