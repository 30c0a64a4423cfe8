"""Chronus: the card's examples, leases that are kept, and everybody else on what they leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.jobs import Truth
from rota.scheduler.decision import Event
from rota.scheduler.policy import parse_policy
from rota.systems.chronus.asks import LeaseAsk, estimate_s, planned_gpus
from rota.systems.chronus.book import Book
from rota.systems.chronus.parameters import ChronusParameters
from rota.systems.chronus.planning import LeasePlanner
from rota.worlds.simulated.answers import parse_answers
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting, prepare
from tiers import examples

MINUTE_S = 60.0
NONE = float("nan")
COSTS = parse_costs("start=30s|2:60s|4:90s|8:120s,restore=30s|2:60s|4:90s|8:120s")
PLAIN = "chronus:overhead_s=0,safety=1"
"""Estimates are what jobs take."""


def minutes(text, due=None, **columns):
    """Jobs whose times are minutes, with deadlines in minutes (NaN: none)."""
    if due is not None:
        columns["deadline_s"] = np.array(due) * MINUTE_S
    trace = trace_of(text, **columns)
    table = trace.jobs
    scaled = {"submit_s": table.submit_s * MINUTE_S}
    truth = Truth.build(np.asarray(trace.truth.duration_s) * MINUTE_S)
    return replace(trace, jobs=replace(table, **scaled), truth=truth)


def ends(record):
    """Minute in which each job ends."""
    return {name: end_s / MINUTE_S for name, end_s in finishes(record).items()}


def begins(record):
    """Minute in which each job starts."""
    return {name: start_s / MINUTE_S for name, start_s in starts(record).items()}


def column(record, name):
    return dict(zip(record.jobs["job_id"], record.jobs[name], strict=True))


# -- the card's examples ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "duration", "estimate", "need"), [(4, 100, 118, 6), (1, 60, 67, 4), (8, 60, 72, 4)]
)
def test_card_1_estimates(gpus, duration, estimate, need):
    p = ChronusParameters()
    seconds = estimate_s(duration * MINUTE_S, gpus, p)
    assert seconds == pytest.approx(estimate * MINUTE_S)
    assert ask(0, gpus, estimate, 1000).need(p.lease_s) == need


def test_card_1_a_lease_under_way_does_not_count_and_one_that_ends_too_late_neither():
    """Submitted at minute 30, due at 230, two leases begun: 9 are left."""
    planner = LeasePlanner(Book(lease=1), {}, 8, 2, ChronusParameters())
    assert planner.last(230 * MINUTE_S) == 9
    assert planner.last(240 * MINUTE_S) == 10


def test_gpus_are_rounded_up_to_what_nodes_can_be_divided_into():
    assert [planned_gpus(gpus, 64) for gpus in range(1, 11)] == [1, 2, 4, 4, 8, 8, 8, 8, 9, 10]
    assert planned_gpus(3, 3) == 3, "nobody is planned with more than there is"
    assert planned_gpus(0.5, 8) == 1


def ask(row, gpus, left, due, submit=0, runs=False):
    left_s, dues = left * MINUTE_S, ((due * MINUTE_S, 10.0),)
    return LeaseAsk(row, gpus, gpus, left_s, left_s, dues, submit * MINUTE_S, 0.0, runs, True)


def test_card_2_admission_one_by_one():
    """A, B and C are promised their deadlines; of D's, the first that can be is that of the fourth lease."""
    asks = {0: ask(0, 8, 40, 60), 1: ask(1, 4, 20, 40), 2: ask(2, 4, 20, 20), 3: ask(3, 4, 20, 60)}
    book = Book(lease=-1)
    planner = LeasePlanner(book, asks, 8, 0, ChronusParameters(offer_s=60.0))
    later = planner.admit(list(asks.values()))
    assert book.plans == {0: [1, 2], 1: [0], 2: [0]}
    assert book.refused == [3]
    assert later == {3: 80 * MINUTE_S}


def test_whoever_comes_may_move_those_who_have_just_come():
    """C needs all GPUs of a lease: A goes to the lease of B, as both are new; planned before, it stays."""
    asks = {0: ask(0, 4, 20, 40), 1: ask(1, 4, 20, 20), 2: ask(2, 8, 20, 40)}
    book = Book(lease=-1)
    LeasePlanner(book, asks, 8, 0, ChronusParameters()).admit([asks[0], asks[1]])
    assert book.plans == {0: [1], 1: [0]}
    old = Book(lease=-1, plans={0: [1], 1: [0]}, aims={0: 2400.0, 1: 1200.0})
    LeasePlanner(book, asks, 8, 0, ChronusParameters()).admit([asks[2]])
    assert book.plans == {0: [0], 1: [0], 2: [1]}
    LeasePlanner(old, asks, 8, 0, ChronusParameters()).admit([asks[2]])
    assert old.refused == [2]


@pytest.mark.parametrize(("others", "plan", "aim"), [([], [0, 1], 40), ([1], [1, 2], 60)])
def test_card_4_the_level_that_a_soft_job_gets(others, plan, aim):
    """Alone it keeps its second deadline (the first cannot be kept); beside a strict job its third."""
    dues = tuple((at * MINUTE_S, value) for at, value in ((20, 10.0), (40, 8.0), (60, 5.0)))
    asks = {0: ask(0, 4, 40, 60)._replace(dues=dues), 1: ask(1, 4, 20, 20)}
    book = Book(lease=0)
    planner = LeasePlanner(book, asks, 4, 0, ChronusParameters())
    planner.admit([asks[0], *(asks[row] for row in others)])
    planner.assign()
    assert (book.plans[0], book.aims[0]) == (plan, aim * MINUTE_S)


def test_a_later_deadline_is_promised_within_the_tolerance():
    asks = {0: ask(0, 8, 40, 40), 1: ask(1, 8, 20, 40)}
    book = Book(lease=-1)
    planner = LeasePlanner(book, asks, 8, 0, ChronusParameters(tolerance=1.5))
    assert planner.admit(list(asks.values())) == {}
    assert book.aims == {0: 40 * MINUTE_S, 1: 60 * MINUTE_S}


def test_the_greedy_plan_serves_value_first_and_keeps_what_was_promised():
    """Two jobs that need the same lease once a node is gone: one of them loses its promise."""
    asks = {0: ask(0, 4, 20, 20), 1: ask(1, 4, 20, 20)}
    book = Book(lease=0, plans={0: [0], 1: [0]}, aims={0: 1200.0, 1: 1200.0}, dues={0: 1200.0, 1: 1200.0})
    planner = LeasePlanner(book, asks, 4, 0, ChronusParameters())
    planner.assign()
    assert planner.is_cut
    assert book.plans == {0: [0]}
    assert book.refused == [1]


@pytest.mark.parametrize(("rows", "plans"), [(400, {0: [0], 1: [0]}), (1, {0: [1], 1: [0]})])
def test_with_too_many_jobs_the_largest_stay_as_they_were_planned(rows, plans):
    asks = {0: ask(0, 4, 20, 40), 1: ask(1, 2, 20, 40)}
    book = Book(lease=0, plans={0: [1], 1: [1]}, aims=dict.fromkeys((0, 1), 2400.0))
    LeasePlanner(book, asks, 8, 0, ChronusParameters(rows=rows)).assign()
    assert book.plans == plans


# -- scenes ----------------------------------------------------------------------------------------


def test_best_effort_gives_way_to_a_lease_and_comes_back():
    """A is planned as late as it bears while B may be short of GPUs, and B fills the rest."""
    trace = minutes("A 4x20@1 B 4x60", [60, NONE])
    record = play(PLAIN + ",objective=minimise", trace, "1x4")
    assert begins(record) == {"B": 0.0, "A": 40.0}
    assert ends(record) == {"A": 60.0, "B": 80.0}


def test_maximise_takes_the_next_lease():
    record = play(PLAIN + ",objective=maximise", minutes("A 4x20@1 B 4x60", [60, NONE]), "1x4")
    assert begins(record) == {"B": 0.0, "A": 20.0}


def test_a_job_ahead_of_its_plan_gives_leases_back():
    """A, planned for leases 3 to 5, runs ahead; by minute 25 it has given lease 3 back, and B can have it."""
    trace = minutes("A 4x60 B 4x40@25", [120, 100])
    record = play(PLAIN + ",objective=minimise", trace, "1x4")
    assert column(record, "promised_s") == {"A": 7200.0, "B": 6000.0}
    assert ends(record) == {"A": 100.0, "B": 80.0}


def test_who_has_its_lease_renewed_is_not_stopped():
    record = play("chronus", minutes("A 2x100@1 B 2x90@1", [300, 300]), "1x4", Setting(costs=COSTS))
    assert set(column(record, "preemptions").values()) == {0}


def test_the_artifact_lets_go_of_whoever_runs_ahead():
    """B cannot be promised: while it lives, A's leases are late ones, and A starts anew with each before."""
    trace = minutes("A 1x100@1 B 1x50@1", [300, 40])
    paper = column(play("chronus", trace, "1x4"), "preemptions")
    artifact = column(play("chronus@authors", trace, "1x4"), "preemptions")
    assert paper == {"A": 0, "B": 0}
    assert artifact["B"] == 2
    assert artifact["A"] >= 2


def test_without_a_promise_a_job_runs_on_what_is_left():
    """B asks for what A was promised: refused, but it runs, and ends late."""
    trace = minutes("A 4x40 B 4x20@1", [60, 50])
    record = play(PLAIN, trace, "1x4")
    assert column(record, "promised_s")["A"] == 3600.0
    assert column(record, "promised_s")["B"] is None or np.isnan(column(record, "promised_s")["B"])
    assert ends(record)["A"] <= 60.0
    assert column(record, "state")["B"] == "COMPLETED"


def test_what_ends_within_the_lease_is_sure_of_its_gpus():
    """C, whose deadline cannot be promised, ends within the lease and takes the GPUs of B, best effort."""
    jobs, due = "B 4x100 C 4x10@5", [NONE, 15]
    sure = play(PLAIN, minutes(jobs, due), "1x4")
    assert begins(sure)["C"] == 5.0
    assert ends(sure)["C"] == 15.0
    without = play(PLAIN + ",guarantee=no", minutes(jobs, due), "1x4")
    assert begins(without)["C"] == 100.0


def test_who_outruns_its_estimate_is_first_on_spare_gpus():
    """A was estimated at 20 minutes and takes 50; then it goes before B, which is best effort."""
    trace = minutes("A 4x50 B 4x60@1", [60, NONE], limit_s=[1200.0, 7200.0])
    record = play(PLAIN, trace, "1x4", Setting(knowledge={"duration": "user"}))
    assert ends(record)["A"] == 50.0
    assert column(record, "state") == {"A": "COMPLETED", "B": "COMPLETED"}


def test_who_loses_its_work_to_a_fault_is_admitted_anew():
    trace = minutes("A 4x60 B 4x60", [200, NONE])
    faults = [Fault(0, 30 * MINUTE_S, 35 * MINUTE_S)]
    setting = Setting(faults=faults, costs=parse_costs("checkpoint_every=100h"))
    record = play(PLAIN, trace, "1x4", setting)
    assert column(record, "state") == {"A": "COMPLETED", "B": "COMPLETED"}
    assert ends(record)["A"] <= 200.0


def test_a_later_deadline_is_offered_and_taken():
    trace = minutes("A 4x40 B 4x20@1", [60, 50])
    record = play(PLAIN + ",offer_s=600", trace, "1x4", Setting(answers=parse_answers("2")))
    assert column(record, "offered_s")["B"] == pytest.approx(80 * MINUTE_S)
    assert ends(record)["B"] <= 80.0
    assert ends(record)["A"] <= 60.0


@pytest.mark.parametrize(
    ("jobs", "due", "says"),
    [
        (
            "A 4x20@1 B 4x60",
            [100, NONE],
            "its deadline is kept by 1 lease, the first in 1h 15m, with 0s to spare",
        ),
        ("A 4x20 B 4x20@1", [NONE, 15], "its deadline cannot be promised"),
    ],
)
def test_why_a_job_waits(jobs, due, says):
    trace = minutes(jobs, due)
    policy = parse_policy(PLAIN + ",objective=minimise,guarantee=no").make()
    loop, _ = prepare(policy, trace, parse_cluster("1x4"), Setting())
    reasons = {}
    decide = policy.decide
    policy.decide = lambda snapshot, memory: reasons.setdefault(snapshot.now, decide(snapshot, memory))
    loop.run(6 * MINUTE_S)
    row = trace.jobs.ids.index("A" if due[0] == 100 else "B")
    assert reasons[300.0].reasons[row].detail.startswith(says)


def test_who_is_ahead_is_told():
    """B has its lease later; of those without a promise the one with the least left is first."""
    trace = minutes("A 4x60 B 4x20@1 C 4x40@1 D 4x30@1", [NONE, 100, NONE, NONE])
    policy = parse_policy(PLAIN).make()
    loop, _ = prepare(policy, trace, parse_cluster("1x4"), Setting())
    told = {}
    decide = policy.decide

    def told_by(snapshot, memory):
        decision = decide(snapshot, memory)
        told[snapshot.now] = {
            row: [trace.jobs.ids[other] for other in decision.ranking.ahead(snapshot, row)]
            for row in snapshot.waiting.tolist()
        }
        return decision

    policy.decide = told_by
    loop.run(6 * MINUTE_S)
    ids = trace.jobs.ids
    last = {ids[row]: ahead for row, ahead in told[300.0].items()}
    assert last == {"B": ["D", "C"], "C": ["D"], "D": []}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("slot_s=0", "slot_s=0 is not above 0"),
        ("lease_s=1000", "a lease of 1000 s is no whole number of slots of 300 s"),
        ("tolerance=0.5", "tolerance=0.5 is not 1 or more"),
        ("rows=0", "rows=0 is not 1 or more"),
        ("search=-1", "search=-1 is not 0 or more"),
        ("offer_s=-1", "offer_s=-1 is not 0 or more"),
    ],
)
def test_bad_parameters(text, says):
    with pytest.raises(InputError, match=says):
        parse_policy(f"chronus:{text}")


# -- promises --------------------------------------------------------------------------------------


@st.composite
def scenes(draw):
    """Jobs with and without deadlines on two nodes of 4; times are seconds."""
    count = draw(st.integers(2, 14))
    text, due = [], []
    for number in range(count):
        gpus = draw(st.sampled_from([1, 1, 2, 3, 4, 6, 8]))
        duration = draw(st.integers(60, 9000))
        submit = draw(st.integers(0, 12000))
        text.append(f"J{number} {gpus}x{duration}@{submit}")
        slack = draw(st.sampled_from([None, 1.2, 1.5, 2.0, 3.0]))
        due.append(NONE if slack is None else submit + 1200.0 + slack * duration)
    order = sorted(range(count), key=lambda one: int(text[one].split("@")[1]))
    return trace_of(" ".join(text[one] for one in order), deadline_s=[due[one] for one in order])


@given(
    scenes(),
    st.sampled_from(
        ["", ",objective=minimise", ",objective=maximise", ",slot_s=600", ",rows=3", ",safety=1.5"]
    ),
    st.booleans(),
)
@examples(80)
def test_who_is_promised_its_deadline_is_in_time(trace, options, costs):
    """Whatever else comes, with estimates that are exact, splits that cost nothing and no faults."""
    policy = f"chronus:overhead_s={30 if costs else 0}{options}"
    record = play(policy, trace, "2x4", Setting(costs=COSTS) if costs else Setting())
    jobs = record.jobs
    assert set(jobs["state"]) == {"COMPLETED"}
    for name, finish_s, promised_s in zip(jobs["job_id"], jobs["finish_s"], jobs["promised_s"], strict=True):
        if promised_s is not None and not np.isnan(promised_s):
            assert finish_s <= promised_s + 1e-3, (name, finish_s, promised_s)


# -- the cluster becomes smaller -------------------------------------------------------------------


def told_of_promises(jobs, due, fault, until):
    """In which minute which promise was made, at risk, or safe again."""
    setting = Setting(faults=[Fault(1, fault[0] * MINUTE_S, fault[1] * MINUTE_S)])
    trace = minutes(jobs, due)
    loop, recorder = prepare(parse_policy(PLAIN).make(), trace, parse_cluster("2x4"), setting)
    said, told = [], recorder.promised

    def note(row, promise):
        said.append((loop.state.now / MINUTE_S, trace.jobs.ids[row], promise.is_at_risk))
        told(row, promise)

    recorder.promised = note
    loop.run(until * MINUTE_S)
    return said


def test_a_lost_node_puts_promises_at_risk_at_once_and_its_return_makes_them_safe():
    """Both need two leases of four GPUs by minute 60, and four GPUs are left at minute 2, amid a slot."""
    said = told_of_promises("A 4x39 B 4x39", [60, 60], (2, 7), until=18)
    lost = said[2][1]
    assert said == [(0.0, "A", False), (0.0, "B", False), (2.0, lost, True), (7.0, lost, False)]


def test_a_promise_that_is_lost_with_the_next_plan_is_not_told_twice():
    said = told_of_promises("A 4x39 B 4x79", [60, 100], (2, 500), until=60)
    assert said == [(0.0, "A", False), (0.0, "B", False), (2.0, "A", True)]


def test_who_has_room_elsewhere_is_not_at_risk():
    said = told_of_promises("A 4x39 B 4x39", [60, 200], (2, 500), until=300)
    assert [one for one in said if one[2]] == []


def test_who_runs_on_a_node_that_is_drained_goes_on_beside_the_plan():
    """A ends where it is; B needs no more than is left."""
    trace = minutes("A 4x39 B 4x39", [60, 60])
    loop, recorder = prepare(parse_policy(PLAIN).make(), trace, parse_cluster("2x4"), Setting())
    loop.run(2 * MINUTE_S)
    loop.state.occupancy.close(list(loop.state.grants[0].devices))
    decision = loop.policy.decide(loop.snapshot(int(Event.CAPACITY)), loop.memory)
    assert not decision.promises
    loop.run(30 * MINUTE_S)
    assert {row: promise.is_at_risk for row, promise in recorder.promises.items()} == {0: False, 1: False}


@pytest.mark.parametrize("lost", [False, True], ids=["a pause", "a lost node"])
def test_who_was_admitted_is_made_no_offer_afterwards(lost):
    """A is stopped and comes anew; B was promised GPUs that it would need: A is late, on what is left."""
    trace = minutes("A 4x35 B 4x20@11" if lost else "A 4x20 B 4x40@11", [60, 60])
    fails = {} if lost else {"failures": {0: (600.0,)}, "signatures": {0: ("GPU ECC error", "")}}
    trace = replace(trace, truth=Truth.build(trace.truth.duration_s, **fails))
    retries = parse_retries("adaptive:pause=10m")
    faults = [Fault(0, 1140.0, 1150.0)] if lost else []
    setting = Setting(retries=retries, faults=faults, costs=parse_costs("checkpoint_every=100h"))
    record = play(PLAIN + ",offer_s=600", trace, "1x4", setting)
    assert column(record, "state") == {"A": "COMPLETED", "B": "COMPLETED"}
    assert column(record, "offered_s") == {"A": None, "B": None}
