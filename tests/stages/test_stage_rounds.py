"""Turns in rounds: worked examples of systems/gavel.md, and the authors' `isolated` to the microsecond."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from play import play, trace_of
from rota.knowledge.needs import Knowledge
from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster import parse_cluster
from rota.stages.round_books import Shares, of_one_size
from rota.stages.rounds import Rounds, Turns
from rota.traces import read
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.semantics import PRESETS, Arrivals, Finish, Semantics
from rota.worlds.simulated.speed_table import ThroughputSpeed
from shared_data import needs_shared, reference

FULL_ROUNDS = Semantics("full", arrivals=Arrivals.ROUND, finish=Finish.EPOCH, round_s=360.0)


class ByFractions:
    """Carries out fractions given as a function."""

    needs = frozenset({Knowledge.THROUGHPUT})

    def __init__(self, fractions, turns=Turns()):  # noqa: B008
        self.inner = Rounds(fractions, turns)

    def decide(self, snapshot, memory):
        return self.inner.decide(snapshot, memory)


def _sequence(record, rounds):
    """Who ran in each round, on one GPU."""
    spans = record.intervals.select("job_id", "start_s", "end_s").rows()
    middle = [360.0 * k + 180.0 for k in range(rounds)]
    return "".join(next((job for job, start, end in spans if start < at < end), "-") for at in middle)


def _fixed(*fractions):
    column = np.array(fractions)[:, None]
    return lambda snapshot, demand, own: column[: len(demand.rows)]


# one GPU; jobs last a hundred rounds
@pytest.mark.parametrize(
    ("fractions", "sequence", "why"),
    [
        ((0.75, 0.25), "AABAAABA", "half a round is credited at the start; without it ABAAABAA"),
        ((0.5, 0.3, 0.2), "ABCAABACBA", "three jobs"),
    ],
)
def test_turns(fractions, sequence, why):
    jobs = " ".join(f"{name} 1x36000" for name in "ABC"[: len(fractions)])
    policy = ByFractions(_fixed(*fractions))
    record = play(policy, jobs, "1x1", Setting(semantics=FULL_ROUNDS, until_s=360.0 * len(sequence)))
    assert _sequence(record, len(sequence)) == sequence, why


def _halves(snapshot, demand, own):
    return np.full((len(demand.rows), 1), 1.0 / len(demand.rows))


def _quarters(snapshot, demand, own):
    return np.full((len(demand.rows), 2), 0.25)


def test_new_fractions_start_the_books_anew():
    """A ran ten rounds alone; when B comes they take turns, and B does not run ten rounds in a row."""
    setting = Setting(semantics=FULL_ROUNDS, until_s=360.0 * 16)
    record = play(ByFractions(_halves), "A 1x36000 B 1x36000@3600", "1x1", setting)
    assert _sequence(record, 16) in ("A" * 10 + "ABABAB", "A" * 10 + "BABABA")


def test_shares_with_all_pairs_of_one_size():
    """The pair that has a fraction keeps it, the other gets nothing; sizes 1, 2, 1, 1 make three pairs."""
    members = np.array([[0, -1], [1, -1], [2, -1], [3, -1], [2, 0]])
    shares = Shares(members, np.arange(5.0)[:, None]).with_pairs(of_one_size(np.array([1.0, 2, 1, 1])))
    assert shares.members.tolist() == [*members.tolist(), [0, 3], [2, 3]]
    assert shares.fractions.ravel().tolist() == [0, 1, 2, 3, 4, 0, 0]


def test_no_job_runs_on_two_types_at_once():
    """Each has a fraction on both types; every round each holds one of the two GPUs."""
    half = lambda snapshot, demand, own: np.full((len(demand.rows), 2), 0.5)  # noqa: E731
    setting = Setting(semantics=FULL_ROUNDS, until_s=3600.0)
    record = play(ByFractions(half), "A 1x36000 B 1x36000", "1x1:a,1x1:b", setting)
    assert record.jobs["service_gpu_s"].to_list() == [3600.0, 3600.0]


def test_idle_gpus_go_to_jobs_without_a_fraction():
    """All time is A's, but the second GPU is B's all the same."""
    record = play(ByFractions(_fixed(1.0, 0.0)), "A 1x720 B 1x720", "1x2", Setting(semantics=FULL_ROUNDS))
    assert record.jobs["finish_s"].to_list() == [720.0, 720.0]


@pytest.mark.parametrize(("reserve", "start"), [(False, 360.0), (True, 1800.0)])
def test_new_jobs_run_or_wait_for_the_next_fractions(reserve, start):
    """The authors keep a GPU idle for B until fractions are recomputed, here from 360 + 1,200 s on.

    The recomputation at time 0 does not count as one, so C makes another at 360.
    """
    turns = Turns(recompute_s=1200.0, reserve=reserve)
    jobs = "A 1x36000 C 1x36000@1 B 1x36000@400"
    setting = Setting(semantics=FULL_ROUNDS, until_s=3600.0)
    record = play(ByFractions(_halves, turns), jobs, "1x3", setting)
    starts = dict(zip(record.jobs["job_id"], record.jobs["start_s"], strict=True))
    assert starts["C"] == 360.0
    assert starts["B"] == (720.0 if not reserve else start)


def test_world_without_rounds_is_asked_every_round():
    """The policy keeps its own time: two jobs take turns of 360 s, and a lone one needs none."""
    record = play(ByFractions(_halves), "A 1x720 B 1x720", "1x1")
    assert sorted(record.jobs["finish_s"].to_list()) == [1080.0, 1440.0]


def test_impossible_job_does_not_keep_the_clock_running():
    """B asks for more GPUs than are left when a node is gone for good; the run ends soon after A."""
    setting = Setting(faults=(Fault(1, 0.0, math.inf),))
    record = play(ByFractions(_quarters), "A 1x720 B 2x720", "1x1:a,1x2:b", setting)
    assert record.jobs["finish_s"].to_list() == [720.0, None]
    assert record.decisions <= 5


def _isolated(snapshot, demand, own):
    """Time in proportion to the cluster split evenly among the jobs."""
    share = demand.capacity / (len(demand.rows) * demand.gpus[:, None])
    return share / np.maximum(1.0, share.sum(axis=1, keepdims=True))


@pytest.mark.soak
@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize(
    ("workload", "jobs", "cluster"),
    [
        ("gavel_physical_las", "gavel_phys_las", "8x1:v100,16x1:p100,24x1:k80"),
        ("gavel_gen_single_300", "gavel_cs300", "12x1:v100,12x1:p100,12x1:k80"),
    ],
)
def test_isolated_equals_the_authors_simulator(workload, jobs, cluster):
    """Every job of both workloads ends when it does there, to the precision of the published file."""
    folder = reference("gavel-pollux-sia")
    trace = read(folder / f"inputs/{workload}.csv.gz")
    where = parse_cluster(cluster)
    table = read_throughputs(folder / "inputs/gavel_simulation_throughputs.csv.gz")
    turns = Turns(recompute_s=1920.0, shuffle=True, reserve=True, by_work=True)
    setting = Setting(semantics=PRESETS["gavel"], speed=ThroughputSpeed(trace, where, table))
    record = run(ByFractions(_isolated, turns), trace, where, setting)
    theirs = pl.read_csv(folder / f"jobs/{jobs}.csv.gz")
    ours = record.jobs.select(
        pl.col("job_id").cast(pl.Int64), (pl.col("finish_s") - pl.col("submit_s")).alias("jct_s")
    ).join(theirs, on="job_id")
    assert len(ours) == len(trace)
    assert (ours["jct_s"] - ours["jct_isolated"]).abs().max() < 1e-5


def test_same_memory_same_decisions():
    """A fresh instance with the memory of the old one shuffles and serves as the old one would."""
    trace = trace_of("A 1x3600 B 1x3600 C 1x3600@400")
    setting = replace(Setting(), semantics=FULL_ROUNDS)

    class Fresh(ByFractions):
        def decide(self, snapshot, memory):
            return ByFractions(_isolated, Turns(shuffle=True)).decide(snapshot, memory)

    kept = play(ByFractions(_isolated, Turns(shuffle=True)), trace, "1x1:a,1x1:b", setting)
    fresh = play(Fresh(_isolated), trace, "1x1:a,1x1:b", setting)
    assert kept.intervals.equals(fresh.intervals)


def test_a_job_that_waits_for_new_fractions_gets_them_when_they_are_due():
    """B comes when A has gone, is asked about again 1,920 s after A's fractions, and starts although the
    difference of the two moments, 1,919.9999999999998 s, is less in floating point."""
    assert 128.2 + 1920.0 - 128.2 < 1920.0
    turns = Turns(recompute_s=1920.0, reserve=True)
    record = play(ByFractions(_halves, turns), "A 1x10@128.2 B 1x10@500", "1x1")
    assert record.jobs["start_s"].to_list() == [128.2, 128.2 + 1920.0]


def test_fractions_are_computed_anew_when_gpus_come_or_go():
    """Nobody comes or goes between 720 s, when a node is lost, and 3,600 s, when it is back."""
    seen = []

    def noting(snapshot, demand, own):
        seen.append((snapshot.now, demand.capacity.tolist()))
        return np.full((len(demand.rows), 1), 0.25)

    setting = Setting(faults=[Fault(1, 720.0, 3600.0)], until_s=5000.0)
    play(ByFractions(noting), "A 1x36000 B 1x36000 C 1x36000 D 1x36000", "2x2", setting)
    assert seen == [(0.0, [4.0]), (720.0, [2.0]), (3600.0, [4.0])]
