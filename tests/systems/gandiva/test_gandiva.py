"""Gandiva: worked examples of its card, and what naive versions get wrong."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant
from rota.model.job_columns import AllowedCounts
from rota.model.record import Record
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from scripted import state_of


def stretches(record: Record, job: str) -> list[tuple[float, float, list[int], str]]:
    """What `job` held and when: start, end, nodes or devices, role."""
    rows = record.intervals.filter(pl.col("job_id") == job).sort("start_s")
    return list(rows.select("start_s", "end_s", "devices", "role").iter_rows())


def packed(record: Record) -> set[tuple[str, float, float]]:
    """Stretches in which somebody was beside."""
    rows = record.intervals.filter(pl.col("role") == "packed")
    return set(rows.select("job_id", "start_s", "end_s").iter_rows())


# -- turns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "switch_s", "expected"),
    [
        ("gandiva", 0.0, {"A": 420, "B": 240}),
        ("gandiva:switch=1", 1.0, {"A": 424, "B": 243}),
        ("fifo", 0.0, {"A": 300, "B": 420}),
    ],
)
def test_two_jobs_on_one_gpu(policy: str, switch_s: float, expected: dict[str, float]) -> None:
    """Example 1: turns of 60 s; a switch is paid whenever the GPU goes to another job than the last."""
    setting = Setting(costs=Costs(switch=CostModel(switch_s)))
    assert finishes(play(policy, "A 1x300 B 1x120", "1x1", setting)) == expected


def test_everybody_gets_early_feedback() -> None:
    """Example 2: of eight trials on one GPU the k-th starts at 60 (k - 1), under FIFO at 600 (k - 1)."""
    trials = " ".join(f"J{k} 1x600" for k in range(8))
    assert list(starts(play("gandiva", trials, "1x1")).values()) == [60.0 * k for k in range(8)]
    assert max(starts(play("fifo", trials, "1x1")).values()) == 4200


def test_gangs_take_turns_whole_and_fill_the_server() -> None:
    """Example 7: three jobs of 2 GPUs on 4 run as AB, CA, BC; no GPU is idle."""
    record = play("gandiva", "A 2x120 B 2x120 C 2x120", "1x4")
    assert finishes(record) == {"A": 120, "B": 180, "C": 180}
    assert [stretch[:2] for stretch in stretches(record, "B")] == [(0, 60), (120, 180)]
    assert all(len(stretch[2]) == 2 for job in "ABC" for stretch in stretches(record, job))


def test_a_completion_starts_the_next_turn_at_once() -> None:
    """A ends after 20 of 60 s; B does not wait for the rest of the turn."""
    assert starts(play("gandiva", "A 1x20 B 1x300 C 1x300", "1x1")) == {"A": 0, "B": 20, "C": 80}


def test_a_newcomer_does_not_cut_the_turn_short() -> None:
    """C arrives in B's turn, which lasts to 120, and stands behind it: A and B come first."""
    record = play("gandiva", "A 1x300 B 1x300 C 1x300@70", "1x1")
    assert starts(record)["C"] == 240
    assert stretches(record, "B")[0][:2] == (60, 120)


def test_a_job_of_several_servers_waits_until_they_are_empty() -> None:
    """Rule 6: nobody is crowded out for it, and it gets whole servers."""
    record = play("gandiva", "A 1x50 B 8x10", "2x4")
    assert starts(record) == {"A": 0, "B": 50}


def test_turns_of_several_servers_end_together() -> None:
    """A server that is crowded later ends its first turn with one under way, from half a quantum on."""
    jobs = "A 1x900 B 1x900 C 1x900 D 1x900@10"
    record = play("gandiva:migration=no", jobs, "2x1")
    moments = sorted({start for job in "ABCD" for start, *_ in stretches(record, job)})
    assert all(moment % 60 == 0 for moment in moments), moments


def test_a_turn_is_no_shorter_than_half_a_quantum_for_the_sake_of_another_server() -> None:
    """C, who came at 40 to the second server, would have 20 s until the turns of the first end: it has 60."""
    record = play("gandiva:migration=no", "A 1x900 B 1x30 C 1x900 D 1x900@40", "2x1")
    ends = {round(end - start, 6) for job in "ACD" for start, end, *_ in stretches(record, job)}
    assert min(ends) >= 30


# -- packing -------------------------------------------------------------------------------------------

USE = {"a": 0.30, "b": 0.40, "c": 0.85}
GOOD = {("a", "b"): (0.80, 0.75)}
BAD = {("a", "b"): (0.55, 0.40), ("a", "c"): (0.70, 0.60), ("b", "c"): (0.50, 0.50)}


def trio(memory_gib: Sequence[float] = (4.0, 5.0, 8.0), seconds: float = 600) -> Trace:
    """Three jobs of one GPU that run the programs a, b and c."""
    text = f"A 1x{seconds} B 1x{seconds} C 1x{seconds}"
    return trace_of(text, gpu_memory_gib=memory_gib, workload=(0, 1, 2), workload_names=("a", "b", "c"))


def share(trace: Trace, pairs: dict[tuple[str, str], tuple[float, float]], gpus: int = 2) -> Record:
    """`trace` on one server of `gpus` GPUs with 16 GiB each, where `pairs` share as measured."""
    cluster = Cluster.build([NodeShape(count=1, gpus=gpus, gpu_memory_gib=16.0)])
    slowdowns = Slowdowns(company=Interference(pairs=pairs, utilisation=USE))
    speed = FixedDuration(trace.jobs, cluster, slowdowns)
    return play("gandiva", trace, cluster, Setting(speed=speed))


def test_a_pair_that_does_more_than_in_turns_stays_together() -> None:
    """Example 4: .80 + .75 > 1; two running sets fill two GPUs, so the third job is left alone.

    A and B run alone until 60, then together until C, which starts at 60, ends at 660 and leaves its GPU.
    """
    record = share(trio(), GOOD)
    assert finishes(record) == pytest.approx({"A": 660 + 60, "B": 660 + 90, "C": 660})
    assert {stretch[0] for stretch in stretches(record, "A") if stretch[3] == "packed"} == {60}
    assert {role for *_, role in stretches(record, "C")} == {"alone"}


def test_a_pair_that_does_less_than_in_turns_is_parted_and_the_next_one_tried() -> None:
    """Example 4: .55 + .40 < 1 although the GPU is busier; A goes on beside C, .70 + .60 > 1.

    C has not run alone before 60, so that there is nothing to compare with until then.
    """
    record = share(trio(), BAD)
    beside_b = [stretch for stretch in stretches(record, "B") if stretch[3] == "packed"]
    assert [stretch[:2] for stretch in beside_b] == [(60, 120)]
    assert min(start for job, start, _ in packed(record) if job == "C") == 120
    assert finishes(record)["B"] == pytest.approx(60 + 60 + (540 - 0.4 * 60))


def test_memory_decides_before_anything_is_tried() -> None:
    """Example 4: 4 + 13 and 5 + 13 of 16 GiB do not fit; after the first trial there are only turns."""
    record = share(trio((4.0, 5.0, 13.0)), BAD)
    assert packed(record) == {("A", 60, 120), ("B", 60, 120)}


@pytest.mark.parametrize(
    ("asked_gib", "shares", "why"),
    [
        (7.2, True, "14.4 and a tenth of it are within 16"),
        (7.3, False, "14.6 and a tenth of it are not"),
        (8.0, False, "two peaks at once leave nothing"),
    ],
)
def test_a_tenth_of_the_memory_is_left_free(asked_gib: float, shares: bool, why: str) -> None:
    """GPUs of 16 GiB; the third job asks for too much to be tried."""
    assert bool(packed(share(trio((asked_gib, asked_gib, 16.0)), GOOD))) == shares, why


class Fading(FixedDuration):
    """Two jobs on one GPU do .8 each of what they do alone, and .1 once they have done 1,000 s of work."""

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        if not beside:
            return super().pace(row, grant, beside, at)
        return Pace(0.8, until_work=1000.0) if at.done < 1000.0 else Pace(0.1)


def test_a_kept_pair_parts_when_it_does_less_than_in_turns() -> None:
    """.1 + .1 after 1,000 s of work: the pair is parted at the next look and not tried again."""
    cluster = Cluster.build([NodeShape(count=1, gpus=2)])
    trace = trace_of("A 1x9000 B 1x9000 C 1x9000", workload=(0, 1, 2), workload_names=("a", "b", "c"))
    speed = Fading(trace.jobs, cluster, Slowdowns(company=Interference(pairs={}, utilisation=USE)))
    record = play("gandiva", trace, cluster, Setting(speed=speed))
    together = sorted((start, end) for job, start, end in packed(record) if job == "A")
    assert together[0][0] == 60
    slow_from = 60 + (1000 - 60) / 0.8
    assert slow_from <= max(end for _, end in together) <= slow_from + 120
    assert max(finishes(record).values()) < 14_000, "in turns three jobs of 9,000 s take 13,500 s on two GPUs"


def test_nobody_is_packed_while_gpus_are_free() -> None:
    assert not packed(share(trio(), GOOD, gpus=3))


def test_a_pair_parts_when_a_gpu_falls_free() -> None:
    """C is done at 160; from then on A and B have a GPU each."""
    trace = trace_of("A 1x600 B 1x600 C 1x100", workload=(0, 1, 2), workload_names=("a", "b", "c"))
    record = share(trace, GOOD)
    assert {end for _, _, end in packed(record)} == {160}
    assert finishes(record) == pytest.approx({"A": 60 + 100 + 460, "B": 60 + 100 + 465, "C": 160})


def test_a_job_that_keeps_its_gpu_busy_is_not_tried() -> None:
    """Where nobody says what jobs leave of a GPU, they leave nothing."""
    assert not packed(play("gandiva", "A 1x600 B 1x600 C 1x600", "1x2"))


# -- migration -----------------------------------------------------------------------------------------


def test_a_nearly_empty_server_is_cleared_when_somebody_leaves() -> None:
    """Example 5: E is alone on the second server; once A has ended it moves, and the 4-GPU job starts."""
    jobs = "A 1x100 B 1x900 C 1x900 D 1x900 E 1x900 F 2x900 G 4x50@200"
    record = play("gandiva", jobs, "3x4")
    assert [stretch[:3] for stretch in stretches(record, "E")] == [(0, 100, [4]), (100, 900, [0])]
    assert starts(record)["G"] == 200
    assert starts(play("gandiva:migration=no", jobs, "3x4"))["G"] == 900


def test_a_job_that_takes_turns_moves_to_a_gpu_that_falls_free() -> None:
    """A and B share the first GPU; when C's falls free at 100, A, who waits for its turn, gets it."""
    record = play("gandiva", "A 1x300 C 1x100 B 1x300@10", "2x1")
    assert finishes(record) == {"A": 330, "B": 370, "C": 100}
    assert [stretch[:3] for stretch in stretches(record, "A")] == [(0, 70, [0]), (100, 330, [1])]


class Uneven(FixedDuration):
    """The second node is half as fast."""

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        pace = super().pace(row, grant, beside, at)
        return pace._replace(rate=pace.rate * (0.5 if grant.devices[0] in range(4, 8) else 1.0))


@pytest.mark.parametrize("gpus", [1, 4])
def test_gangs_that_take_turns_on_several_servers_move_to_servers_that_fall_empty(gpus: int) -> None:
    """A and B need two servers each, and two are free once C and D have ended: nobody waits any more."""
    jobs = f"C {gpus}x50 D {gpus}x50 A {2 * gpus}x1000@1 B {2 * gpus}x1000@2"
    record = play("gandiva", jobs, f"4x{gpus}")
    assert finishes(record) == {"C": 50.0, "D": 50.0, "A": 1001.0, "B": 1050.0}


def test_a_move_that_made_a_job_slower_is_undone_once() -> None:
    """E moves from server 2 to server 1, which is slower, goes back after a look, and stays."""
    cluster = Cluster.build([NodeShape(count=3, gpus=4)])
    # A to D fill the first server, F to H three quarters of the second, E lands on the third.
    trace = trace_of("A 2x900 B 2x900 F 1x900 G 1x900 H 1x900 X 1x100 E 1x900 Y 1x200")
    record = play("gandiva", trace, cluster, Setting(speed=Uneven(trace.jobs, cluster)))
    nodes = [stretch[2][0] // 4 for stretch in stretches(record, "E")]
    assert nodes == [2, 1, 2]
    there = stretches(record, "E")[1]
    assert there[1] - there[0] == 60


# -- growing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "expected"),
    [(AllowedCounts.ANY, [2, 4, 3]), (AllowedCounts.POWERS_OF_TWO, [2, 4, 2])],
)
def test_idle_gpus_go_to_elastic_jobs_until_somebody_needs_them(
    counts: AllowedCounts, expected: list[int]
) -> None:
    """Example 6: 2 GPUs grow to 4 after 60 s; a newcomer starts at once on what it needs of them."""
    trace = trace_of("A 2x500 B 1x900@100", gpus_max=(4, 1), counts=int(counts))
    record = play("gandiva", trace, "1x4")
    assert [len(stretch[2]) for stretch in stretches(record, "A")][:3] == expected
    assert stretches(record, "A")[1][0] == 60
    assert starts(record)["B"] == 100


def test_nobody_grows_at_every_event() -> None:
    """GPUs must have been idle for a while: arrivals every 50 s leave no such while."""
    text = "A 2x500 " + " ".join(f"J{k} 1x10@{50 * k}" for k in range(1, 6))
    record = play("gandiva", trace_of(text, gpus_max=(4, 1, 1, 1, 1, 1)), "1x4")
    assert stretches(record, "A")[0][1] == 250 + 10 + 60


# -- whole workloads -----------------------------------------------------------------------------------


def test_feedback_is_early_and_little_is_lost() -> None:
    """Twice as many jobs as GPUs: first starts are soon, and the last end is hardly later than FIFO's."""
    text = " ".join(f"J{k} {1 + k % 2}x{600 + 90 * k}" for k in range(16))
    ours, fifo = play("gandiva", text, "2x4"), play("fifo:skip=yes", text, "2x4")
    assert sum(starts(ours).values()) < sum(starts(fifo).values()) / 5
    assert max(finishes(ours).values()) < 1.25 * max(finishes(fifo).values())


@pytest.mark.parametrize("option", ["quantum=0", "switch=-1", "defrag=0", "grow_after=inf"])
def test_senseless_parameters_are_refused(option: str) -> None:
    with pytest.raises(InputError, match=option.partition("=")[0]):
        parse_policy(f"gandiva:{option}")


def test_nodes_that_join_later_are_homes_too() -> None:
    """Live, a cluster begins without nodes, and grows: the memory is of the one before."""
    policy = parse_policy("gandiva:packing=no").make()
    nothing = Cluster.build([NodeShape(count=1, gpus=0, names=("none",))])
    found = policy.decide(Snapshot(state_of("A 1x9 B 2x9", nothing)), {})
    assert list(found.grants) == []
    one = policy.decide(Snapshot(state_of("A 1x9 B 2x9", "1x2")), found.memory)
    assert [grant.job for grant in one.grants] == [0]  # B finds no place beside A
    running = [Grant(0, (0,))]
    two = policy.decide(Snapshot(state_of("A 1x9 B 2x9", "2x2", running, 1.0)), one.memory)
    assert [(grant.job, grant.devices) for grant in two.grants] == [(1, (2, 3))]
    assert list(two.preempt) == []


@pytest.mark.parametrize(("memory_gib", "most"), [(16.0, 4), (48.0, 2), (100.0, 1)])
def test_nobody_grows_beyond_the_memory_of_its_node(memory_gib: float, most: int) -> None:
    """What a job asks of its node grows with its GPUs: it gets as many as that feeds."""
    cluster = Cluster.build([NodeShape(count=1, gpus=4, memory_gib=128.0)])
    record = play("gandiva", trace_of("A 1x600", gpus_max=[4], memory_gib=[memory_gib]), cluster)
    assert max(len(devices) for _, _, devices, _ in stretches(record, "A")) == most
