"""What is done about every pair of what is wanted and what is here, one row one case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.engines.shared.ledger import Claim, Key
from rota.engines.shared.reconcile import (
    Action,
    Do,
    Here,
    Machine,
    NodePlan,
    PartPhase,
    Silence,
    ledger_of,
    reconcile,
)
from rota.wire.sync import Part, Wanted
from strategies import seconds  # noqa: F401  (loads the profile)

FOUR = Machine({0: "", 1: "", 2: "", 3: "lost"}, name="cpu")
NO_MOVES = replace(FOUR, movable=False)
UNSURE = replace(FOUR, whole=False)
W, P = Wanted, PartPhase


def order(row: int, wanted: Wanted, devices: str = "0", attempt: int = 1, **more: object) -> Part:
    return Part.model_validate(
        {
            "row": row,
            "job": str(row + 1),
            "attempt": attempt,
            "version": 1,
            "wanted": wanted,
            "devices": [int(one) for one in devices],
            **more,
        }
    )


def here(row: int, phase: PartPhase, devices: str = "0", attempt: int = 1, **more: object) -> Here:
    claim = Claim(tuple(int(one) for one in devices))
    return Here((row, attempt), str(row + 1), phase, claim, **{"version": 1, **more})  # type: ignore[arg-type]


def plan_of(orders: list[Part], known: list[Here], machine: Machine = FOUR) -> NodePlan:
    return reconcile({(one.row, one.attempt): one for one in orders}, known, machine)


def said(plan: NodePlan) -> list[str]:
    """`start 1.1` for row 1, attempt 1."""
    return [f"{action.do} {action.key[0]}.{action.key[1]}" for action in plan.actions]


@pytest.mark.parametrize(
    ("wanted", "phase", "done", "why"),
    [
        (W.RUN, None, "start", "it is not here"),
        (W.RUN, P.STARTING, "", "under way"),
        (W.RUN, P.RUNNING, "", "done"),
        (W.RUN, P.SUSPENDING, "", "first it has to be suspended"),
        (W.RUN, P.SUSPENDED, "resume", ""),
        (W.RUN, P.RESUMING, "", "under way"),
        (W.RUN, P.LEAVING, "", "an end cannot be undone"),
        (W.RUN, P.STOPPING, "", "an end cannot be undone"),
        (W.RUN, P.DYING, "", "an end cannot be undone"),
        (W.RUN, P.GONE, "", "its end is reported until the controller takes note"),
        (W.SUSPEND, None, "", "it holds nothing"),
        (W.SUSPEND, P.STARTING, "", "it cannot be suspended yet"),
        (W.SUSPEND, P.RUNNING, "suspend", ""),
        (W.SUSPEND, P.SUSPENDING, "", "under way"),
        (W.SUSPEND, P.SUSPENDED, "", "done"),
        (W.SUSPEND, P.RESUMING, "", "first it has to be back"),
        (W.SUSPEND, P.STOPPING, "", "an end cannot be undone"),
        (W.SUSPEND, P.GONE, "", ""),
        (W.LEAVE, None, "withdraw", "it never began"),
        (W.LEAVE, P.STARTING, "leave", ""),
        (W.LEAVE, P.RUNNING, "leave", ""),
        (W.LEAVE, P.SUSPENDING, "leave", "leaving overrules"),
        (W.LEAVE, P.SUSPENDED, "leave", ""),
        (W.LEAVE, P.RESUMING, "leave", ""),
        (W.LEAVE, P.LEAVING, "", "under way"),
        (W.LEAVE, P.STOPPING, "", "it goes already"),
        (W.LEAVE, P.DYING, "", ""),
        (W.LEAVE, P.GONE, "", ""),
        (W.STOP, None, "withdraw", ""),
        (W.STOP, P.RUNNING, "stop", ""),
        (W.STOP, P.SUSPENDED, "stop", ""),
        (W.STOP, P.LEAVING, "stop", "no patience for the checkpoint"),
        (W.STOP, P.STOPPING, "", "under way"),
        (W.STOP, P.DYING, "", ""),
        (W.STOP, P.GONE, "", ""),
        (W.KILL, None, "withdraw", ""),
        (W.KILL, P.STARTING, "kill", ""),
        (W.KILL, P.RUNNING, "kill", ""),
        (W.KILL, P.SUSPENDED, "kill", ""),
        (W.KILL, P.STOPPING, "kill", "no patience for the grace"),
        (W.KILL, P.DYING, "", "under way"),
        (W.KILL, P.GONE, "", ""),
        (W.FORGET, None, "forget", "nothing to remove"),
        (W.FORGET, P.GONE, "forget", ""),
        (W.FORGET, P.RUNNING, "kill", "its end is on record: whatever runs is void"),
        (W.FORGET, P.DYING, "", "first it has to be gone"),
        (None, P.RUNNING, "kill", "nobody wants it"),
        (None, P.SUSPENDED, "kill", "nobody wants it"),
        (None, P.DYING, "", "under way"),
        (None, P.GONE, "forget", "nobody waits for its end"),
    ],
)
def test_one_part(wanted: Wanted | None, phase: PartPhase | None, done: str, why: str) -> None:
    plan = plan_of(
        [order(0, wanted)] if wanted is not None else [], [here(0, phase)] if phase is not None else []
    )
    assert said(plan) == ([f"{done} 0.1"] if done else []), why


@pytest.mark.parametrize(
    ("orders", "known", "machine", "done", "waiting"),
    [
        # release before acquire
        ([order(0, W.SUSPEND), order(1, W.RUN)], [here(0, P.RUNNING)], FOUR, ["suspend 0.1"], {1}),
        ([order(0, W.SUSPEND), order(1, W.RUN)], [here(0, P.SUSPENDING)], FOUR, [], {1}),
        ([order(0, W.SUSPEND), order(1, W.RUN)], [here(0, P.SUSPENDED)], FOUR, ["start 1.1"], set()),
        ([order(0, W.LEAVE), order(1, W.RUN)], [here(0, P.LEAVING)], FOUR, [], {1}),
        ([order(0, W.STOP), order(1, W.RUN)], [here(0, P.STOPPING)], FOUR, [], {1}),
        ([order(0, W.KILL), order(1, W.RUN)], [here(0, P.DYING)], FOUR, [], {1}),
        ([order(0, W.STOP), order(1, W.RUN)], [here(0, P.STOPPING, parked=True)], FOUR,
         ["start 1.1"], set()),
        ([order(0, W.STOP), order(1, W.RUN)], [here(0, P.GONE)], FOUR, ["start 1.1"], set()),
        # a suspended part takes its turn
        ([order(0, W.RUN), order(1, W.STOP)], [here(0, P.SUSPENDED), here(1, P.RUNNING)], FOUR,
         ["stop 1.1"], {0}),
        ([order(0, W.RUN, "1")], [here(0, P.SUSPENDED)], FOUR, ["resume 0.1"], set()),
        ([order(0, W.RUN, "1")], [here(0, P.SUSPENDED)], NO_MOVES, ["leave 0.1"], set()),
        ([order(0, W.RUN, "1")], [here(0, P.RUNNING)], FOUR, ["suspend 0.1"], set()),
        ([order(0, W.RUN, "1")], [here(0, P.RUNNING)], NO_MOVES, ["leave 0.1"], set()),
        ([order(0, W.RUN, "1"), order(1, W.RUN, "0")], [here(0, P.SUSPENDED), here(1, P.SUSPENDED, "1")],
         FOUR, ["resume 0.1", "resume 1.1"], set()),
        # shares
        ([order(0, W.RUN, share=0.5), order(1, W.RUN, share=0.5)], [], FOUR,
         ["start 0.1", "start 1.1"], set()),
        ([order(0, W.RUN, share=0.5), order(1, W.RUN, share=0.6)], [], FOUR, ["start 0.1"], {1}),
        ([order(0, W.RUN), order(1, W.RUN, opportunistic=True)], [], FOUR,
         ["start 0.1", "start 1.1"], set()),
        ([order(0, W.RUN, "01"), order(1, W.RUN, "12")], [], FOUR, ["start 0.1"], {1}),
        ([order(0, W.RUN, ""), order(1, W.RUN, "")], [], FOUR, ["start 0.1", "start 1.1"], set()),
        # the older order first
        ([order(0, W.RUN, version=9), order(1, W.RUN, version=8)], [], FOUR, ["start 1.1"], {0}),
        # fencing by attempt
        ([order(0, W.RUN, "1", 2)], [here(0, P.RUNNING)], FOUR, ["kill 0.1"], {0}),
        ([order(0, W.RUN, "1", 2), order(0, W.RUN)], [here(0, P.RUNNING)], FOUR, ["kill 0.1"], {0}),
        ([order(0, W.RUN, "1", 2), order(0, W.LEAVE)], [here(0, P.LEAVING)], FOUR, ["kill 0.1"], {0}),
        ([order(0, W.RUN, "1", 2)], [here(0, P.DYING)], FOUR, [], {0}),
        ([order(0, W.RUN, "1", 2)], [here(0, P.GONE)], UNSURE, ["start 0.2"], set()),
        ([order(0, W.RUN, "0", 2)], [here(0, P.RUNNING)], UNSURE, ["kill 0.1"], {0}),
        ([order(0, W.RUN)], [here(0, P.RUNNING, "1", 2)], UNSURE, ["refuse 0.1"], set()),
        ([order(0, W.RUN)], [here(0, P.GONE, "1", 2)], UNSURE, ["refuse 0.1"], set()),
        # the list may not be whole yet
        ([], [here(0, P.RUNNING), here(1, P.GONE, "1")], UNSURE, [], set()),
        # what cannot be
        ([order(0, W.RUN, "7")], [], FOUR, ["refuse 0.1"], set()),
        ([order(0, W.RUN, "3")], [], FOUR, ["refuse 0.1"], set()),
        ([order(0, W.RUN, "3")], [here(0, P.RUNNING, "3")], FOUR, [], set()),
        # several nodes
        ([order(0, W.RUN, node_rank=1, nodes=["a", "b"])], [], FOUR, [], {0}),
        ([order(0, W.RUN, node_rank=1, nodes=["a", "b"], port=77)], [], FOUR, ["start 0.1"], set()),
        ([order(0, W.RUN, node_rank=0, nodes=["a", "b"])], [], FOUR, ["start 0.1"], set()),
        # another batch size
        ([order(0, W.RUN, batch_size=64)], [here(0, P.RUNNING, batch_size=32)], FOUR, ["tune 0.1"], set()),
        ([order(0, W.RUN, batch_size=64)], [here(0, P.RUNNING, batch_size=64)], FOUR, [], set()),
        ([order(0, W.RUN, batch_size=64)], [here(0, P.RUNNING)], FOUR, [], set()),
        ([order(0, W.RUN)], [here(0, P.RUNNING, batch_size=64)], FOUR, [], set()),
        ([order(0, W.RUN, batch_size=64)], [here(0, P.SUSPENDED, batch_size=32)], FOUR,
         ["resume 0.1"], set()),
        # nearer deadlines
        ([order(0, W.STOP, version=5)], [here(0, P.STOPPING, version=4)], FOUR, ["stop 0.1"], set()),
        ([order(0, W.STOP, version=5)], [here(0, P.STOPPING, version=5)], FOUR, [], set()),
    ],
)  # fmt: skip
def test_many_parts(
    orders: list[Part], known: list[Here], machine: Machine, done: list[str], waiting: set[int]
) -> None:
    plan = plan_of(orders, known, machine)
    assert said(plan) == done
    assert {row for row, _ in plan.waiting} == waiting


@pytest.mark.parametrize(
    ("silence", "phase", "self_fence", "done"),
    [
        (Silence.HEARD, P.RUNNING, True, []),
        (Silence.FENCING, P.RUNNING, True, ["fence 0.1"]),
        (Silence.FENCING, P.SUSPENDED, True, ["fence 0.1"]),
        (Silence.FENCING, P.LEAVING, True, ["fence 0.1"]),
        (Silence.FENCING, P.STOPPING, True, []),
        (Silence.FENCING, P.RUNNING, False, []),
        (Silence.FENCED, P.STOPPING, True, ["kill 0.1"]),
        (Silence.FENCED, P.RUNNING, True, ["kill 0.1"]),
        (Silence.FENCED, P.DYING, True, []),
        (Silence.FENCED, P.RUNNING, False, []),
    ],
)
def test_silence(silence: Silence, phase: PartPhase, self_fence: bool, done: list[str]) -> None:
    machine = replace(FOUR, silence=silence)
    plan = plan_of([order(0, W.RUN), order(1, W.RUN, "1")], [here(0, phase, self_fence=self_fence)], machine)
    begun = [one for one in said(plan) if not one.startswith(("start", "resume"))]
    assert begun == done
    assert ("start 1.1" in said(plan)) is (silence is Silence.HEARD), "nothing new begins in silence"


@pytest.mark.parametrize(
    ("orders", "known", "sentence"),
    [
        ([order(1, W.RUN)], [here(0, P.STOPPING)], "cpu 0 is still held by job 1"),
        ([order(0, W.RUN, "1", 2)], [here(0, P.DYING)], "attempt 1 of the job is still here"),
        ([order(0, W.RUN, node_rank=1, nodes=["a", "b"])], [],
         "the port of the first node, a, is not known yet"),
        ([order(0, W.RUN, "7")], [], "there is no cpu 7 on this machine; it has 0, 1, 2, 3"),
        ([order(0, W.RUN, "3")], [], "cpu 3 cannot be used: lost"),
        ([order(0, W.RUN)], [here(0, P.GONE, "0", 2)], "attempt 1 of job 1 is void: attempt 2 is known here"),
    ],
)  # fmt: skip
def test_sentences(orders: list[Part], known: list[Here], sentence: str) -> None:
    plan = plan_of(orders, known, UNSURE)
    assert sentence in [*plan.waiting.values(), *(action.why for action in plan.actions)]


class Toy:
    """A machine on which actions take their time: each turn, some of what is under way comes to its end."""

    NEXT = {  # noqa: RUF012
        P.STARTING: P.RUNNING,
        P.SUSPENDING: P.SUSPENDED,
        P.RESUMING: P.RUNNING,
        P.LEAVING: P.GONE,
        P.STOPPING: P.GONE,
        P.DYING: P.GONE,
    }
    BECOMES = {  # noqa: RUF012
        Do.KILL: P.DYING,
        Do.FENCE: P.STOPPING,
        Do.STOP: P.STOPPING,
        Do.LEAVE: P.LEAVING,
        Do.SUSPEND: P.SUSPENDING,
    }

    def __init__(self) -> None:
        self.here: dict[Key, Here] = {}

    def carry_out(self, action: Action) -> None:
        one, part = self.here.get(action.key), action.part
        if action.do in (Do.START, Do.RESUME):
            assert part is not None
            claim = Claim(tuple(part.devices), part.share, part.opportunistic)
            phase = P.STARTING if action.do is Do.START else P.RESUMING
            self.here[action.key] = Here(
                action.key, str(action.key[0] + 1), phase, claim, version=part.version
            )
        elif action.do is Do.FORGET:
            self.here.pop(action.key, None)
        elif action.do in (Do.REFUSE, Do.WITHDRAW):
            self.here[action.key] = Here(action.key, str(action.key[0] + 1), P.GONE)
        else:
            assert one is not None
            parked = one.parked or (one.phase is P.SUSPENDED)
            version = part.version if part is not None else one.version
            self.here[action.key] = replace(
                one,
                phase=self.BECOMES[action.do],
                parked=parked and action.do is not Do.SUSPEND,
                version=version,
            )

    def advance(self, key: Key) -> None:
        one = self.here.get(key)
        if one is not None:
            self.here[key] = replace(one, phase=self.NEXT.get(one.phase, one.phase))


keys = st.tuples(st.integers(0, 3), st.integers(1, 3))
wishes = st.builds(
    lambda key, wanted, devices, share, opportunistic: order(
        key[0],
        wanted,
        "".join(map(str, sorted(devices))),
        key[1],
        share=share,
        opportunistic=opportunistic,
    ),
    keys,
    st.sampled_from(list(Wanted)),
    st.sets(st.integers(0, 2), max_size=2),
    st.sampled_from([0.5, 1.0]),
    st.booleans(),
)
stories = st.lists(wishes | keys | st.just(None), max_size=40)


@given(stories, st.booleans(), st.sampled_from(list(Silence)))
def test_invariants(story: list[Part | Key | None], movable: bool, silence: Silence) -> None:
    """Whatever is ordered and however long things take: shares fit, attempts never overlap, nothing twice."""
    toy, orders, version = Toy(), {}, 0
    machine = replace(FOUR, movable=movable)
    started: set[Key] = set()
    for event in story:
        if isinstance(event, Part):
            version += 1
            key = (event.row, event.attempt)
            orders[key] = event.model_copy(update={"version": version})
        elif event is not None:
            toy.advance(event)
        else:
            machine = replace(machine, silence=silence if machine.silence is Silence.HEARD else Silence.HEARD)
        plan = reconcile(orders, toy.here.values(), machine)
        releases = [action.do not in (Do.START, Do.RESUME) for action in plan.actions]
        assert releases == sorted(releases, reverse=True), "releases stand before acquisitions"
        for action in plan.actions:
            if action.do is Do.START:
                assert action.key not in started, "no attempt starts twice"
                started.add(action.key)
                others = [one for one in toy.here.values() if one.key[0] == action.key[0] and one.live]
                assert not others, "no attempt beside another one of its row"
            toy.carry_out(action)
            if action.do is Do.FORGET:
                orders.pop(action.key, None)
                started.discard(action.key)
        assert ledger_of(toy.here.values()).overbooked(range(4)) == []
        again = reconcile(orders, toy.here.values(), machine)
        assert said(again) == [], "what is under way is not ordered again"


@given(stories)
def test_everything_comes_to_rest(story: list[Part | Key | None]) -> None:
    """When orders stop changing, everything reaches what is wanted, or waits for something that holds."""
    toy, orders, version = Toy(), {}, 0
    for event in story:
        if isinstance(event, Part):
            version += 1
            orders[event.row, event.attempt] = event.model_copy(update={"version": version})
    for _ in range(12):
        plan = reconcile(orders, toy.here.values(), FOUR)
        for action in plan.actions:
            toy.carry_out(action)
            if action.do is Do.FORGET:
                orders.pop(action.key, None)
        for key in list(toy.here):
            toy.advance(key)
    plan = reconcile(orders, toy.here.values(), FOUR)
    assert plan.actions == []
    for key, part in orders.items():
        phase = toy.here[key].phase if key in toy.here else None
        if part.wanted is W.RUN:
            assert phase in (P.RUNNING, P.GONE) or key in plan.waiting
        elif part.wanted is W.SUSPEND:
            assert phase in (P.SUSPENDED, P.GONE) or key in plan.waiting
        else:
            assert phase in (P.GONE, None)


# -- a row that is another job's by now ------------------------------------------------------------


@pytest.mark.parametrize("attempt", [1, 3])
def test_a_stranger_goes_before_the_job_that_has_its_number_begins(attempt: int) -> None:
    """After a restored backup: attempt 1 of the new job is neither running already nor void."""
    new = order(0, W.RUN, devices="1", submit_s=2000.0)
    old = here(0, P.RUNNING, attempt=attempt, submit_s=1000.0)
    plan = plan_of([new], [old])
    assert said(plan) == [f"kill 0.{attempt}"]
    assert plan.actions[0].void
    assert plan.waiting == {(0, 1): "processes of an earlier job of this number are still here"}
    assert said(plan_of([new], [replace(old, phase=P.DYING)])) == []
    assert said(plan_of([new], [replace(old, phase=P.GONE)])) == [f"clear 0.{attempt}"]
    assert said(plan_of([new], [])) == ["start 0.1"]


def test_what_the_controller_says_of_a_stranger_voids_nothing() -> None:
    """Its dismissal names a higher attempt than the new job has."""
    new, gone = order(0, W.RUN, devices="1", submit_s=2000.0), order(0, W.FORGET, attempt=3)
    old = here(0, P.GONE, attempt=3, submit_s=1000.0)
    assert said(plan_of([new, gone], [old])) == ["forget 0.3"]
    assert said(plan_of([new, gone], [])) == ["forget 0.3", "start 0.1"]
    running = here(0, P.RUNNING, devices="1", submit_s=2000.0)
    assert said(plan_of([new, gone], [running])) == ["forget 0.3"]


@pytest.mark.parametrize(("ordered_s", "begun_s"), [(0.0, 1000.0), (1000.0, 0.0), (1000.0, 1000.0000002)])
def test_who_does_not_say_when_it_was_submitted_is_nobodys_stranger(ordered_s: float, begun_s: float) -> None:
    """Controllers and agents of older versions; and moments that have been through a database."""
    assert said(plan_of([order(0, W.RUN, submit_s=ordered_s)], [here(0, P.RUNNING, submit_s=begun_s)])) == []
