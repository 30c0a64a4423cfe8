"""Two systems to come, in short: what they need of the interface is there, in public.

A Pollux that hands out GPUs by goodput one by one every minute and names the best batch for each, and a
Synergy that gives each job of any policy the CPU cores and memory with which it is as fast as it can be.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.knowledge.goodput import (
    BatchLimits,
    GoodputProfile,
    GoodputTable,
    Noise,
    StepFit,
    TrainingPhase,
    profiles_of,
)
from rota.knowledge.hosts import build_hosts, speeds_of
from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Lever, parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.stages.nested import Nested
from rota.stages.resize import carry_out
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import PRESETS
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from rota.worlds.simulated.speed_goodput import GoodputSpeed

# -- Pollux ----------------------------------------------------------------------------------------


class LittlePollux:
    """GPUs go to the job that gains most by one more; who restores its work keeps what it has."""

    needs = frozenset({Knowledge.GOODPUT})
    levers = frozenset({Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE})

    def __init__(self, period_s: float = 60.0) -> None:
        self.period_s = period_s

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        jobs = snapshot.jobs
        live = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        pinned = live[jobs.ready_s(live) > snapshot.now]
        free = snapshot.cluster.gpus - sum(len(snapshot.grants[row].devices) for row in pinned.tolist())
        rows = np.setdiff1d(live, pinned).tolist()
        curves = {row: self._curve(snapshot, row) for row in rows}
        shares = dict.fromkeys(rows, 0)
        for _ in range(free):
            gains = {row: self._gain(curves[row], shares[row]) for row in rows}
            best = max(gains, key=lambda row: (gains[row], -row), default=None)
            if best is None or gains[best] <= 0.0:
                break
            shares[best] += 1
        grants, preempt = carry_out(snapshot, shares)
        placed = {grant.job: grant for grant in grants}
        kept = {row: snapshot.grants[row] for row in rows if row in snapshot.grants and row not in preempt}
        chosen = [self._with_batch(snapshot, grant) for grant in (kept | placed).values()]
        return Decision(memory, chosen, preempt, wake=Wake(snapshot.now + self.period_s, Event.NONE))

    def _profile(self, snapshot: Snapshot, row: int) -> tuple[GoodputProfile, Noise]:
        """What is known of a job, and the statistics of its gradient at its progress."""
        told = snapshot.know(Knowledge.GOODPUT)
        profile = profiles_of(told, snapshot.cluster.type_names)[told.by_row["class"].item(row)]
        done = snapshot.jobs.work_done(row)
        phase = next((phase for phase in profile.phases if done < phase.until), profile.phases[-1])
        return profile, phase.noise

    def _curve(self, snapshot: Snapshot, row: int) -> list[float]:
        """Speed-up by number of GPUs, 0 where it cannot run."""
        profile, noise = self._profile(snapshot, row)
        fit = profile.fit_on(snapshot.cluster.type_names[0])
        assert fit is not None
        sizes = range(1, snapshot.cluster.gpus + 1)
        best = [profile.best(fit, noise, 1, gpus) for gpus in sizes]
        goodputs = [0.0, *(0.0 if one is None else one[1] for one in best)]
        return [goodput / goodputs[1] for goodput in goodputs]

    @staticmethod
    def _gain(curve: list[float], share: int) -> float:
        """What one more GPU adds to the logarithm of the speed-up: a power mean near p = 0."""
        if share + 1 >= len(curve):
            return 0.0
        now, more = curve[share], curve[share + 1]
        return math.inf if not now else math.log(more / now)

    def _with_batch(self, snapshot: Snapshot, grant: Grant) -> Grant:
        profile, noise = self._profile(snapshot, grant.job)
        fit = profile.fit_on(snapshot.cluster.type_names[0])
        best = None if fit is None else profile.best(fit, noise, 1, len(grant.devices))
        return grant if best is None else grant._replace(batch_size=float(best[0].total(len(grant.devices))))


CLUSTER = parse_cluster("1x4:V100")
PROFILE = GoodputProfile(
    BatchLimits(64, 2048, 16, 256, accumulates=True),
    {"*": StepFit(0.05, 0.002, 0.10, 0.01, 0.03, 0.002, 2.0)},
    (TrainingPhase(60_000.0, Noise(1.0, 4.0)), TrainingPhase(math.inf, Noise(1.0, 60.0))),
)


def pollux_run(policy: object, text: str = "A 1x600 B 1x300@30 C 1x120@200"):
    trace = trace_of(text, gpus_min=1, gpus_max=4, workload=0, workload_names=("w",))
    speed = GoodputSpeed(trace, CLUSTER, GoodputTable({"w": PROFILE}))
    return play(policy, trace, CLUSTER, Setting(speed=speed, semantics=PRESETS["pollux"]))


def test_a_policy_that_chooses_batches_by_goodput() -> None:
    """All end sooner than on the GPU they asked for; batches change where the job is, and in the record."""
    record, fixed = pollux_run(LittlePollux()), pollux_run("fifo:skip=yes")
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 3
    assert max(finishes(record).values()) < max(finishes(fixed).values())
    first = record.intervals.filter(record.intervals["job_id"] == "A").sort("start_s")
    assert first["gpus"].max() == 4, "alone it has them all"
    assert first["batch_size"].null_count() == 0
    assert first["batch_size"].n_unique() > 1
    adjusted = first.filter(first["end"] == "adjusted")
    assert len(adjusted), "when the noise of its gradient grows so does its batch, on the same GPUs"
    assert (first["start_s"] % 60.0 == 0.0).all(), "it is asked every minute"
    assert record.jobs["migrations"].sum() == 0


# -- Synergy ---------------------------------------------------------------------------------------


def synergy(inner: str) -> Nested:
    """`inner` places GPUs; each job gets the cores and memory that it can use, while its node has them."""

    def edit(snapshot: Snapshot, decision: Decision, own: Memory) -> Decision:
        told = snapshot.know(Knowledge.HOSTS)
        best = [speeds.best() for speeds in speeds_of(told)]
        cores = (snapshot.cluster.node_cpus - np.array(snapshot.occupancy.cpus_used)).tolist()
        grants = []
        for grant in decision.grants:
            number = told.by_row["class"].item(grant.job)
            node = int(snapshot.cluster.device_node[grant.devices[0]])
            if number >= 0:
                cpus, gib = (each * len(grant.devices) for each in best[number])
                grant = grant._replace(cpus=min(cpus, cores[node]), memory_gib=gib)
            cores[node] -= 0.0 if grant.cpus != grant.cpus else grant.cpus
            grants.append(grant)
        decision.grants = grants
        return decision

    return Nested(parse_policy(inner).make(), edit=edit, needs=frozenset({Knowledge.HOSTS}))


HOSTS = build_hosts(
    {("images", cpus, 8.0): speed for cpus, speed in ((1.0, 0.4), (3.0, 1.0), (5.0, 1.25))}
    | {("words", cpus, 8.0): 1.0 for cpus in (1.0, 3.0)}
)
SERVER = Cluster.build([NodeShape(count=1, gpus=4, cpus=12, memory_gib=64)])


@pytest.mark.parametrize(
    ("policy", "expected", "why"),
    [
        ("srtf", {"A": 300.0, "B": 400.0}, "3 cores each: in proportion to GPUs"),
        (synergy("srtf"), {"A": 240.0, "B": 400.0}, "the images get 5, the words need but 1"),
    ],
    ids=["proportional", "synergy"],
)
def test_a_wrapper_that_grants_cores_and_memory(policy: object, expected: dict[str, float], why: str) -> None:
    """A looks at images, B at words, one GPU each; rates follow what is granted, not what is asked for."""
    columns = {"workload": [0, 1], "workload_names": ("images", "words"), "cpus": 3.0, "memory_gib": 8.0}
    trace = trace_of("A 1x300 B 1x400", **columns)
    trace = replace(trace, truth=Truth.build([300.0, 400.0]))
    setting = Setting(speed=FixedDuration(trace.jobs, SERVER, Slowdowns(hosts=HOSTS)))
    record = play(policy, trace, SERVER, setting)
    assert finishes(record) == pytest.approx(expected), why
    granted = record.intervals.sort("job_id")["cpus"].to_list()
    assert granted == ([None, None] if policy == "srtf" else [5.0, 1.0])
