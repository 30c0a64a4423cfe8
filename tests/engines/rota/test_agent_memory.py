"""Host memory: what begins waits for whoever is on the way out of it, and for nobody else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from agent_play import OVER, agent_at
from hypothesis import given
from hypothesis import strategies as st
from test_engine_reconcile import FOUR, P, W, here, order, plan_of, said

from rota.engines.rota.usage import machine_memory_gib
from rota.engines.shared.memory import HostMemory
from rota.engines.shared.reconcile import ON_THE_WAY_OUT, SENT_AWAY, Here, PartPhase
from rota.testing.engine_controller import StandInController, part
from rota.wire.sync import Part, PartStatus, Wanted
from strategies import seconds  # noqa: F401  (loads the profile)

ROOMY = replace(FOUR, memory_gib=16.0)
A, B, C = (0, 1), (1, 1), (2, 1)


@pytest.mark.parametrize(
    ("held", "leaving", "gib", "obstacles"),
    [
        ({A: 12.0}, {A}, 4.0, []),
        ({A: 12.0}, {A}, 4.1, [A]),
        ({A: 12.0}, set(), 8.0, []),
        ({A: 12.0, B: 4.0}, {A}, 0.0, []),
        ({A: 8.0, B: 8.0}, {A, B}, 1.0, [A, B]),
        ({A: 16.0, B: 0.0}, {B}, 1.0, []),
        ({A: 12.0, C: 4.0}, {A}, 4.0, []),
        ({A: 12.0, C: 2.0}, {A}, 4.0, []),
        ({A: 12.0, C: 2.0}, {A}, 6.0, [A]),
        ({A: 12.0, C: 6.0}, {A}, 6.0, [A]),
        ({A: 16.0 / 3, B: 16.0 / 3}, {A}, 16.0 / 3, []),
    ],
    ids=[
        "it fits",
        "it does not",
        "nobody goes",
        "it states nothing",
        "two go",
        "who goes holds nothing",
        "it has it already",
        "it takes a little more",
        "it takes too much more",
        "it goes on in a machine that is too full",
        "three thirds are a whole",
    ],
)
def test_who_is_waited_for(
    held: dict[tuple[int, int], float],
    leaving: set[tuple[int, int]],
    gib: float,
    obstacles: list[tuple[int, int]],
) -> None:
    """`C` wants memory of a machine that has 16 GiB."""
    assert HostMemory(16.0, held, leaving).obstacles(C, gib) == obstacles
    assert HostMemory(0.0, held, leaving).obstacles(C, gib) == [], "nobody knows how much there is"


def holds(row: int, phase: PartPhase, gib: float, **more: object) -> Here:
    """A part on a device of its own number."""
    return here(row, phase, str(row), memory_gib=gib, **more)


def run(row: int, gib: float, **more: object) -> Part:
    return order(row, W.RUN, str(row), memory_gib=gib, **more)


def told(row: int, wanted: Wanted) -> Part:
    return order(row, wanted, str(row))


@pytest.mark.parametrize(
    ("orders", "known", "done", "waiting"),
    [
        # told to go a moment ago, or by this very plan; also one that ran, if its devices are not in the way
        ([told(0, W.LEAVE), run(1, 8)], [holds(0, P.STOPPING, 12, parked=True)], [], {1}),
        ([told(0, W.LEAVE), run(1, 8)], [holds(0, P.LEAVING, 12, parked=True)], [], {1}),
        ([told(0, W.KILL), run(1, 8)], [holds(0, P.DYING, 12, parked=True)], [], {1}),
        ([told(0, W.LEAVE), run(1, 8)], [holds(0, P.SUSPENDED, 12)], ["leave 0.1"], {1}),
        ([told(0, W.KILL), run(1, 8)], [holds(0, P.SUSPENDED, 12)], ["kill 0.1"], {1}),
        ([told(0, W.LEAVE), run(1, 8)], [holds(0, P.RUNNING, 12)], ["leave 0.1"], {1}),
        ([run(1, 8)], [holds(0, P.RUNNING, 12)], ["kill 0.1"], {1}),
        # gone, or there is room beside it, or nobody knows what it takes
        ([told(0, W.LEAVE), run(1, 8)], [holds(0, P.GONE, 12)], ["start 1.1"], set()),
        ([told(0, W.LEAVE), run(1, 4)], [holds(0, P.STOPPING, 12)], ["start 1.1"], set()),
        ([told(0, W.LEAVE), run(1, 0)], [holds(0, P.STOPPING, 16)], ["start 1.1"], set()),
        # not on the way out: the controller has counted on it
        ([told(0, W.SUSPEND), run(1, 8)], [holds(0, P.SUSPENDED, 12)], ["start 1.1"], set()),
        ([told(0, W.SUSPEND), run(1, 8)], [holds(0, P.SUSPENDING, 12)], ["start 1.1"], set()),
        ([run(0, 12), run(1, 8)], [holds(0, P.RUNNING, 12)], ["start 1.1"], set()),
        # one that goes on takes what it states, and has what it holds
        ([told(0, W.LEAVE), run(1, 8)], [holds(0, P.LEAVING, 12), holds(1, P.SUSPENDED, 8)],
         [], {1}),
        ([told(0, W.LEAVE), run(1, 4)], [holds(0, P.LEAVING, 12), holds(1, P.SUSPENDED, 4)],
         ["resume 1.1"], set()),
        ([told(0, W.LEAVE), run(1, 2), run(2, 3)],
         [holds(0, P.LEAVING, 6), holds(1, P.SUSPENDED, 8)], ["resume 1.1"], {2}),
        # what begins is in memory at once; the older order first, and a younger one that fits may pass
        ([told(0, W.LEAVE), run(1, 4), run(2, 4)], [holds(0, P.LEAVING, 8)],
         ["start 1.1", "start 2.1"], set()),
        ([told(0, W.LEAVE), run(1, 4, version=2), run(2, 5)], [holds(0, P.LEAVING, 8)],
         ["start 2.1"], {1}),
        ([told(0, W.LEAVE), run(1, 9), run(2, 8, version=2)], [holds(0, P.LEAVING, 8)],
         ["start 2.1"], {1}),
    ],
)  # fmt: skip
def test_what_begins_and_what_waits(
    orders: list[Part], known: list[Here], done: list[str], waiting: set[int]
) -> None:
    plan = plan_of(orders, known, ROOMY)
    assert said(plan) == done
    assert {row for row, _ in plan.waiting} == waiting


def test_the_sentence_names_who_is_leaving_and_what_is_taken() -> None:
    orders = [told(0, W.LEAVE), told(2, W.LEAVE), run(1, 8)]
    known = [holds(0, P.STOPPING, 7.5), holds(2, P.LEAVING, 4)]
    assert plan_of(orders, known, ROOMY).waiting == {
        B: "jobs 1, 3 are leaving host memory: 11.5 of 16.0 GiB are in use, and 8.0 GiB are needed"
    }
    assert plan_of(orders, known[:1], replace(ROOMY, memory_gib=12.0)).waiting[B] == (
        "job 1 is leaving host memory: 7.5 of 12.0 GiB are in use, and 8.0 GiB are needed"
    )


many = replace(ROOMY, devices=dict.fromkeys(range(8), ""))
gibs = st.sampled_from([0.0, 1.0, 4.0, 6.0, 12.0])
wishes = st.sampled_from([W.RUN, W.SUSPEND, W.LEAVE, W.STOP, W.KILL])


@given(st.lists(st.tuples(st.sampled_from(PartPhase), wishes, gibs), max_size=4), st.lists(gibs, max_size=4))
def test_memory_is_waited_for_while_it_is_on_its_way_and_no_longer(
    parts: list[tuple[PartPhase, Wanted, float]], new: list[float]
) -> None:
    """What begins fits, or nobody is on the way out; what waits does not fit, and somebody is."""
    known = [holds(row, phase, gib) for row, (phase, _, gib) in enumerate(parts)]
    orders = [order(row, wanted, str(row), memory_gib=gib) for row, (_, wanted, gib) in enumerate(parts)]
    orders += [run(row, gib) for row, gib in enumerate(new, start=len(parts))]
    plan = plan_of(orders, known, many)
    sent = {action.key for action in plan.actions if action.do in SENT_AWAY}
    live = [one for one in known if one.live]
    begun = [one for one in orders if f"start {one.row}.1" in said(plan)]
    resumed = [one for one in orders if f"resume {one.row}.1" in said(plan)]
    used_gib = sum(one.memory_gib for one in [*live, *begun])
    going = [one for one in live if one.memory_gib and (one.phase in ON_THE_WAY_OUT or one.key in sent)]
    assert not any(one.memory_gib for one in begun + resumed) or not going or used_gib <= 16.0
    for key in plan.waiting.keys() - {one.key for one in known}:
        assert going
        assert used_gib + orders[key[0]].memory_gib > 16.0
    later = [replace(one, phase=P.GONE) if one in going else one for one in known]
    assert not [why for why in plan_of(orders, later, many).waiting.values() if "memory" in why]


# -- real processes --------------------------------------------------------------------------------


def stubborn(go: Path) -> list[str]:
    """A command that SIGTERM does not end, but the file `go` does."""
    return ["sh", "-c", f"trap '' TERM; echo ready; until [ -e '{go}' ]; do sleep 0.02; done; exit 85"]


def test_a_start_waits_for_one_that_is_put_out_also_under_the_next_agent(
    home: Path, tmp_path: Path, controller: StandInController
) -> None:
    """Suspended, told to leave and deaf: its slot is free, its memory is not."""
    most_of_it, log = 0.6 * machine_memory_gib(), home / "attempts" / "0" / "1" / "logs" / "rank-0.log"
    with agent_at(home, controller):
        first = part(0, run=stubborn(tmp_path / "go"), grace_s=600.0, memory_gib=most_of_it)
        controller.order(first)
        controller.status(A, PartStatus.RUNNING)
        controller.until(lambda: log.exists() and "ready" in log.read_text())
        controller.change(A, Wanted.SUSPEND)
        controller.status(A, PartStatus.SUSPENDED)
        with controller.changed:
            controller.change(A, Wanted.LEAVE)
            controller.order(part(1, devices=(1,), run=["sleep", "600"], memory_gib=most_of_it))
        assert controller.status(B, PartStatus.WAITING).why.startswith("job 1 is leaving host memory: ")
        controller.status(A, PartStatus.LEAVING)
        controller.order(part(2, devices=(0,), run=["true"]))  # states nothing, and takes the free slot
        controller.status(C, PartStatus.ENDED)
    controller.reports.clear()
    with agent_at(home, controller):
        assert controller.status(B, PartStatus.WAITING).why.startswith("job 1 is leaving host memory: ")
        (tmp_path / "go").touch()
        gone, begun = controller.status(A, *OVER), controller.status(B, PartStatus.RUNNING)
    assert gone.end is not None
    assert begun.started_s is not None
    assert gone.end.code == 85
    assert begun.started_s >= gone.end.ended_s


def test_what_one_was_seen_to_hold_counts_though_it_states_nothing(
    home: Path, tmp_path: Path, controller: StandInController
) -> None:
    """Under the next agent as well, from its first look on."""
    go = tmp_path / "go"
    with agent_at(home, controller):
        controller.order(part(0, run=stubborn(go), grace_s=600.0))
        controller.status(A, PartStatus.RUNNING)
        log = home / "attempts" / "0" / "1" / "logs" / "rank-0.log"
        controller.until(lambda: log.exists() and "ready" in log.read_text())
        controller.change(A, Wanted.STOP)
        controller.status(A, PartStatus.LEAVING)
    controller.order(part(1, devices=(1,), run=["true"], memory_gib=machine_memory_gib()))
    with agent_at(home, controller, usage_s=600.0):
        assert controller.status(B, PartStatus.WAITING).why.startswith("job 1 is leaving host memory: ")
        go.touch()
        controller.status(A, *OVER)
        controller.status(B, PartStatus.ENDED)
