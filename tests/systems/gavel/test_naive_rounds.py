"""Whole runs of Gavel beside the plain rounds of `naive_rounds`: who ran where in each, and the ends."""

from __future__ import annotations

import random

import naive_gavel as naive
import numpy as np
import pytest
from naive_rounds import Job, Rounds

from play import play, trace_of
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import parse_cluster
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.systems.gavel.system import OBJECTIVES, GavelObjective
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import Arrivals, Finish, Semantics
from rota.worlds.simulated.speed_table import ThroughputSpeed
from tiers import first

ROUNDS = Semantics("full", arrivals=Arrivals.ROUND, finish=Finish.EPOCH, round_s=360.0)
TYPES = ("v100", "p100", "k80")


class Scene:
    """A dozen jobs on a few GPUs of some types, drawn from a seed."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.types = rng.randint(1, 3)
        nodes = [(rng.randint(1, 2), rng.choice([2, 4])) for _ in range(self.types)]
        self.cluster = parse_cluster(
            ",".join(f"{count}x{gpus}:{name}" for (count, gpus), name in zip(nodes, TYPES, strict=False))
        )
        self.capacity = [count * gpus for count, gpus in nodes]
        moments = sorted(rng.uniform(0, 6000) for _ in range(12))
        self.jobs = [
            Job(
                round(at, 1),
                rng.choice([1, 1, 2, 4]) if max(self.capacity) >= 4 else 1,
                rng.uniform(500, 9000),
                [rng.uniform(0.5, 4) for _ in range(self.types)],
            )
            for at in moments
        ]
        self.beside = {}
        for a, one in enumerate(self.jobs):
            for b in range(a + 1, len(self.jobs)):
                if one.gpus == self.jobs[b].gpus and rng.random() < 0.7:
                    self.beside[a, b] = [
                        [rate * rng.uniform(0.4, 1) for rate in self.jobs[m].rates] for m in (a, b)
                    ]

    def table(self):
        """What was measured: each job is a workload of its own."""
        alone = {
            (f"w{m}", TYPES[j], job.gpus): rate
            for m, job in enumerate(self.jobs)
            for j, rate in enumerate(job.rates)
        }
        pairs = {
            (TYPES[j], (f"w{a}", self.jobs[a].gpus), (f"w{b}", self.jobs[b].gpus)): (one[j], other[j])
            for (a, b), (one, other) in self.beside.items()
            for j in range(self.types)
        }
        return ThroughputTable.build(alone, pairs=pairs)

    def among(self, live):
        """The scene that the live jobs make."""
        places = {m: place for place, m in enumerate(live)}
        beside = {
            (places[a], places[b]): both
            for (a, b), both in self.beside.items()
            if a in places and b in places
        }
        jobs = [self.jobs[m] for m in live]
        return naive.Scene(
            [job.rates for job in jobs],
            [job.gpus for job in jobs],
            [float(gpus) for gpus in self.capacity],
            [1.0] * len(jobs),
            beside,
        )

    def record(self, policy):
        text = " ".join(f"J{m} {job.gpus}x1@{job.at_s}" for m, job in enumerate(self.jobs))
        names = tuple(f"w{m}" for m in range(len(self.jobs)))
        plain = trace_of(text, workload=range(len(self.jobs)), workload_names=names)
        steps = [job.steps for job in self.jobs]
        trace = Trace(plain.jobs, Truth.build(np.full(len(steps), np.nan), iterations=steps), "test", "test")
        speed = ThroughputSpeed(trace, self.cluster, self.table())
        return play(policy, trace, self.cluster, Setting(speed=speed, semantics=ROUNDS))

    def turns(self, record):
        """Begin of the round, job and type of each turn in a record."""
        kinds = self.cluster.device_type.tolist()
        turns = set()
        columns = record.intervals.select("job", "start_s", "end_s", "devices")
        for job, start, end, devices in columns.iter_rows():
            (kind,) = {kinds[device] for device in devices}
            at = start
            while at < end:
                turns.add((at, job, kind))
                at += 360.0
        return turns


def _one_type(live, runs, types):
    """All the time of each entry on the type that it has."""
    return {
        tuple(live[place] for place in entry): [float(j == kind) for j in range(types)]
        for entry, kind in runs.items()
    }


def assert_agree(scene, policy, fractions, fills=True):
    """Run both; every turn and every end is the same."""
    record = scene.record(policy)
    plain = Rounds(scene.jobs, scene.capacity, fractions, scene.beside, fills).replay()
    assert scene.turns(record) == {(at, m, kind) for at, entry, kind in plain.runs for m in entry}
    ends = dict(record.jobs.select("job", "finish_s").iter_rows())
    assert ends == pytest.approx(plain.done, abs=1e-6)


@pytest.mark.parametrize("seed", first(3, range(60)))
@pytest.mark.parametrize("pairs", [False, True])
def test_fifo(seed, pairs):
    scene = Scene(seed)

    def fractions(live, left):
        return _one_type(live, naive.fifo(scene.among(live), pairs), scene.types)

    assert_agree(scene, f"gavel:objective=fifo,pairs={'yes' if pairs else 'no'}", fractions, fills=False)


@pytest.mark.parametrize("seed", first(3, range(60)))
def test_shortest(seed):
    scene = Scene(seed)

    def fractions(live, left):
        runs = naive.shortest(scene.among(live), [left[m] for m in live])
        return _one_type(live, runs, scene.types)

    assert_agree(scene, "gavel:objective=shortest", fractions)


@pytest.mark.parametrize("objective", ["allox", "packing", "max_min", "hierarchy", "isolated"])
@pytest.mark.parametrize("seed", first(2, range(40)))
def test_given_fractions(objective, seed, monkeypatch):
    """The rounds alone: the fractions are those that our policy computed, which other tests check."""
    scene, told = Scene(seed), {}
    kind = GavelObjective(objective)
    ours = OBJECTIVES[kind]

    def noted(problem):
        shares = ours(problem)
        rows = problem.rows.tolist()
        told[tuple(rows)] = {
            (rows[one],) if other < 0 else (min(rows[one], rows[other]), max(rows[one], rows[other])): time
            for (one, other), time in zip(shares.members.tolist(), shares.fractions.tolist(), strict=True)
        }
        return shares

    monkeypatch.setitem(OBJECTIVES, kind, noted)
    assert_agree(scene, f"gavel:objective={objective}", lambda live, left: dict(told[tuple(live)]))
    assert told
