"""FIFO with EASY backfill: cases computed by hand, wrong estimates, and the promise to the first job."""

from __future__ import annotations

import math

import numpy as np
import pytest

from play import finishes, play, starts, trace_of
from rota.errors import InputError, PolicyError
from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.grants import Reservation
from rota.model.jobs import JobTable, Truth
from rota.model.record import Record
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.loop import Loop
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.world import SimulatedWorld
from tiers import first

EASY = "fifo:backfill=easy"
BY_USERS = Setting(knowledge={"duration": "user"})


@pytest.mark.parametrize(
    ("cluster", "jobs", "expected", "why"),
    [
        ("1x4", "A 2x10 B 4x10 C 2x10", {"B": 10, "C": 0}, "C is done when B can start"),
        ("1x4", "A 2x10 B 4x10 C 2x11", {"B": 10, "C": 20}, "C would delay B by a second"),
        ("1x4", "A 2x10 B 4x10 C 2x8@3", {"B": 10, "C": 20}, "C comes too late to be done in time"),
        ("1x8", "A 4x10 B 6x10 C 2x99 D 2x99", {"B": 10, "C": 0, "D": 20}, "2 GPUs to spare: C takes them"),
        ("1x8", "A 4x10 B 6x10 C 2x99 D 2x5", {"B": 10, "C": 0, "D": 0}, "D is short and needs no spare GPU"),
        ("1x8", "A 4x10 B 6x10 C 2x5 D 2x99", {"B": 10, "C": 0, "D": 0}, "C, short, leaves the spare to D"),
        ("1x8", "A 2x10 B 3x20 C 4x9 D 1x30 E 2x5", {"C": 10, "D": 0, "E": 0}, "D takes the one spare GPU"),
        ("1x4", "A 2x10 B 2x10 C 4x10 D 4x1", {"C": 10, "D": 20}, "nothing is free, nobody passes"),
        ("1x8", "A 2x10 B 2x10 C 8x5 D 4x10", {"C": 10, "D": 0}, "both ends at 10 count"),
        ("2x4", "A 3x10 B 3x20 C 4x9 D 1x30", {"C": 10, "D": 0}, "C may be spread: 5 free at 10, 1 to spare"),
    ],
)
def test_worked_examples(cluster: str, jobs: str, expected: dict[str, float], why: str) -> None:
    """Start times of small cases computed by hand."""
    assert starts(play(EASY, jobs, cluster)).items() >= expected.items(), why


@pytest.mark.parametrize(
    ("jobs", "limits", "expected", "why"),
    [
        ("A 2x10 B 4x10 C 2x15", (10, 10, 15), {"B": 10, "C": 20}, "right estimates: C may not pass"),
        ("A 2x10 B 4x10 C 2x15", (20, 10, 15), {"B": 15, "C": 0}, "A ends early: C, let in, delays B"),
        ("A 2x10 B 4x10 C 2x15", (10, 10, 10), {"B": 15, "C": 0}, "C claims to be short and is not"),
        ("A 2x10 B 4x10 C 2x3@6", (5, 10, 3), {"B": 10, "C": 20}, "A is overdue: nobody passes on hope"),
        ("A 2x10 B 3x10 C 1x9@6", (5, 10, 9), {"B": 10, "C": 6}, "A is overdue, but C uses the spare GPU"),
    ],
)
def test_wrong_estimates(jobs: str, limits: tuple[float, ...], expected: dict[str, float], why: str) -> None:
    """On the users' limits, which need not be right."""
    trace = trace_of(jobs, limit_s=limits)
    assert starts(play(EASY, trace, "1x4", BY_USERS)).items() >= expected.items(), why


def test_predictions_will_do() -> None:
    """Durations may come from a predictor: after A the group is known to take 10 s."""
    trace = trace_of("A 4x10 B 2x10@20 C 4x10@21 D 2x5@22", group=0, group_names=("g",))
    record = play(EASY, trace, "1x4", Setting(knowledge={"duration": "predicted"}))
    assert starts(record) == {"A": 0, "B": 20, "C": 30, "D": 40}, "D is predicted to end at 32, after 30"


def test_one_node_is_kept_whole() -> None:
    """The first job needs a node of its own: what runs long goes to the other one, what is short may stay."""
    record = play(f"{EASY},placement=one_node", "A 3x10 B 3x20 C 4x9 D 1x99 E 1x9", "2x4")
    assert starts(record) == {"A": 0, "B": 0, "C": 10, "D": 0, "E": 0}
    nodes = dict(zip(record.intervals["job_id"], record.intervals["nodes"].list.first(), strict=True))
    assert (nodes["C"], nodes["D"], nodes["E"]) == (0, 1, 0)


@pytest.mark.parametrize(
    ("b_cpus", "c_start", "why"),
    [(4, 0, "2 + 4 of 8 CPUs are in use when A has ended"), (8, 20, "B needs all 8 CPUs when A has ended")],
)
def test_cpus_are_promised_too(b_cpus: float, c_start: float, why: str) -> None:
    """A job that waits for CPUs is not delayed by one that would take them."""
    trace = trace_of("A 1x10 B 1x10 C 1x99", cpus=(6.0, b_cpus, 2.0))
    cluster = Cluster.build([NodeShape(1, 4, cpus=8.0)])
    assert starts(play(EASY, trace, cluster)) == {"A": 0, "B": 10, "C": c_start}, why


def test_quota_of_a_tenant() -> None:
    """A job that waits for its tenant's quota holds up nobody else's."""
    trace = trace_of("A 2x10 B 2x10 C 2x99", tenant=(0, 0, 1), tenant_names=("a", "b"))
    cluster = Cluster.build([NodeShape(1, 4)], Tenants.of(Tenant("a", 2.0, hard=True)))
    assert starts(play(EASY, trace, cluster)) == {"A": 0, "B": 10, "C": 0}


def test_fraction_of_a_device_is_promised() -> None:
    """A waits for 0.6 of a device: C, which is long, may not take its place; D, which is short, may."""
    jobs = JobTable.build("ABCD", submit_s=0.0, gpus=1, gpu_share=(0.5, 0.6, 0.5, 0.5))
    trace = Trace(jobs, Truth.build((10.0, 10.0, 99.0, 9.0)), source="test", format="test")
    assert starts(play(EASY, trace, "1x1")) == {"A": 0, "B": 10, "C": 20, "D": 0}


def test_free_devices_are_reserved() -> None:
    """The decision names the devices kept for the first job, and gives them up when it starts."""
    trace = trace_of("A 2x10 B 4x10 C 1x5 D 1x99")
    loop, _ = prepare(parse_policy(EASY).make(), trace, parse_cluster("1x4"), Setting())
    loop.step()
    (kept,) = loop.state.reservations
    assert (kept.job, len(kept.devices), kept.until_s) == (1, 1, 10.0), "C uses one of the two for 5 s"
    loop.step()
    (kept,) = loop.state.reservations
    assert (kept.job, len(kept.devices)) == (1, 2), "C has ended"
    loop.step()
    assert loop.state.reservations == ()
    assert 1 in loop.state.running


def test_a_reservation_outlives_a_failed_estimate() -> None:
    """Once A is overdue nobody knows how long B waits, and still its devices are kept."""
    trace = trace_of("A 2x10 B 4x10 C 2x3@6", limit_s=(5.0, 10.0, 3.0))
    loop, _ = prepare(parse_policy(EASY).make(), trace, parse_cluster("1x4"), BY_USERS)
    loop.step()
    loop.step()
    assert loop.state.now == 6.0
    assert loop.state.reservations == (Reservation(1, (2, 3), math.inf),)


def test_a_job_nothing_could_make_fit_holds_nobody_up() -> None:
    """With a node lost the first job cannot start whatever ends, so the others may."""
    setting = Setting(faults=(Fault(0, 0.5, 100.0),))
    record = play(EASY, "A 8x10@1 B 4x10@2", "2x4", setting)
    assert finishes(record)["B"] == 12


def test_needs_durations_only_if_asked() -> None:
    assert parse_policy("fifo").make().needs == frozenset()
    assert parse_policy(EASY).make().needs == {Knowledge.DURATION}
    with pytest.raises(InputError, match="expected no backfill"):
        parse_policy(f"{EASY},skip=yes").make()
    world = SimulatedWorld(trace_of("A 1x1"), parse_cluster("1x1"))
    with pytest.raises(PolicyError, match="needs duration"):
        Loop(world, parse_policy(EASY).make(), RunRecorder())


def _random_trace(rng: np.random.Generator) -> Trace:
    n = 40
    jobs = JobTable.build(
        [f"j{i}" for i in range(n)],
        submit_s=np.sort(rng.integers(0, 120, n)).astype(float),
        gpus=rng.choice([1, 1, 2, 3, 4, 8], n),
    )
    durations = np.where(rng.random(n) < 0.5, rng.integers(1, 30, n), rng.uniform(1.0, 60.0, n))
    return Trace(jobs, Truth.build(durations), source="random", format="test")


def _delayed(record: Record, gpus_of_cluster: int) -> list[int]:
    """Jobs that started later than what ran when they became first in the queue made necessary."""
    frame = record.jobs
    submit, start, finish = (frame[c].to_numpy() for c in ("submit_s", "start_s", "finish_s"))
    gpus, found = frame["gpus"].to_numpy(), []
    for row in range(len(frame)):
        first_s = max(submit[row], start[:row].max(initial=0.0))
        running = (start < first_s) & (finish > first_s) | (start == first_s) & (np.arange(len(frame)) < row)
        ends = sorted(zip(finish[running], gpus[running], strict=True))
        free, promised_s = gpus_of_cluster - gpus[running].sum(), first_s
        while free < gpus[row]:
            promised_s, released = ends.pop(0)
            free += released
        if start[row] > promised_s + 1e-6:
            found.append(row)
    return found


@pytest.mark.parametrize("placement", ["consolidate", "spread"])
@pytest.mark.parametrize("seed", first(8, range(25)))
def test_first_job_is_never_delayed(seed: int, placement: str) -> None:
    """With exact durations a job starts, once first, no later than strict FIFO would start it from there."""
    trace = _random_trace(np.random.default_rng(seed))
    easy = play(f"{EASY},placement={placement}", trace, "2x4")
    assert _delayed(easy, 8) == []
    strict = play("fifo", trace, "2x4")
    waited = (strict.jobs["start_s"] > strict.jobs["submit_s"]).to_numpy()
    head = int(np.argmax(waited))
    assert waited.any()
    assert easy.jobs["start_s"][head] == pytest.approx(strict.jobs["start_s"][head])
    assert (easy.jobs["start_s"] < strict.jobs["start_s"]).any(), "the case lets somebody pass"


def test_the_check_sees_a_delay() -> None:
    """The property above does fail for a policy that passes the first job by."""
    record = play("fifo:skip=yes", "A 4x10 B 8x10@1 C 4x20@2", "2x4")
    assert _delayed(record, 8) == [1]


@pytest.mark.parametrize("seed", range(10))
def test_both_paths_agree(seed: int) -> None:
    """Counting GPUs and trying placements start the same jobs at the same time."""
    trace = _random_trace(np.random.default_rng(100 + seed))
    roomy = Cluster.build([NodeShape(2, 4)], Tenants.of(Tenant("default", 8.0, hard=True)))
    assert starts(play(EASY, trace, "2x4")) == pytest.approx(starts(play(EASY, trace, roomy)))
