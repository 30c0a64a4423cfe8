"""What the jobs of a simulation bear, as words say it, and what they lose where they bear less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.grants import Can, Grant
from rota.scheduler.decision import Event, Wake
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.abilities import LATE, parse_can
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.semantics import semantics
from scripted import Scripted

WORDS = [
    # text                              can
    ("all", {"*": Can.ALL}),
    ("nothing", {"*": Can.NOTHING}),
    ("checkpoint+resize", {"*": Can.CHECKPOINT | Can.RESIZE}),
    ("all+late", {"*": Can.ALL | LATE}),
    ("suspend, vgg19=all, bert = batch+suspend", {
        "*": Can.SUSPEND, "vgg19": Can.ALL, "bert": Can.BATCH | Can.SUSPEND,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("text", "can"), WORDS)
def test_words(text: str, can: dict[str, Can]) -> None:
    assert parse_can(text) == can


WRONG = [
    ("fly", "'fly' is nothing that a job can do"),
    ("vgg19=", "'' is nothing that a job can do"),
    ("all,nothing", "says twice what * can"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_wrong_words(text: str, says: str) -> None:
    with pytest.raises(InputError, match="--can") as error:
        parse_can(text)
    assert says in str(error.value)


def turns(*grants: tuple[int, ...] | None) -> list[dict[str, Any]]:
    """Every ten seconds the job gets these devices, or none."""
    return [{"preempt": [0]} if one is None else {"grants": [Grant(0, one)]} for one in grants]


LOST = [
    # can                     what it gets     done   lost  why
    ("all", turns((0,), (1,)), 100.0, 0.0, "a checkpoint goes anywhere"),
    ("nothing", turns((0,), (1,)), 110.0, 10.0, "without one it begins anew"),
    ("suspend", turns((0,), (1,)), 110.0, 10.0, "what is suspended stays where it is"),
    ("suspend", turns((0,), None, (0,)), 110.0, 0.0, "and goes on there"),
    ("suspend", turns((0,), None, (4,)), 120.0, 10.0, "or begins anew on another node"),
    ("checkpoint", turns((0,), None, (4,)), 110.0, 0.0, "a checkpoint goes to another node"),
    ("nothing", turns((0,), None, (0,)), 120.0, 10.0, "stopped, it begins anew anywhere"),
    ("all", turns((0,), (0, 1)), 55.0, 0.0, "resized after a tenth"),
    ("checkpoint", turns((0,), (0, 1)), 60.0, 10.0, "it cannot go on on two"),
    ("checkpoint", turns((0,), None, (0, 1)), 70.0, 10.0, "nor after a wait"),
    ("checkpoint+resize", turns((0,), None, (0, 1)), 65.0, 0.0, "it can"),
]


@pytest.mark.parametrize(("can", "held", "done", "lost", "why"), LOST, ids=[row[-1] for row in LOST])
def test_what_is_lost(can: str, held: list[dict[str, Any]], done: float, lost: float, why: str) -> None:
    """A job of 100 s is granted something else every 10 s."""

    class Every10(Scripted):
        def decide(self, snapshot: Snapshot, memory: Any) -> Any:
            decision = super().decide(snapshot, memory)
            decision.wake.at_s = snapshot.now + 10.0 if self.turns else np.inf
            return decision

    trace = trace_of("A 1x100", gpus_min=1, gpus_max=2)
    record = play(Every10(*held), trace, "2x4", Setting(can=parse_can(can)))
    assert finishes(record) == {"A": done}, why
    assert record.jobs["lost_s"].to_list() == [lost], why


NODE_LOST = [
    # can           policy  jobs              ends                    why
    ("all", "fifo", "A 1x100", {"A": 102}, "it goes on from its checkpoint"),
    ("suspend", "fifo", "A 1x100", {"A": 112}, "what was in the memory of the node is gone"),
    ("nothing", "fifo", "A 1x100", {"A": 112}, "as is what was nowhere else"),
    ("all", "srtf", "A 1x100 B 1x5@8", {"A": 105 + 2, "B": 8 + 5 + 2}, "A waits with a checkpoint"),
    ("suspend", "srtf", "A 1x100 B 1x5@8", {"A": 12 + 5 + 100, "B": 12 + 5}, "A waited in that memory"),
]


@pytest.mark.parametrize(
    ("can", "policy", "jobs", "ends", "why"), NODE_LOST, ids=[row[-1] for row in NODE_LOST]
)
def test_what_is_lost_with_a_node(can: str, policy: str, jobs: str, ends: dict[str, float], why: str) -> None:
    """The only node is away from 10 to 12."""
    setting = Setting(can=parse_can(can), faults=[Fault(0, 10.0, 12.0)])
    record = play(policy, jobs, "1x1", setting)
    assert finishes(record) == ends, why
    worked_s = (record.intervals["end_s"] - record.intervals["start_s"]).sum()
    assert record.jobs["lost_s"].sum() == worked_s - record.jobs["duration_s"].sum()


@pytest.mark.parametrize(("can", "end"), [("checkpoint", 60.0), ("checkpoint+resize", 55.0)])
def test_who_cannot_resize_begins_anew_on_another_number_after_a_loss(can: str, end: float) -> None:
    """Ten seconds on one GPU; its node is lost, and it is given two of another."""
    turns = [{"grants": [Grant(0, devices)]} for devices in ((0,), (4, 5))]
    setting = Setting(can=parse_can(can), faults=[Fault(0, 10.0, 1e6)])
    record = play(Scripted(*turns), trace_of("A 1x100", gpus_min=1, gpus_max=2), "2x4", setting)
    assert finishes(record) == {"A": end}


def test_by_workload() -> None:
    trace = trace_of("A 1x1 B 1x1 C 1x1", workload=[0, 1, -1], workload_names=("bert", "vgg"))
    setting = Setting(can=parse_can("nothing,bert=suspend"))
    loop, _ = prepare(Scripted(), trace, parse_cluster("1x4"), setting)
    loop.step()
    assert loop.snapshot().jobs.can(np.arange(3)).tolist() == [Can.SUSPEND, 0, 0]


# -- programs that say it late ---------------------------------------------------------------------


def test_late_programs_are_counted_on_once_they_have_started() -> None:
    """B comes at 10 s while A imports its libraries on all GPUs, until 30 s: then AFS lets A shrink for B.

    One that never says that it can be resized is stopped for it when its first minute is over.
    """
    trace = trace_of("A 4x400 B 1x40@10", gpus_min=1, gpus_max=4)
    costs = parse_costs("start=30s,restore=30s")
    begins = {
        words: starts(play("afs", trace, "1x4", Setting(costs=costs, can=parse_can(words))))["B"]
        for words in ("all", "all+late", "suspend+late")
    }
    assert begins == {"all": 10.0, "all+late": 30.0, "suspend+late": 60.0}


def test_a_policy_that_waits_for_it_is_woken() -> None:
    trace = trace_of("A 1x100 B 1x100@5")
    policy = Scripted({"grants": [Grant(0, (0,))], "wake": Wake(on=Event.SAID)}, {})
    loop, _ = prepare(
        policy, trace, parse_cluster("1x4"),
        Setting(costs=parse_costs("start=30s"), can=parse_can("all+late")),
    )  # fmt: skip
    loop.run(99.0)
    assert [(seen.now, seen.cause) for seen in policy.seen[:2]] == [(0.0, Event.ARRIVAL), (30.0, Event.SAID)]
    assert policy.seen[-1].jobs.can(0) == Can.ALL


def test_who_is_stopped_before_it_has_spoken_is_late_again() -> None:
    """What it bears of suspensions is known all the while; it starts at 0 and at 20 s, each for 30 s."""
    trace = trace_of("A 1x100")
    at_10 = {"preempt": [0], "wake": Wake(20.0)}
    policy = Scripted({"grants": [Grant(0, (0,))], "wake": Wake(10.0)}, at_10, {"grants": [Grant(0, (0,))]})
    setting = Setting(costs=parse_costs("start=30s,restore=30s"), can=parse_can("suspend+checkpoint+late"))
    loop, _ = prepare(policy, trace, parse_cluster("1x4"), setting)
    loop.run(99.0)
    assert [seen.now for seen in policy.seen][:4] == [0.0, 10.0, 20.0, 50.0]
    assert policy.seen[3].cause == Event.SAID


def test_late_is_for_the_world_of_events() -> None:
    setting = Setting(can=parse_can("all+late"), semantics=semantics("pollux"))
    with pytest.raises(InputError, match="late programs are for the world of events"):
        play("fifo", "A 1x10", "1x4", setting)
