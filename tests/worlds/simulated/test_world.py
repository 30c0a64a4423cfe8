"""The simulated world: exact moments, worked out by hand; and what holds for every run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from play import finishes, play, trace_of
from rota.errors import WorldError
from rota.knowledge.needs import Knowledge
from rota.model.cluster import parse_cluster
from rota.model.columns import Floats
from rota.model.grants import Grant, Leave, Role
from rota.model.jobs import Outcome, Truth
from rota.model.trace import Trace
from rota.reports.summary import summarise
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.costs import CostModel, Costs, parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import Arrivals, Finish, Restart, Semantics, semantics
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from rota.worlds.simulated.world import MOST_IN_VAIN
from scripted import Scripted

COSTS = Costs(
    start=CostModel(2.0),
    checkpoint=CostModel(1.0),
    restore=CostModel(3.0, per_gpu_s=0.5),
    migrate=CostModel(10.0),
)

GROWING = parse_costs("prepare=15s,migrate=2s")


def truth(trace: Trace, **columns: Any) -> Trace:
    """The same jobs with another truth beside their durations."""
    return replace(trace, truth=Truth.build(trace.truth.duration_s, **columns))


def turn(until_s: float | None = None, *grants: Grant, **decision: Any) -> dict[str, Any]:
    """A turn with `grants` that asks to be woken at `until_s`."""
    wake = Wake() if until_s is None else Wake(at_s=until_s)
    return {"grants": list(grants), "wake": wake, **decision}


class Case(NamedTuple):
    """A run whose moments a person can work out."""

    why: str
    policy: Any
    jobs: str | Trace
    finish: dict[str, float | None]
    setting: Setting = Setting()
    cluster: str = "1x4"
    slowdowns: Slowdowns | None = None


CASES = [
    Case("ties end in order", "fifo", "A 2x10 B 2x10 C 4x5", {"A": 10, "B": 10, "C": 15}),
    Case("zero duration ends at once", "fifo", "A 4x0@3 B 4x7@3", {"A": 3, "B": 10}),
    Case("too large for the cluster", "fifo", "A 5x3 B 1x2", {"A": 0, "B": 2}),
    Case(
        "first start costs 2 s", "fifo", "A 2x10", {"A": 12}, Setting(costs=COSTS),
    ),
    Case(
        # A runs 0-5 (2 s start, 3 s work), waits until B (2 + 1 s) is done at 8, pays 1 + 3 + 4 x 0.5.
        "a preempted job pays checkpoint and restore when it returns",
        "srtf", "A 4x10 B 4x1@5", {"A": 8 + 6 + 7, "B": 8}, Setting(costs=COSTS),
    ),
    Case(
        # From 4 s on: 1 + 3 + 0.5 restore, 10 migrate; 2 s of work were done.
        "a move pays both and the migration",
        Scripted(turn(4, Grant(0, (0,))), turn(None, Grant(0, (1,)))),
        "A 1x10", {"A": 4 + 14.5 + 8}, Setting(costs=COSTS),
    ),
    Case(
        "a move costs nothing where restarts are free",
        Scripted(turn(4, Grant(0, (0,))), turn(None, Grant(0, (1,)))),
        "A 1x10", {"A": 12}, Setting(costs=COSTS, semantics=Semantics(restart=Restart.NEVER)),
    ),
    Case(
        "nor for the same number of GPUs, if only a change of shape restarts",
        Scripted(turn(4, Grant(0, (0,))), turn(None, Grant(0, (1,)))),
        "A 1x10", {"A": 12}, Setting(costs=COSTS, semantics=Semantics(restart=Restart.SHAPE_CHANGE)),
    ),
    Case(
        # At 1 s the start has 1 s to go; sharing begins, the start goes on: 8 s of work remain at 2 s ...
        "a start under way goes on when only the share changes",
        Scripted(turn(1, Grant(0, (0,))), turn(None, Grant(0, (0,), 0.5, Role.PACKED))),
        "A 1x8", {"A": 2 + 16}, Setting(costs=COSTS),
    ),
    Case(
        "progress given up is done again",
        Scripted(
            turn(6, Grant(0, (0,))), turn(7, preempt=[0], leave=Leave.ABANDON), turn(None, Grant(0, (0,)))
        ),
        "A 1x10", {"A": 17},
    ),
    Case(
        "a checkpoint keeps it",
        Scripted(turn(6, Grant(0, (0,))), turn(7, preempt=[0]), turn(None, Grant(0, (0,)))),
        "A 1x10", {"A": 11},
    ),
    Case(
        # Half the share asked for, half the speed: 4 s of work in 8 s, then alone.
        "half a GPU is half as fast",
        Scripted(turn(8, Grant(0, (0,), 0.5, Role.PACKED)), turn(None, Grant(0, (0,)))),
        "A 1x10", {"A": 14},
    ),
    Case(
        # Both at 0.5 x 0.8 while together: B's 4 s of work take 10; A then has 6 left at its half share.
        "company slows both down",
        Scripted(turn(None, Grant(0, (0,), 0.5, Role.PACKED), Grant(1, (0,), 0.5, Role.PACKED))),
        "A 1x10 B 1x4", {"A": 10 + 6 / 0.5, "B": 10}, slowdowns=Slowdowns(colocation=0.8),
    ),
    Case(
        # Guaranteed A uses 3/4; opportunistic B gets 1/4 of the device, and all of it once A has gone at 4.
        "opportunistic jobs get what is left",
        Scripted(turn(None, Grant(0, (0,), 0.75, Role.GUARANTEED), Grant(1, (0,), 1.0, Role.OPPORTUNISTIC))),
        "A 1x3 B 1x5", {"A": 4, "B": 4 + (5 - 1)},
    ),
    Case(
        # A has first claim on all of the device, and B waits for it.
        "an opportunistic job beside a guaranteed one that claims all gets nothing",
        Scripted(turn(None, Grant(0, (0,), 1.0, Role.GUARANTEED), Grant(1, (0,), 1.0, Role.OPPORTUNISTIC))),
        "A 1x2000 B 1x400", {"A": 2000, "B": 2400},
    ),
    Case(
        # On four nodes instead of two it runs at 0.5.
        "a gang that is spread is slower",
        Scripted(turn(None, Grant(0, (0, 2, 4, 6)))),
        "A 4x10", {"A": 20}, cluster="4x2", slowdowns=Slowdowns(spread={"*": 0.5}),
    ),
    Case(
        # AFS-CoDDL, worked example 6: 15 s at the old rate, 2 s of pause, 13 s at twice the rate.
        "a job that grows works on while it prepares",
        Scripted(turn(1, Grant(0, (0,))), turn(None, Grant(0, (0, 1)))),
        trace_of("A 1x42", gpus_max=2), {"A": 1 + 15 + 2 + 13}, Setting(costs=GROWING),
    ),
    Case(
        # At 6 s it prepares for four instead of two: until 21, still at the rate of one, and pauses until 23.
        "what it prepared is given up when it is given yet more",
        Scripted(turn(1, Grant(0, (0,))), turn(6, Grant(0, (0, 1))), turn(None, Grant(0, (0, 1, 2, 3)))),
        trace_of("A 1x61", gpus_max=4), {"A": 23 + 10}, Setting(costs=GROWING),
    ),
    Case(
        "a job that gives devices back pauses at once",
        Scripted(turn(1, Grant(0, (0, 1))), turn(None, Grant(0, (0,)))),
        trace_of("A 2x10", gpus_min=1), {"A": 1 + 2 + 18}, Setting(costs=GROWING),
    ),
    Case(
        # Prepared at 16, as for four, and at work on two at 18.
        "what it prepared is kept when it is given less of it",
        Scripted(turn(1, Grant(0, (0,))), turn(6, Grant(0, (0, 1, 2, 3))), turn(None, Grant(0, (0, 1)))),
        trace_of("A 1x36", gpus_max=4), {"A": 18 + 10}, Setting(costs=GROWING),
    ),
    Case(
        "what it prepared and gives back before it is ready costs nothing",
        Scripted(turn(1, Grant(0, (0,))), turn(6, Grant(0, (0, 1))), turn(None, Grant(0, (0,)))),
        trace_of("A 1x20", gpus_max=2), {"A": 20}, Setting(costs=GROWING),
    ),
    Case(
        # Two from 18 on; at 17, while it pauses, it prepares for four: until 32, pauses until 34.
        "a job that pauses for one size ends that before it grows to the next",
        Scripted(turn(1, Grant(0, (0,))), turn(17, Grant(0, (0, 1))), turn(None, Grant(0, (0, 1, 2, 3)))),
        trace_of("A 1x64", gpus_max=4), {"A": 34 + (64 - 16 - 28) / 4}, Setting(costs=GROWING),
    ),
    Case(
        "a job that gives up its devices for others has nothing to go on with",
        Scripted(turn(1, Grant(0, (0,))), turn(None, Grant(0, (1, 2)))),
        trace_of("A 1x11", gpus_max=2), {"A": 1 + 17 + 5}, Setting(costs=GROWING),
    ),
    Case(
        # Elan, worked example 6, a hundred seconds earlier: 2 iterations a second for 20 s, then 4.
        "scale-out after twenty seconds, and a second's pause",
        Scripted(turn(0.5, Grant(0, (0, 1))), turn(None, Grant(0, (0, 1, 2, 3)))),
        trace_of("A 2x177", gpus_max=4), {"A": 0.5 + 20 + 1 + (177 - 20.5) / 2},
        Setting(costs=parse_costs("resize=elan,restore=40s")),
    ),
    Case(
        # Twice the GPUs for the second half.
        "an elastic job speeds up in proportion",
        Scripted(turn(5, Grant(0, (0, 1))), turn(None, Grant(0, (0, 1, 2, 3)))),
        trace_of("A 2x10", gpus_max=4), {"A": 7.5},
    ),
    Case(
        # Attempts of 3 and 4 s fail, the third does all 10.
        "failing attempts come before the one that counts",
        "fifo", truth(trace_of("A 4x10"), failures={0: (3.0, 4.0)}), {"A": 17},
    ),
    Case(
        "retries are limited", "fifo",
        truth(trace_of("A 4x10 B 4x1"), failures={0: (3.0, 4.0)}), {"A": 7, "B": 8}, Setting(retries=1),
    ),
    Case(
        "a job that will fail fails when its time has come", "fifo",
        truth(trace_of("A 4x10 B 4x1"), outcome=[Outcome.FAILED, Outcome.CANCELLED]), {"A": 10, "B": 11},
    ),
    Case(
        # Lost at 4 with 4 s done; back at 6; all work is kept.
        "a lost node stops its jobs until there is room", "fifo", "A 4x10", {"A": 12},
        Setting(faults=[Fault(0, 4.0, 6.0)]),
    ),
    Case(
        # 7 s done, checkpoints every 3: 1 s is lost; the other node takes over at once.
        "work since the last checkpoint is lost", "fifo", "A 2x10", {"A": 11},
        Setting(faults=[Fault(0, 7.0, 99.0)], costs=Costs(checkpoint_every_s=3.0)), "2x2",
    ),
    Case(
        "who is done at the moment of the loss has made it", "fifo", "A 4x10 B 4x5", {"A": 10, "B": 25},
        Setting(faults=[Fault(0, 10.0, 20.0)]),
    ),
    Case(
        "a loss for ever", "fifo", "A 2x10 B 2x10", {"A": 15, "B": 10},
        Setting(faults=[Fault(0, 5.0, float("inf"))]), "2x2",
    ),
    Case(
        "two losses of one node at a time are over when both are", "fifo", "A 4x10", {"A": 19},
        Setting(faults=[Fault(0, 1.0, 5.0), Fault(0, 3.0, 10.0)]),
    ),
    Case(
        "a loss of other nodes is none of its business", "fifo", "A 2x10", {"A": 10},
        Setting(faults=[Fault(1, 4.0, 6.0)]), "2x2",
    ),
    Case(
        "a dependent starts when the last it waits for ends", "fifo",
        trace_of("A 1x10 B 1x4 C 1x5@1", after={2: (0, 1)}), {"A": 10, "B": 4, "C": 15},
    ),
    Case(
        "arrivals and ends on whole seconds, rounded up", "fifo", "A 4x1.5@0.2 B 4x1@0.9",
        {"A": 3, "B": 4}, Setting(semantics=semantics("tiresias")),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.why)
def test_moments(case: Case) -> None:
    trace = trace_of(case.jobs) if isinstance(case.jobs, str) else case.jobs
    cluster, setting = parse_cluster(case.cluster), case.setting
    if case.slowdowns:
        setting = replace(setting, speed=FixedDuration(trace.jobs, cluster, case.slowdowns))
    record = play(copy.deepcopy(case.policy), trace, cluster, setting)
    assert finishes(record) == pytest.approx(case.finish, abs=1e-9)


def test_what_a_run_cost_is_in_its_record() -> None:
    """A is preempted by B: 2 s of start, then 6 s of checkpoint and restore; B starts for 2 s."""
    jobs = play("srtf", "A 4x10 B 4x1@5", "1x4", Setting(costs=COSTS)).jobs
    assert jobs["overhead_s"].to_list() == [8.0, 2.0]
    assert jobs["run_s"].to_list() == [18.0, 3.0]
    assert jobs["waiting_s"].to_list() == [3.0, 0.0]
    assert jobs["service_gpu_s"].to_list() == [72.0, 12.0]
    assert jobs["preemptions"].to_list() == [1, 0]
    assert jobs["starts"].to_list() == [2, 1]


def test_a_change_of_rate_is_no_overhead() -> None:
    """A slows down when B comes to its GPU at 100; it stood still for 2 s all the same."""
    trace, cluster = trace_of("A 1x200 B 1x10@100", gpu_share=0.5), parse_cluster("1x1")
    speed = FixedDuration(trace.jobs, cluster, Slowdowns(colocation=0.5))
    record = play("fifo", trace, cluster, Setting(speed=speed, costs=parse_costs("start=2s")))
    assert finishes(record) == {"A": 213, "B": 122}
    assert record.jobs["overhead_s"].to_list() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("jobs", "shares", "expected", "why"),
    [
        ("A 2x100 B 2x100", 0.5, {"A": 200.0, "B": 200.0}, "one neighbour on both devices"),
        ("A 2x100 B 1x100 C 1x100", 0.5, {"A": 200.0, "B": 200.0, "C": 200.0}, "one on each device"),
        ("A 2x100 B 1x100 C 1x100", 0.25, {"A": 400.0, "B": 400.0, "C": 400.0}, "both on the first device"),
    ],
)
def test_the_fullest_device_sets_the_pace_of_a_gang_of_parts(
    jobs: str, shares: float, expected: dict[str, float], why: str
) -> None:
    """Each neighbour on a device halves the rate there; those on other devices do not add to it."""
    trace, cluster = trace_of(jobs, gpu_share=shares), parse_cluster("1x2")
    speed = FixedDuration(trace.jobs, cluster, Slowdowns(colocation=0.5))
    assert finishes(play("fifo", trace, cluster, Setting(speed=speed))) == expected, why


def test_lost_work_is_in_the_record() -> None:
    faults = Setting(faults=[Fault(0, 7.0, 99.0)], costs=Costs(checkpoint_every_s=3.0))
    jobs = play("fifo", "A 2x10", "2x2", faults).jobs
    assert jobs["lost_s"].to_list() == [1.0]
    failing = truth(trace_of("A 4x10"), failures={0: (3.0, 4.0)})
    jobs = play("fifo", failing).jobs
    assert (jobs["lost_s"][0], jobs["failures"][0], jobs["starts"][0]) == (7.0, 2, 3)


def test_what_a_job_did_before_it_failed_for_good_is_not_lost() -> None:
    """Its first attempt is: the second did that work again.  Preempted in between, it keeps what it did."""
    failing = truth(
        trace_of("A 4x10 B 4x1@5"), failures={0: (3.0,)}, outcome=[Outcome.FAILED, Outcome.COMPLETED]
    )
    for policy in ("fifo", "srtf"):
        record = play(policy, failing)
        assert record.jobs["state"].to_list() == ["FAILED", "COMPLETED"]
        assert record.jobs["lost_s"].to_list() == [3.0, 0.0]
        assert summarise(record)["goodput"] == pytest.approx((13 * 4 + 4 - 3 * 4) / (13 * 4 + 4))


def test_a_preemption_may_add_more_work_than_was_done() -> None:
    """A has done 1 s of 10 when B comes; 5 s of saving and loading are added to the 9 that are left."""
    setting = Setting(costs=Costs(preempt=CostModel(5.0)))
    assert finishes(play("srtf", "A 4x10 B 4x1@1", "1x4", setting)) == {"A": 16, "B": 2}


def test_added_work_counts_in_orders_by_remaining_work() -> None:
    """After B, A has 14 s left and gives way to C with 12 of its own; start-up costs would not do that."""
    setting = Setting(costs=Costs(preempt=CostModel(5.0)))
    assert finishes(play("srtf", "A 4x10 B 4x1@1 C 4x12@2", "1x4", setting)) == {"A": 28, "B": 2, "C": 14}


class TwoRegimes:
    """Full speed for the first 0.3 s of work, a tenth of it from then on: 0.3 has no exact binary form."""

    def total(self, trace: Trace) -> Floats:
        return trace.truth.duration_s

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        return Pace(1.0, 0.3) if at.done < 0.3 else Pace(0.1)


@pytest.mark.parametrize("submit_s", [0.0, 0.1, 1e6 + 0.7])
def test_a_rate_changes_at_the_work_at_which_it_is_said_to(submit_s: float) -> None:
    trace = trace_of(f"A 1x1@{submit_s}")
    record = play("fifo", trace, "1x1", Setting(speed=TwoRegimes()))
    assert finishes(record)["A"] - submit_s == pytest.approx(0.3 + 0.7 / 0.1, abs=1e-6)


class Ramp:
    """Nothing for 25 s after the company changed, half speed for 50 s, then full speed."""

    def total(self, trace: Trace) -> Floats:
        return trace.truth.duration_s

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        for rate, seconds in ((0.0, 25.0), (0.5, 75.0)):
            if beside and at.now < at.company_s + seconds:
                return Pace(rate, until_s=at.company_s + seconds)
        return Pace(1.0)


@pytest.mark.parametrize("rounds_s", [None, 10.0])
@pytest.mark.parametrize("together", [False, True])
def test_a_rate_ends_at_a_moment(together: bool, rounds_s: float | None) -> None:
    """A, 100 s of work, alone, or with B, 30 s: nothing until 25, half speed until 75; B is done at 80.

    From then on A is alone and at full speed.  In rounds of 10 s nothing else happens inside one.
    """
    rules = (
        Semantics()
        if rounds_s is None
        else Semantics("rounds", arrivals=Arrivals.ROUND, finish=Finish.EPOCH, round_s=rounds_s)
    )
    grants = [Grant(0, (0,), 0.5, Role.PACKED), Grant(1, (0,), 0.5, Role.PACKED)][: 1 + together]
    record = play(
        Scripted(turn(None, *grants)),
        "A 1x100 B 1x30" if together else "A 1x100",
        "1x1",
        Setting(speed=Ramp(), semantics=rules),
    )
    assert finishes(record) == ({"A": 150, "B": 80} if together else {"A": 100})


class Backwards(Ramp):
    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        return Pace(1.0, until_s=at.now)


def test_a_rate_that_is_over_at_once_is_refused() -> None:
    """The run would never get on."""
    with pytest.raises(WorldError, match="the rate of job A end at 0 s, which is not after now"):
        play("fifo", "A 1x1", "1x1", Setting(speed=Backwards()))


class Restless:
    """Serves as `fifo` does, or nobody, and asks to be asked every minute."""

    needs: frozenset[Knowledge] = frozenset()

    def __init__(self, *, serves: bool) -> None:
        self.inner = parse_policy("fifo").make() if serves else None
        self.asked = 0

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.asked += 1
        decision = self.inner.decide(snapshot, memory) if self.inner else Decision(memory)
        decision.wake = Wake(at_s=snapshot.now + 60.0)
        return decision


@pytest.mark.parametrize("name", ["exact", "gavel", "elasticflow"])
def test_a_policy_that_never_starts_anybody_does_not_run_for_ever(name: str) -> None:
    policy = Restless(serves=False)
    record = play(policy, "A 1x10", "1x4", Setting(semantics=semantics(name)))
    assert record.jobs["state"].to_list() == ["PENDING"]
    assert MOST_IN_VAIN <= policy.asked <= MOST_IN_VAIN + 10


def test_a_policy_may_ask_in_vain_as_long_as_something_is_to_come() -> None:
    """The node comes back after more questions than a run bears with nothing to come."""
    late_s = 60.0 * (MOST_IN_VAIN + 5000)
    record = play(Restless(serves=True), "A 1x10", "1x1", Setting(faults=[Fault(0, 0.0, late_s)]))
    assert record.jobs["start_s"].to_list() == [late_s]
