"""What is written is read again, with both engines."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from postgres import postgres  # noqa: F401
from store_place import SPEC, Place, contents, jobs_of, lite, node_info, place  # noqa: F401

from rota.errors import InputError
from rota.model.job_columns import CODED
from rota.server.policy.messages import seal
from rota.server.store import queries, start_state, steps
from rota.server.store.rows import (
    AttemptRow,
    CommandDone,
    CostRow,
    DecisionRow,
    EventRow,
    IntervalRow,
    JobQuery,
    JobState,
    NewJob,
    PolicyRow,
    ShadowRow,
    Step,
    TokenRow,
    UserRow,
)
from rota.server.store.start_state import LOADED
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.wire.sync import Capability
from rota.worlds.live.curves import Point

DONE = JobState(state="COMPLETED", phase=int(Phase.COMPLETED), finish_s=9.0, run_s=4.0)
RUNNING = JobState(state="RUNNING", phase=int(Phase.RUNNING), starts=1, attempt=1, first_start_s=2.0)


@pytest.fixture
def store(place: Place) -> Store:  # noqa: F811
    return place.open()


def attempt(row: int, number: int = 1, **changes: object) -> AttemptRow:
    base = AttemptRow(row, number, "running", [row, [0], 1.0, 0, -1, math.inf], [{"node": "n"}], "run", 1.0)
    return replace(base, **changes)  # type: ignore[arg-type]


# -- submissions -----------------------------------------------------------------------------------


def test_rows_count_from_zero_without_gaps(store: Store) -> None:
    rows = [store.add_jobs("ann", "vision", jobs_of(n), 1.0) for n in (1, 3, 1)]
    assert [job.row for some in rows for job in some] == [0, 1, 2, 3, 4]
    assert [job.id for some in rows for job in some] == ["1", "2", "3", "4", "5"]
    assert store.jobs() == [job for some in rows for job in some]


def test_array_is_named_by_its_first_job(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(1), 0.0)
    spec = JobSpec(command=["x"], array="3,7-9%2")
    rows = store.add_jobs("ann", "vision", [NewJob(spec, index) for index in (3, 7, 8, 9)], 1.0)
    assert [job.id for job in rows] == ["2_3", "2_7", "2_8", "2_9"]
    assert {(job.array_first, job.array_most) for job in rows} == {(1, 2)}
    assert store.jobs(JobQuery(array_first=1)) == rows
    assert store.job_of_id("2_8") == rows[2]
    assert len(contents(store)["specs"]) == 2, "an array has one specification"


def test_columns_of_a_specification(store: Store) -> None:
    spec = JobSpec(
        command=["x"], gpus=2, gpus_min=1, gpus_max=4, counts="powers of two", kind="opportunistic",
        gpu_types=["A100", "H100"], time_s=60, deadline_s=store.epoch_s + 100, priority=-3, batch_size=32,
    )  # fmt: skip
    [job] = store.add_jobs("ann", "vision", [NewJob(spec)], 1.0)
    asked = job.asked
    assert (asked.gpus, asked.gpus_min, asked.gpus_max, asked.counts, asked.kind) == (2, 1, 4, 1, 1)
    assert (asked.gpu_types, asked.limit_s, asked.priority, asked.batch_size) == (
        ("A100", "H100"),
        60,
        -3,
        32,
    )
    assert asked.deadline_s == pytest.approx(100)
    assert (asked.tenant, asked.group, asked.workload) == ("vision", "ann", "ann")
    assert store.job(0) == job
    assert store.spec(0) == spec


@pytest.mark.parametrize(
    ("spec",                                                     "tenant", "group", "workload"),
    [
        (JobSpec(command=["x"]),                                 "vision", "ann",   "ann"),
        (JobSpec(command=["x"], name="n"),                       "vision", "ann/n", "ann/n"),
        (JobSpec(command=["x"], name="n", group="g"),            "vision", "g",     "g"),
        (JobSpec(command=["x"], tenant="nlp", workload="bert"),  "nlp",    "ann",   "bert"),
    ],
)  # fmt: skip
def test_names_nobody_gave(store: Store, spec: JobSpec, tenant: str, group: str, workload: str) -> None:
    [job] = store.add_jobs("ann", "vision", [NewJob(spec)], 1.0)
    assert (job.asked.tenant, job.asked.group, job.asked.workload) == (tenant, group, workload)


def test_same_key_adds_nothing(store: Store) -> None:
    first = store.add_jobs("ann", "vision", jobs_of(2), 1.0, key="k")
    before = contents(store)
    assert store.add_jobs("ann", "vision", jobs_of(2), 99.0, key="k") == first
    assert contents(store) == before
    other = store.add_jobs("bob", "vision", jobs_of(1), 1.0, key="k")
    assert [job.row for job in other] == [2], "keys are those of one user"


def test_same_key_for_something_else(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(1), 1.0, key="k")
    with pytest.raises(InputError, match=r"^key 'k' was used to submit something else"):
        store.add_jobs("ann", "vision", jobs_of(2), 1.0, key="k")
    with pytest.raises(InputError, match="another key"):
        store.add_jobs("ann", "vision", [NewJob(JobSpec(command=["y"]))], 1.0, key="k")
    assert len(store.jobs()) == 1


def test_same_key_answers_with_what_has_become_of_it(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(1), 1.0, key="k")
    store.commit(Step(jobs={0: DONE}))
    assert store.add_jobs("ann", "vision", jobs_of(1), 1.0, key="k")[0].now == DONE


def test_nothing_to_add(store: Store) -> None:
    before = contents(store)
    assert store.add_jobs("ann", "vision", [], 1.0) == []
    assert contents(store) == before


# -- steps -----------------------------------------------------------------------------------------


def whole_step(memory: bytes) -> Step:
    """One that touches every table."""
    capability = Capability(training="1", checkpoint=True).model_dump(mode="json")
    policy = PolicyRow("real", "tiresias", 0.0, "ann", memory, b"", [math.inf, 127, False], ([0, [1], 9.0],))
    return Step(
        jobs={0: RUNNING, 1: replace(DONE, exit_code=0, cause="it ended", capability=capability)},
        specs={2: JobSpec(command=["y"], gpus=2)},
        attempts=[attempt(0), attempt(1, end_s=9.0, how="finished", exit={"code": 0})],
        intervals=[IntervalRow(1, 1, 1.0, 9.0, (0,), (0,), 1.0, "alone", "finished", 0.5, 0.0)],
        decision=DecisionRow(9.0, "tiresias", 0.01, grants=1, is_late=True, note="late"),
        policies=[policy, replace(policy, name="shadow", spec="fifo")],
        events=[EventRow(9.0, "rota", "start", "1", "on n0:0")],
        points=[Point(0, 1, 9.0, 9.5, 2.0, {"loss": [0.5, 0.4, 0.6, 3.0]})],
        costs=[CostRow("bert", "vision", "suspend", 0.4, 1e8, 9.0)],
        shadow=[ShadowRow(9.0, "would start 3")],
        done=[CommandDone(1, 9.0, {"ok": True})],
    )


def test_a_whole_step(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(3), 1.0)
    number = store.add_command(1.0, "ann", "cancel", row=1, args={"reason": "no"})
    step = whole_step(memory := seal({"queues": np.arange(5)}))
    store.commit(replace(step, done=[replace(step.done[0], seq=number)]))

    assert store.job(0).now == step.jobs[0]  # type: ignore[union-attr]
    assert store.job(1).now == step.jobs[1]  # type: ignore[union-attr]
    changed = store.job(2)
    assert changed is not None
    assert (changed.asked.gpus, changed.asked.tenant, store.spec(2)) == (2, "vision", step.specs[2])
    assert store.spec(0) == SPEC, "the others keep theirs"
    assert [*store.attempts(0), *store.attempts(1)] == list(step.attempts)
    assert store.intervals(1) == list(step.intervals)
    assert [replace(row, seq=0) for row in store.decisions()] == [step.decision]
    assert store.policies() == {row.name: row for row in step.policies}
    assert store.policies()["real"].memory == memory
    assert [replace(row, seq=0) for row in store.events(job="1")][1:] == list(step.events)
    assert store.points(0) == list(step.points)
    assert store.points(0, since_s=9.5) == []
    assert store.costs() == store.costs(workload="bert") == list(step.costs)
    assert [replace(row, seq=0) for row in store.shadow()] == list(step.shadow)
    assert store.open_commands() == []
    told = store.command(number)
    assert told is not None
    assert (told.done_s, told.outcome, told.args) == (9.0, {"ok": True}, {"reason": "no"})


def test_an_attempt_is_replaced(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    store.commit(Step(attempts=[attempt(0), attempt(0, 2)]))
    ended = attempt(0, end_s=5.0, how="preempted", progress={"steps": 7})
    store.commit(Step(attempts=[ended]))
    assert store.attempts(0) == [ended, attempt(0, 2)]


def test_a_policy_leaves(store: Store) -> None:
    store.commit(
        Step(policies=[PolicyRow("real", "fifo", 0.0, "ann"), PolicyRow("shadow", "las", 0.0, "ann")])
    )
    store.commit(Step(without=["shadow"], policies=[PolicyRow("real", "srtf", 1.0, "bob")]))
    assert {name: row.spec for name, row in store.policies().items()} == {"real": "srtf"}


@pytest.mark.parametrize(
    "step",
    [
        Step(jobs={0: DONE, 7: DONE}),
        Step(jobs={0: DONE}, specs={7: SPEC}),
        Step(jobs={0: DONE}, done=[CommandDone(99, 1.0)]),
    ],
    ids=["job", "specification", "command"],
)
def test_what_is_not_there_cannot_change(store: Store, step: Step) -> None:
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    before = contents(store)
    with pytest.raises(LookupError):
        store.commit(step)
    assert contents(store) == before
    store.commit(Step(jobs={0: DONE}))  # and the store works on


def test_numpy_numbers_and_odd_text(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    odd = JobState(
        starts=np.int64(3), run_s=np.float64(2.5), first_start_s=math.nan, cause="a\0b\udc80 ü",  # type: ignore[arg-type]
        measured={"x": np.arange(2), "n": np.int32(4), "text": "\0\udc80"},
    )  # fmt: skip
    store.commit(Step(jobs={np.int64(0): odd}))  # type: ignore[dict-item]
    now = store.job(0).now  # type: ignore[union-attr]
    assert (now.starts, now.run_s, now.first_start_s, now.cause) == (3, 2.5, None, "a\ufffdb? ü")
    assert now.measured == {"x": [0, 1], "n": 4, "text": "\0\udc80"}


def test_questions_without_an_answer(store: Store) -> None:
    """Whatever a caller asks for, what is not there is not there, and nothing fails."""
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    for number in (-1, 1, 2**63, -(2**70)):
        assert store.job(number) is store.spec(number) is store.command(number) is None
        assert store.attempts(number) == store.intervals(number) == store.points(number) == []
    for text in ("nobody", "a\0b", "\udc80", "'; DROP TABLE jobs; --"):
        assert store.user(text) is store.token(text) is store.job_of_id(text) is None
        for which in (
            JobQuery(user=text),
            JobQuery(tenant=text),
            JobQuery(name=text),
            JobQuery(states=[text]),
        ):
            assert store.jobs(which) == []
        assert store.events(job=text) == store.costs(workload=text) == []
    assert store.events(since_seq=2**70) == []
    assert len(store.jobs(JobQuery(limit=2**70, from_row=-(2**70)))) == 1
    assert store.add_jobs("ann", "vision", jobs_of(1), 1.0, "a\0\udc80")[0].row == 1
    assert store.add_jobs("ann", "vision", jobs_of(1), 1.0, "a\0\udc80")[0].row == 1


def test_old_rows_are_trimmed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = steps.t.decisions
    newest = steps.select(steps.func.max(table.c.seq)).scalar_subquery()
    monkeypatch.setitem(steps._OLD, "decisions", table.delete().where(table.c.seq <= newest - 5))
    monkeypatch.setattr(steps, "_SLACK", 3)
    for moment in range(30):
        store.commit(Step(decision=DecisionRow(float(moment), "fifo", 0.0)))
        kept = [row.now_s for row in store.decisions()]
        assert kept[-5:] == [float(m) for m in range(max(0, moment - 4), moment + 1)]
        assert len(kept) < 5 + 3 + 1


# -- loading ---------------------------------------------------------------------------------------


def test_load_of_an_empty_store(store: Store) -> None:
    found = store.load()
    assert found.columns.ids == []
    assert found.columns.numbers["run_s"].dtype == np.float64
    assert (found.jobs, found.specs, found.attempts, found.nodes, found.commands) == ({}, {}, {}, [], [])
    assert found.facts == {"epoch_s": store.epoch_s, LOADED: store.facts()[LOADED]}
    assert found.decisions == 0


def test_load(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(4), 1.0)
    store.join(node_info("n0"), TokenRow("h", "agent", "n0", 1.0))
    number = store.add_command(1.0, "ann", "drain", node="n0")
    cancelled = JobState(state="COMPLETING", phase=int(Phase.CANCELLED))
    store.commit(
        Step(
            jobs={0: DONE, 1: RUNNING, 2: cancelled},
            attempts=[attempt(0, end_s=9.0), attempt(1, 1, end_s=3.0), attempt(1, 2), attempt(2)],
            decision=DecisionRow(1.0, "fifo", 0.0),
        )
    )
    found = store.load()
    assert list(found.jobs) == [1, 2, 3], "not over, or an attempt may live"
    assert found.specs == dict.fromkeys((1, 2, 3), SPEC)
    assert {row: [a.number for a in some] for row, some in found.attempts.items()} == {1: [1, 2], 2: [1]}
    assert found.columns.live.tolist() == [False, True, True, True]
    assert found.columns.ids == ["1", "2", "3", "4"]
    assert found.columns.numbers["phase"].tolist() == [DONE.phase, RUNNING.phase, cancelled.phase, 0]
    assert found.columns.numbers["finish_s"][0] == 9.0
    assert np.isnan(found.columns.numbers["finish_s"][1:]).all()
    assert found.columns.names["tenant"] == ["vision"] * 4
    assert [node.name for node in found.nodes] == ["n0"]
    assert [command.seq for command in found.commands] == [number]
    assert found.decisions == 1


def test_columns_are_the_rows(store: Store) -> None:
    store.add_jobs(
        "ann",
        "vision",
        [NewJob(JobSpec(command=["x"], gpus=3, gpu_types=["A"], cpus=1.5, node_set="n1|n2"))],
        1.0,
    )
    store.add_jobs("bob", "nlp", jobs_of(1), 2.0)
    store.commit(Step(jobs={1: replace(RUNNING, service_rate=1.0, progress_since=math.inf)}))
    columns = store.load().columns
    for job in store.jobs():
        for name, values in columns.numbers.items():
            value = getattr(job.asked, name, None) if hasattr(job.asked, name) else getattr(job.now, name)
            assert values[job.row] == value or (value is None and np.isnan(values[job.row])), name
        assert {name: values[job.row] for name, values in columns.names.items()} == {
            name: getattr(job.asked, name) for name in CODED
        }
        assert columns.gpu_types[job.row] == job.asked.gpu_types
        assert columns.submit_s[job.row] == job.submit_s


# -- lists -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which",                                  "rows"),
    [
        (JobQuery(),                          [0, 1, 2, 3, 4]),
        (JobQuery(limit=2),                   [3, 4]),
        (JobQuery(from_row=3),                [3, 4]),
        (JobQuery(before_row=3),              [0, 1, 2]),
        (JobQuery(before_row=3, limit=2),     [1, 2]),
        (JobQuery(before_row=0),              []),
        (JobQuery(user="ann"),                [0, 1]),
        (JobQuery(tenant="vision"),           [0, 1, 2]),
        (JobQuery(tenant="vision/a_c"),       []),
        (JobQuery(tenant="vis"),              []),
        (JobQuery(name="b"),                  [1, 4]),
        (JobQuery(since_s=3.0),               [0, 3, 4]),
        (JobQuery(live=True),                 [1, 2, 3, 4]),
        (JobQuery(live=False),                [0]),
        (JobQuery(states=["RUNNING"]),        [1]),
        (JobQuery(states=["RUNNING", "COMPLETED"], user="ann"), [0, 1]),
    ],
)  # fmt: skip
def test_filters(store: Store, which: JobQuery, rows: list[int]) -> None:
    who = [("ann", "vision", "a"), ("ann", "vision", "b"), ("bob", "vision/abc", "a"), ("cy", "visions", "a"),
           ("cy", "nlp", "b")]  # fmt: skip
    for moment, (user, tenant, name) in enumerate(who):
        store.add_jobs(user, tenant, [NewJob(JobSpec(command=["x"], name=name))], float(moment))
    store.commit(Step(jobs={0: DONE, 1: RUNNING}))
    assert [job.row for job in store.jobs(which)] == rows


def test_history_and_past(store: Store) -> None:
    for moment in (0.0, 10.0, 20.0):
        store.add_jobs("ann", "vision", jobs_of(1), moment)
    how = ("finished", "failed", "failed")
    held = [IntervalRow(row, 1, 1.0, 4.0, (row,), (0,), 1.0, "alone", how[row]) for row in range(3)]
    ends = {0: replace(DONE, finish_s=5.0), 1: replace(DONE, finish_s=15.0, run_s=3.0)}
    store.commit(Step(jobs=ends, intervals=held))
    assert [job.row for job in store.history(6.0, 12.0).jobs] == [1]
    assert [job.row for job in store.history(0.0, 21.0).jobs] == [0, 1, 2]
    assert store.history(6.0, 12.0).intervals == [held[1]]
    assert store.history(0.0, 21.0).intervals == held[1:], (
        "of what came to nothing: an export needs no others"
    )
    assert {key: runs.tolist() for key, runs in store.past().items()} == {("vision", "ann/a"): [4.0, 3.0]}
    assert {key: runs.tolist() for key, runs in store.past(limit=1).items()} == {("vision", "ann/a"): [3.0]}
    assert store.totals() == {"COMPLETED": 2, "PENDING": 1}
    assert store.live_totals() == {("PENDING", "vision"): 1}


def test_events_are_read_on(store: Store) -> None:
    store.commit(Step(events=[EventRow(float(i), "rota", "tick", "", str(i)) for i in range(10)]))
    seen: list[str] = []
    last = 0
    while some := store.events(since_seq=last, limit=3):
        seen += [row.text for row in some]
        last = some[-1].seq
    assert seen == [str(i) for i in range(10)]


def test_specifications_of_many(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(1200), 1.0)
    assert len(store.specs(range(1200))) == 1200


# -- users, tokens, nodes, facts -------------------------------------------------------------------


def test_users(store: Store) -> None:
    ann, bob = UserRow("ann", "h1", "s1", True, "vision", "ann"), UserRow("bob", "h2", "s2")
    store.set_user(bob)
    store.set_user(replace(ann, admin=False))
    store.set_user(ann)
    assert store.users() == [ann, bob]
    assert store.user("ann") == ann
    assert (store.remove_user("bob"), store.remove_user("bob"), store.user("bob")) == (True, False, None)


def test_tokens(store: Store) -> None:
    store.add_token(token := TokenRow("h", "join", "", 1.0))
    assert store.token("h") == token
    assert store.tokens() == [token]
    assert (store.remove_token("h"), store.remove_token("h"), store.token("h")) == (True, False, None)


def test_nodes_keep_their_numbers(store: Store) -> None:
    first = store.join(node_info("n0", 2), TokenRow("h0", "agent", "n0", 1.0))
    second = store.join(node_info("n1", 3), TokenRow("h1", "agent", "n1", 2.0))
    third = store.join(node_info("n2", 1), TokenRow("h2", "agent", "n2", 3.0))
    assert [(n.position, n.first_device) for n in (first, second, third)] == [(0, 0), (1, 2), (2, 5)]
    store.commit(
        Step(nodes=[replace(second, state="drained", reason="fan", drained_by="ann", token="stale")])
    )
    again = store.join(node_info("n1", 3), TokenRow("h9", "agent", "n1", 9.0))
    assert again == replace(second, state="drained", reason="fan", drained_by="ann", token="h9")
    assert store.nodes() == [first, again, third]
    assert {token.hash for token in store.tokens()} == {"h0", "h9", "h2"}, "the old token is void"


def test_a_forgotten_node_that_joins_anew_has_its_old_place(store: Store) -> None:
    first = store.join(node_info("n0", 2), TokenRow("h0", "agent", "n0", 1.0))
    store.commit(Step(nodes=[replace(first, state="forgotten", reason="forgotten by ann")]))
    second = store.join(node_info("n1", 1), TokenRow("h1", "agent", "n1", 2.0))
    assert (second.position, second.first_device) == (1, 2), "its numbers are taken for ever"
    again = store.join(node_info("n0", 2), TokenRow("h2", "agent", "n0", 3.0))
    assert (again.position, again.first_device, again.state) == (0, 0, "lost")


def test_a_node_with_other_devices(store: Store) -> None:
    store.join(node_info("n0", 2), TokenRow("h0", "agent", "n0", 1.0))
    before = contents(store)
    with pytest.raises(InputError, match="comes with 3 devices; it joined with 2"):
        store.join(node_info("n0", 3), TokenRow("h1", "agent", "n0", 2.0))
    assert contents(store) == before


def test_facts(place: Place) -> None:  # noqa: F811
    store = place.open()
    store.set_fact("name", "lab")
    store.set_fact("name", "lab2")
    epoch_s = store.epoch_s
    store.close()
    again = place.open()
    assert again.facts() == {"epoch_s": epoch_s, "name": "lab2"}
    assert again.epoch_s == epoch_s


def test_live_jobs_are_found_by_their_index(lite: Place) -> None:  # noqa: F811
    """However many are over, what is asked again and again looks only at those that are not."""
    store = lite.open()
    live = queries._JOBS.where(*queries._conditions(JobQuery(live=True)))
    with store._db.reading() as connection:
        for statement in (live, start_state._LIVE, start_state._SPECS, start_state.OPEN_COMMANDS):
            text = str(statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
            assert not any(step in ("SCAN jobs", "SCAN jobs_1", "SCAN commands") for step in plan), plan
            assert any("_live" in step or "_open" in step for step in plan), plan
