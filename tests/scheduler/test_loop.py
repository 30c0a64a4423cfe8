"""The loop on a world that records and on one that refuses: nothing is lost, everybody is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from play import trace_of
from recording import RecordingWorld
from refusing import RefusingWorld, lost_node, out_of_memory, stale_state
from rota.errors import GuardError, PolicyError
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Reservation, Role
from rota.scheduler.decision import Event, Wake
from rota.scheduler.loop import Loop
from rota.scheduler.policy import parse_policy
from rota.scheduler.world import Batch, Ended, How
from rota.table.state import Phase
from rota.worlds.simulated.checks import recount
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.world import SimulatedWorld
from scripted import Scripted

ARRIVAL, END = int(Event.ARRIVAL), int(Event.END)


def loop_on(world: Any, policy: Any, **options: Any) -> tuple[Loop, RunRecorder]:
    recorder = RunRecorder()
    return Loop(world, policy, recorder, **options), recorder


def recording(jobs: str, cluster: str, *script: Batch, **columns: Any) -> RecordingWorld:
    return RecordingWorld(parse_cluster(cluster), trace_of(jobs, **columns).jobs, script)


def phases(loop: Loop) -> str:
    return " ".join(Phase(int(phase)).name for phase in loop.state.phase)


# -- a world that records --------------------------------------------------------------------------


def test_stops_are_applied_before_starts() -> None:
    world = recording("A 4x9 B 4x9@5", "1x4", Batch(0.0, ARRIVAL, [0]), Batch(5.0, ARRIVAL, [1]))
    policy = Scripted(
        {"grants": [Grant(0, (0, 1, 2, 3))]}, {"grants": [Grant(1, (0, 1, 2, 3))], "preempt": [0]}
    )
    loop, _ = loop_on(world, policy)
    loop.run()
    told = [(at, change.row, change.new is not None) for at, change in world.applied]
    assert told == [(0.0, 0, True), (5.0, 0, False), (5.0, 1, True)]
    assert world.stops == [(5.0, 0, How.PREEMPTED)]


def test_two_jobs_can_swap_devices() -> None:
    world = recording("A 1x9 B 1x9", "1x2", Batch(0.0, ARRIVAL, [0, 1]), Batch(5.0, END))
    swap = {"grants": [Grant(0, (1,)), Grant(1, (0,))]}
    loop, recorder = loop_on(world, Scripted({"grants": [Grant(0, (0,)), Grant(1, (1,))]}, swap))
    loop.run()
    assert {row: grant.devices for row, grant in loop.state.grants.items()} == {0: (1,), 1: (0,)}
    assert [interval[3] for interval in recorder.intervals] == [How.MIGRATED, How.MIGRATED]


def test_a_job_that_is_not_named_keeps_what_it_has() -> None:
    world = recording("A 1x9 B 1x9", "1x2", Batch(0.0, ARRIVAL, [0]), Batch(1.0, ARRIVAL, [1]))
    loop, _ = loop_on(world, Scripted({"grants": [Grant(0, (1,))]}, {"grants": [Grant(1, (0,))]}))
    loop.run()
    assert loop.state.grants[0] == Grant(0, (1,))
    assert loop.state.since_s[0] == 0.0


def test_the_same_grant_again_is_no_change() -> None:
    world = recording("A 1x9", "1x2", Batch(0.0, ARRIVAL, [0]), Batch(1.0, END))
    loop, recorder = loop_on(world, Scripted(*[{"grants": [Grant(0, (1,))]}] * 2))
    loop.run()
    assert len(world.applied) == 1
    assert recorder.intervals == []


def test_withdrawn_jobs_leave_waiting_or_held() -> None:
    world = recording(
        "A 1x9 B 1x9 C 1x9", "1x1", Batch(0.0, ARRIVAL, [0, 1, 2]), Batch(1.0, END, withdrawn=[1, 0]),
        after={1: (0,), 2: (1,)},
    )  # fmt: skip
    loop, recorder = loop_on(world, Scripted())
    loop.step()
    assert phases(loop) == "PENDING HELD HELD"
    loop.step()
    assert phases(loop) == "CANCELLED CANCELLED PENDING"
    assert recorder.ends == [(1, 1.0), (0, 1.0)]
    assert loop.state.plain
    assert loop.state.waiting_gpus == 1


def test_a_job_the_cluster_cannot_hold_lets_its_dependents_go() -> None:
    world = recording("A 9x9 B 1x9", "1x4", Batch(0.0, ARRIVAL, [0, 1]), after={1: (0,)})
    loop, _ = loop_on(world, Scripted())
    loop.run()
    assert phases(loop) == "REJECTED PENDING"


def test_jobs_that_a_decision_lets_go_are_decided_on_at_once() -> None:
    """B waits for A, which is rejected: no other event would ever tell the policy of B."""
    world = recording("A 1x9 B 1x9", "1x1", Batch(0.0, ARRIVAL, [0, 1]), after={1: (0,)})
    policy = Scripted({"reject": {0: "no"}}, {"grants": [Grant(1, (0,))]})
    loop, _ = loop_on(world, policy)
    loop.run()
    assert phases(loop) == "REJECTED RUNNING"
    assert policy.seen[1].cause == Event.END
    assert loop.counts.events == 1


@pytest.mark.parametrize(
    ("wake", "calls", "why"),
    [
        (Wake(), 3, "at every event by default"),
        (Wake(on=Event.ARRIVAL), 2, "only on what it named"),
        (Wake(on=Event.NONE, at_s=2.5), 3, "at the moment it named; there it asks for arrivals"),
        (Wake(if_waiting=True), 2, "not while nobody waits"),
        (Wake(on=Event.IDLE), 3, "when the only one has ended; there it asks for arrivals"),
        (Wake(on=Event.NONE), 1, "never"),
    ],
)
def test_a_policy_is_woken_as_it_asked(wake: Wake, calls: int, why: str) -> None:
    ended = Ended(0, How.FINISHED, Phase.COMPLETED)
    world = recording(
        "A 1x2 B 1x2",
        "1x1",
        Batch(0.0, ARRIVAL, [0]),
        Batch(2.0, END, ended=[ended]),
        Batch(3.0, ARRIVAL, [1]),
    )
    policy = Scripted({"grants": [Grant(0, (0,))], "wake": wake}, *[{"wake": Wake(on=Event.ARRIVAL)}] * 9)
    loop, _ = loop_on(world, policy)
    loop.run()
    assert len(policy.seen) == calls, why


@pytest.mark.parametrize(("at_s", "ran_s"), [(None, 8.0), (5.0, 4.0), (0.5, 0.0), (99.0, 8.0)])
def test_what_a_job_held_after_its_end_is_not_counted(at_s: float | None, ran_s: float) -> None:
    """The end is heard of at 9 s; the job ran from 1 s on, and not longer than until then."""
    ended = Ended(0, How.FINISHED, Phase.COMPLETED, at_s)
    world = recording("A 2x2", "1x2", Batch(1.0, ARRIVAL, [0]), Batch(9.0, END, ended=[ended]))
    loop, _ = loop_on(world, Scripted({"grants": [Grant(0, (0, 1))]}, *[{}] * 9))
    loop.run()
    assert loop.state.now == 9.0
    assert loop.state.ran_s(0) == ran_s
    assert loop.state.service_gpu_s(0) == 2 * ran_s


def test_a_wake_up_in_the_past_is_an_error() -> None:
    world = recording("A 1x2", "1x1", Batch(4.0, ARRIVAL, [0]))
    loop, _ = loop_on(world, Scripted({"wake": Wake(at_s=4.0)}))
    with pytest.raises(PolicyError, match=r"asks to be woken at 4 s, which is not after now \(4 s\)"):
        loop.run()


def test_what_is_no_decision_is_an_error() -> None:
    class Dumb:
        needs = frozenset()  # type: ignore[var-annotated]

        def decide(self, snapshot: object, memory: object) -> object:
            return None

    loop, _ = loop_on(recording("A 1x2", "1x1", Batch(0.0, ARRIVAL, [0])), Dumb())
    with pytest.raises(PolicyError, match=r"Dumb\.decide returned None, not a Decision"):
        loop.run()


# -- live: the offending part is refused -----------------------------------------------------------

# A runs on devices 0 and 1, B on device 2; C and D wait; the cluster has 4 devices in one node.
LIVE = [
    # decision                                                          held afterwards        refused   why
    (
        {"grants": [Grant(2, (2,)), Grant(3, (3,))]},
        {0: (0, 1), 1: (2,), 3: (3,)},
        {2},
        "an offender is refused, the rest applied",
    ),
    (
        {"grants": [Grant(2, (0,)), Grant(0, (2, 3)), Grant(1, (3, 3))]},
        {0: (0, 1), 1: (2,)},
        {0, 1, 2},
        "B cannot move, so A cannot, so C cannot",
    ),
    (
        {"preempt": [1], "grants": [Grant(2, (2, 3)), Grant(3, (3,))]},
        {0: (0, 1), 1: (2,), 3: (3,)},
        {2},
        "B keeps the device that only the refused C wanted",
    ),
    (
        {"preempt": [1], "grants": [Grant(2, (2, 2)), Grant(3, (2,))]},
        {0: (0, 1), 3: (2,)},
        {2},
        "B goes: D, which is sound, needs its device",
    ),
    ({"preempt": [1, 2]}, {0: (0, 1)}, {2}, "who does not run is not preempted, B is"),
    (
        {"preempt": [0], "grants": [Grant(0, (2, 3)), Grant(3, (3,))]},
        {0: (0, 1), 1: (2,), 3: (3,)},
        {0},
        "named twice: A stays as it is",
    ),
    (
        {
            "grants": [Grant(3, (3,))],
            "reservations": [Reservation(2, (1,), 9.0), Reservation(3, (1,), 9.0)],
        },
        {0: (0, 1), 1: (2,), 3: (3,)},
        {3},
        "a reservation of what is kept for another job is dropped",
    ),
    (
        {"grants": [Grant(2, (2,), 0.5, Role.PACKED), Grant(1, (2,), 0.5, Role.PACKED)]},
        {0: (0, 1), 1: (2,), 2: (2,)},
        set(),
        "nothing to refuse: B makes room itself",
    ),
]


@pytest.mark.parametrize(("decision", "held", "refused", "why"), LIVE, ids=[row[3] for row in LIVE])
def test_live_the_offending_part_is_refused(
    decision: dict[str, Any], held: dict[int, tuple[int, ...]], refused: set[int], why: str
) -> None:
    world = recording("A 2x9 B 1x9 C 1x9 D 1x9", "1x4", Batch(0.0, ARRIVAL, [0, 1, 2, 3]), Batch(1.0, END))
    policy = Scripted({"grants": [Grant(0, (0, 1)), Grant(1, (2,))]}, decision)
    loop, recorder = loop_on(world, policy, strict=False)
    loop.step()
    loop.step()
    assert {row: grant.devices for row, grant in loop.state.grants.items()} == held, why
    assert set(loop.snapshot().refused) == refused
    assert loop.counts.refused >= len(refused)
    loop.close()
    recount(loop.state, recorder)


def test_live_the_next_snapshot_tells_and_comes_soon() -> None:
    world = recording("A 1x9 B 1x9", "1x2", Batch(0.0, ARRIVAL, [0, 1]))
    bad = {"grants": [Grant(0, (0,)), Grant(1, (0,))], "wake": Wake(on=Event.ARRIVAL)}
    told: list[dict[int, str]] = []

    def look(snapshot: Any) -> dict[str, Any]:
        told.append(dict(snapshot.refused))
        return {"grants": [Grant(1, (1,))], "wake": Wake(on=Event.NONE)}

    loop, _ = loop_on(world, Scripted(bad, look), strict=False, retry_s=7.0)
    loop.run(100.0)
    assert list(told[0]) == [1]
    assert "shares would sum to 2" in told[0][1]
    assert loop.counts.by_rule == {"oversubscribed": 1}
    assert loop.state.first_start_s.tolist() == [0.0, 7.0]
    assert loop.snapshot().refused == {}


def test_in_a_simulation_the_same_is_an_error() -> None:
    world = recording("A 1x9 B 1x9", "1x2", Batch(0.0, ARRIVAL, [0, 1]))
    loop, _ = loop_on(world, Scripted({"grants": [Grant(0, (0,)), Grant(1, (0,))]}))
    with pytest.raises(GuardError, match="job B"):
        loop.run()


# -- a world that refuses --------------------------------------------------------------------------

CLUSTER = parse_cluster("2x2")
REFUSALS = [
    ("stale state", lambda: stale_state(5), "stale"),
    ("lost node", lambda: lost_node(CLUSTER, 0, 4), "node n0 does not answer"),
    ("out of memory", lambda: out_of_memory(1, 3), "out of memory"),
]


@pytest.mark.parametrize("policy", ["fifo", "fifo:skip=yes", "srtf"])
@pytest.mark.parametrize("refusal", REFUSALS, ids=[row[0] for row in REFUSALS])
def test_what_a_world_refuses_is_tried_again_and_nothing_is_lost(policy: str, refusal: Any) -> None:
    _, make, words = refusal
    trace = trace_of("A 2x10 B 1x20@1 C 4x5@2 D 2x30@3 E 1x1@40")
    world = RefusingWorld(SimulatedWorld(trace, CLUSTER), make())
    oracle = Given(Knowledge.DURATION, trace.truth.duration_s)
    loop, recorder = loop_on(world, parse_policy(policy).make(), providers={oracle.kind: oracle}, retry_s=3.0)
    loop.run()
    assert world.refused
    assert all(words in refused.why for refused in world.refused)
    assert phases(loop) == " ".join(["COMPLETED"] * 5)
    assert loop.state.starts.sum() == 5 + loop.state.preemptions.sum(), "a refused start is no start"
    ran = loop.state.run_s
    np.testing.assert_allclose(
        ran, trace.truth.duration_s, err_msg="no job worked more or less than it had to"
    )
    assert not any(start == end for _, start, end, _, _ in recorder.intervals)
    loop.close()
    recount(loop.state, recorder)


def test_a_refused_start_never_happened() -> None:
    trace = trace_of("A 1x10")
    world = RefusingWorld(SimulatedWorld(trace, CLUSTER), stale_state(1))
    loop, recorder = loop_on(world, parse_policy("fifo").make(), retry_s=3.0)
    loop.step()
    assert phases(loop) == "PENDING"
    assert loop.state.starts[0] == 0
    assert np.isnan(loop.state.first_start_s[0])
    assert loop.snapshot().refused == {0: "the state it was decided on is stale"}
    loop.run()
    assert recorder.ends == [(0, 13.0)]


def test_a_refused_move_leaves_the_job_waiting_with_its_work() -> None:
    trace = trace_of("A 1x10 B 1x10@4")
    world = RefusingWorld(SimulatedWorld(trace, CLUSTER), lambda c: "no room" if c.old is not None else "")
    policy = Scripted(
        {"grants": [Grant(0, (0,))]}, {"grants": [Grant(0, (1,))]}, {"grants": [Grant(0, (2,))]}
    )
    loop, recorder = loop_on(world, policy, retry_s=3.0)
    loop.step()
    loop.step()
    assert phases(loop) == "PENDING PENDING"
    assert loop.state.progress.done(0, 4.0) == 4.0
    loop.step()
    assert phases(loop) == "RUNNING PENDING"
    assert loop.state.starts[0] == 2
    loop.step()
    assert recorder.ends == [(0, 13.0)], "4 s before, 3 s waiting, 6 s after"


# -- placing beside reservations -------------------------------------------------------------------


def test_a_job_is_placed_on_what_is_reserved_for_it_and_beside_what_is_for_others() -> None:
    """D runs; A has devices 0 and 1 to itself, B only 2 is left; C, half a GPU, may not join D on 3."""
    world = recording(
        "D 1x9 A 2x9@1 B 1x9@1 C 1x9@1", "1x4",
        Batch(0.0, ARRIVAL, [0]), Batch(1.0, ARRIVAL, [1, 2, 3]), Batch(2.0, END),
        gpu_share=[0.5, 1.0, 1.0, 0.5],
    )  # fmt: skip
    kept = [Reservation(1, (0, 1), 9.0), Reservation(2, (3,), 9.0)]
    fifo = parse_policy("fifo").make()
    first, second = {"grants": [Grant(0, (3,), 0.5, Role.PACKED)]}, {"reservations": kept}
    script = Scripted(first, second, lambda s: {"grants": fifo.decide(s, {}).grants})
    loop, _ = loop_on(world, script)
    loop.run()
    held = {row: grant.devices for row, grant in loop.state.grants.items()}
    assert held == {0: (3,), 1: (0, 1), 2: (2,)}
