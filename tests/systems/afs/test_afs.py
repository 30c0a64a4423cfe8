"""AFS: completion times of the card, resizing, and what it never does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from filling_rules import fewest_first, largest_saving, shortest_first
from play import finishes, jcts, play, starts, trace_of
from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import ScalingCurves, curves_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.scheduler.decision import Decision, Wake
from rota.scheduler.policy import parse_policy
from rota.scheduler.reasons.running import explain_running
from rota.solvers.one_by_one import Filling
from rota.stages.resize import carry_out
from rota.table.state import Phase
from rota.testing import check_policy
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.speed_table import ScalingSpeed
from scripted import Scripted
from tiers import first

CURVES = ScalingCurves.build({"lin": {1: 1.0, 4: 4.0}, "con": {1: 1.0, 2: 1.6, 3: 2.0, 4: 2.2}})
NAMES = ("lin", "con")


def _trace(text: str, workloads: str, **columns):
    """Elastic jobs of 1 to 4 GPUs; a job's time on 1 GPU is its number of iterations."""
    codes = [NAMES.index(name) for name in workloads.split()]
    columns = {"gpus_min": 1, "gpus_max": 4, "workload": codes, "workload_names": NAMES, **columns}
    trace = trace_of(text, **columns)
    return replace(trace, truth=Truth.build(np.full(len(trace), np.nan), iterations=trace.truth.duration_s))


def _play(policy, trace, cluster="1x4"):
    where = parse_cluster(cluster)
    return play(policy, trace, where, Setting(speed=ScalingSpeed(trace, where, CURVES)))


class OneByOne:
    """Another rule with the filler and the placement of AFS."""

    needs = frozenset({Knowledge.SCALING, Knowledge.DURATION})

    def __init__(self, rule):
        self.rule = rule

    def decide(self, snapshot, memory):
        rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        left = snapshot.know(Knowledge.DURATION)[rows] - snapshot.jobs.work_done(rows)
        filling = Filling(
            curves_of(snapshot.know(Knowledge.SCALING), rows, 4).tolist(), [(1, 2, 3, 4)] * len(rows)
        )
        self.rule(filling, 4, left.tolist())
        grants, preempt = carry_out(snapshot, dict(zip(rows.tolist(), filling.share, strict=True)))
        return Decision(memory, grants, preempt)


OPTIMUS, SRTF, MAX_MIN = OneByOne(largest_saving), OneByOne(shortest_first), OneByOne(fewest_first)

# S has 20 iterations, L has 100; 4 GPUs, no overheads
MEANS = [
    # curves      policy   mean     why
    ("lin con", "afs", 27.879, "card 1"),
    ("lin con", OPTIMUS, 33.636, "card 1"),
    ("lin con", MAX_MIN, 29.091, "card 1"),
    ("lin con", SRTF, 27.727, "card 1"),
    ("con lin", "afs", 21.875, "card 2"),
    ("con lin", OPTIMUS, 25.0, "card 2"),
    ("con lin", SRTF, 21.591, "card 2"),
    ("con con", "afs", 30.682, "card 3: efficiency beats shortest first"),
    ("con con", SRTF, 31.818, "card 3"),
    ("con con", OPTIMUS, 33.636, "card 3"),
    ("lin lin", "afs", 20.0, "the apathetic assumption: shortest first would give 17.5"),
    ("lin lin", SRTF, 17.5, "the same"),
]


@pytest.mark.parametrize(("workloads", "policy", "mean", "why"), MEANS)
def test_mean_completion_time(workloads, policy, mean, why):
    record = _play(policy, _trace("S 1x20 L 1x100", workloads))
    assert np.mean(list(jcts(record).values())) == pytest.approx(mean, abs=5e-4), why


def test_completion_times_and_gpu_time_are_exact():
    """S runs 6.667 s on 3 GPUs; L 6.667 s on 1 and 42.424 s on 4."""
    record = _play("afs", _trace("S 1x20 L 1x100", "lin con"))
    assert finishes(record) == pytest.approx({"S": 20 / 3, "L": 20 / 3 + (100 - 20 / 3) / 2.2})
    gpu_s = dict(zip(record.jobs["job_id"], record.jobs["service_gpu_s"], strict=True))
    assert gpu_s == pytest.approx({"S": 20.0, "L": 20 / 3 + 4 * (100 - 20 / 3) / 2.2})
    assert record.jobs["resizes"].to_list() == [0, 1]
    assert _iterations(record, {"S": "lin", "L": "con"}) == pytest.approx({"S": 20.0, "L": 100.0})


def _iterations(record, workload_of):
    """Work of each job, recounted from the intervals of holding."""
    done: dict[str, float] = {}
    for job, start, end, gpus in record.intervals.select("job_id", "start_s", "end_s", "gpus").rows():
        rate = CURVES.rates[NAMES.index(workload_of[job]), gpus]
        done[job] = done.get(job, 0.0) + (end - start) * rate
    return done


@pytest.mark.parametrize("policy", ["afs", "afs:lengths=no", "afs:min_resize_s=0"])
def test_work_adds_up_on_a_busy_cluster(policy):
    """Thirty random jobs on two nodes: what the intervals hold is what each job had to do, no more."""
    rng = np.random.default_rng(7)
    works, submits = rng.integers(5, 200, 30), np.sort(rng.integers(0, 300, 30))
    names = [str(name) for name in rng.choice(NAMES, 30)]
    text = " ".join(f"J{i} 1x{w}@{s}" for i, (w, s) in enumerate(zip(works, submits, strict=True)))
    record = _play(policy, _trace(text, " ".join(names)), "2x4")
    done = _iterations(record, {f"J{i}": name for i, name in enumerate(names)})
    assert done == pytest.approx({f"J{i}": float(w) for i, w in enumerate(works)})
    held = (record.intervals["gpus"] * (record.intervals["end_s"] - record.intervals["start_s"])).sum()
    assert record.jobs["service_gpu_s"].sum() == pytest.approx(held)
    assert _most_at_once(record) <= 8


def _most_at_once(record):
    moves = pl.concat(
        [
            record.intervals.select(at="start_s", gpus=pl.col("gpus")),
            record.intervals.select(at="end_s", gpus=-pl.col("gpus")),
        ]
    ).sort("at", "gpus")
    return moves["gpus"].cum_sum().max()


def test_longest_job_waits_when_there_are_too_many():
    """Five jobs, four GPUs: four get one each, the longest starts when the first is done."""
    record = _play("afs", _trace("A 1x50 B 1x40 C 1x30 D 1x20 E 1x10", "lin lin lin lin lin"))
    assert record.jobs["start_s"].to_list() == [10, 0, 0, 0, 0]


def test_resized_job_is_not_grown_again_for_a_minute():
    """A shrinks for B at 10, B ends at 20; A takes the GPUs back at 70, or at once without the interval."""
    trace = _trace("A 1x1000 B 1x20@10", "lin lin")
    for policy, again in (("afs", 70.0), ("afs:min_resize_s=0", 20.0)):
        spans = _play(policy, trace).intervals.filter(pl.col("job_id") == "A").sort("start_s")
        assert spans["gpus"].to_list() == [4, 2, 4]
        assert spans["start_s"].to_list() == [0, 10, again]


def test_without_lengths_the_newcomer_leads():
    """AFS-P: B has received nothing, so it takes the part of the short job: 2 of 3 GPUs."""
    trace = _trace("A 1x1000 B 1x1000@100", "con con")
    record = _play("afs:lengths=no", trace, "1x3")
    first = record.intervals.filter(pl.col("job_id") == "B").sort("start_s")["gpus"][0]
    assert first == 2


def test_growing_job_moves_to_fewer_nodes():
    """A holds a GPU beside B; when C ends, node 1 is free and three GPUs fit there on one node."""
    trace = _trace("A 1x90 B 1x300 C 1x100", "lin con con", gpus_max=[3, 1, 2])
    record = _play("afs:min_resize_s=0", trace, "2x3")
    nodes = record.intervals.filter((pl.col("job_id") == "A") & (pl.col("gpus") == 3))["nodes"]
    assert [len(set(on)) for on in nodes.to_list()] == [1]


def test_rigid_and_elastic_jobs_together():
    """A gang of 3 gets its GPUs before the elastic job grows."""
    trace = _trace("A 1x100 B 3x40", "lin lin", gpus_min=[1, 3], gpus_max=[4, 3])
    record = _play("afs", trace)
    assert record.jobs["start_s"].to_list() == [0, 0]
    assert record.intervals.filter(pl.col("job_id") == "B")["gpus"].to_list() == [3]


def test_linear_by_default():
    """Without curves a job on four GPUs instead of one is four times as fast."""
    trace = trace_of("A 1x100", gpus_min=1, gpus_max=4)
    assert finishes(play("afs", trace, "1x4")) == {"A": 25}


STAYS = [
    # A can         held by A, B    why
    ("all", [2, 2], "A makes room for B"),
    ("suspend", [4, None], "A cannot go on on two, and B gains less"),
    ("nothing", [4, None], "A would lose its work"),
]


@pytest.mark.parametrize(("can", "held", "why"), STAYS, ids=[row[-1] for row in STAYS])
def test_who_would_lose_its_work_is_not_resized(can, held, why) -> None:
    """A alone on 4 GPUs from 0; at 10 B comes, which is as long as what is left of A."""
    trace = _trace("A 1x400 B 1x360@10", "lin lin")
    where = parse_cluster("1x4")
    setting = Setting(speed=ScalingSpeed(trace, where, CURVES), can=parse_can(can))
    loop, _ = prepare(parse_policy("afs").make(), trace, where, setting)
    loop.run(10.0)
    grants = loop.state.grants
    assert [len(grants[row].devices) if row in grants else None for row in (0, 1)] == held, why
    loop.run()
    assert set(loop.state.phase.tolist()) == {Phase.COMPLETED}


def _spans(record, job):
    """Start and number of GPUs of each interval of a job."""
    return record.intervals.filter(pl.col("job_id") == job).sort("start_s").select("start_s", "gpus").rows()


def test_a_resized_job_does_not_shrink_for_who_runs():
    """A shrinks for B at 10 and is left alone for a minute: not even C, which runs, gets a GPU of it."""
    trace = _trace("A 1x1000 B 1x20@10", "lin lin")
    spans = _spans(_play("afs", trace), "A")
    assert spans == [(0.0, 4), (10.0, 2), (70.0, 4)]


PAYS = [
    # cost  A's intervals                  why
    (0, [(0.0, 2), (20.0, 4)], "A has 80 left when B ends: 40 s on two GPUs, 20 s on four"),
    (19, [(0.0, 2), (20.0, 4)], "20 s are more than 19"),
    (21, [(0.0, 2)], "20 s are less than 21"),
]


@pytest.mark.parametrize(("cost_s", "spans", "why"), PAYS)
def test_a_resize_has_to_pay(cost_s, spans, why):
    trace = _trace("A 1x120 B 1x40", "lin lin")
    assert _spans(_play(f"afs:min_resize_s=0,resize_cost_s={cost_s}", trace), "A") == spans, why


def test_who_ends_soon_is_left_alone():
    """A has 5 s to go when B comes, less than a resize costs: it keeps its four GPUs, and B waits."""
    trace = _trace("A 1x100 B 1x100@20", "lin lin")
    assert starts(_play("afs:resize_cost_s=10", trace)) == {"A": 0, "B": 25}
    assert starts(_play("afs", trace)) == {"A": 0, "B": 20}


def test_queues_of_gpu_time_received():
    """AFS-P: B is alone in the first queue until it has received 60 GPU-seconds, and takes 2 GPUs of 3.

    Then both are in the second, where A came earlier.
    """
    trace = _trace("A 1x1000 B 1x1000@100", "con con")
    spans = _spans(_play("afs:lengths=no,queues=60,min_resize_s=0", trace, "1x3"), "B")
    assert spans[:2] == [(100.0, 2), (130.0, 1)]


@pytest.mark.parametrize("text", ["queues=60/60", "period_s=0", "min_resize_s=-1", "resize_cost_s=inf"])
def test_parameters_are_checked(text):
    with pytest.raises(InputError, match=text.split("=")[0]):
        parse_policy(f"afs:{text}")


def test_who_made_room_for_nobody_keeps_its_gpus():
    """B would have two GPUs of A's, and may use none of their type: A is not resized."""
    trace = _trace("A 1x1000 B 1x100@10", "lin lin", gpu_types=[0, 1], type_names=("H100",))
    record = _play("afs", trace, "1x4:A,1x1:H100")
    assert record.jobs["resizes"].to_list() == [0, 0]
    assert record.intervals.filter(pl.col("job_id") == "B")["gpus"].to_list() == [1]


def test_coddl_works_on_while_it_prepares():
    """Worked example 6: 15 s on one GPU, a pause of 2 s, 13 s on two; without overlap 30 s of nothing."""
    trace = trace_of("A 1x1000", gpus_max=2)
    done = {}
    for costs in ("resize=coddl", "resize=30s"):
        turns = ({"grants": [Grant(0, (0,))], "wake": Wake(100.0)}, {"grants": [Grant(0, (0, 1))]})
        grow = Scripted(*turns)
        loop, _ = prepare(grow, trace, parse_cluster("1x2"), Setting(costs=parse_costs(costs)))
        loop.run(130.0)
        done[costs] = loop.state.progress.done(0, 130.0) - 100.0
    assert done == pytest.approx({"resize=coddl": 41.0, "resize=30s": 0.0})


def test_why_a_job_has_its_size():
    """Card 1: S has three GPUs, L one; what each could have is told."""
    trace, where = _trace("S 1x20 L 1x100", "lin con"), parse_cluster("1x4")
    policy, setting = parse_policy("afs").make(), Setting(speed=ScalingSpeed(trace, where, CURVES))
    loop, _ = prepare(policy, trace, where, setting)
    loop.run(1.0)
    snapshot = loop.snapshot()
    ranking = policy.decide(snapshot, {}).ranking
    told = [explain_running(snapshot, row, ranking) for row in (0, 1)]
    assert [one.sentence() for (one,) in told] == [
        "was given 3 GPUs by what they bring it; as fast as on 1: 3 times on 3, 4 times on 4",
        "was given 1 GPU by what they bring it; as fast as on 1: 1.6 times on 2, 2.2 times on 4",
    ]


@pytest.mark.parametrize(
    ("policy", "scene"),
    [("afs", 11), ("afs:lengths=no", 11), ("afs:min_resize_s=0", 205), ("afs:min_resize_s=5", 205)],
)
def test_shares_that_find_no_place_are_handed_out_once_more(policy, scene):
    """Two types of GPU: what a job cannot have of its share goes to others at once, not when asked again.

    In scene 205 that leaves some over more than once.
    """
    check_policy(policy, seeds=[scene], only="when nothing happens, nothing moves")


def test_turns_are_no_shorter_than_what_makes_progress():
    """Turns of 7 s, of which a return takes 6 and a checkpoint is made after 7 of work: 3 x 6 turns of 14 s.

    If a turn could end before that, the last would end after 840 s.
    """
    costs = parse_costs("start=6s,restore=6s,checkpoint_every=7s")
    policy, jobs = "afs:lengths=no,min_resize_s=0,period_s=7", trace_of("A 1x40 B 1x40 C 1x40")
    assert finishes(play(policy, jobs, "1x1", Setting(costs=costs))) == {"A": 182.0, "B": 196.0, "C": 210.0}


@pytest.mark.parametrize("scene", [11, 25, 153, *first(0, [*range(100, 153), *range(154, 160)])])
def test_short_periods_keep_the_contract(scene):
    """Who begins by a decision has the same share when asked again, not what a newcomer is given.

    In 153 a job that bears no other size comes back where there is less room than it had.
    """
    only = "when nothing happens, nothing moves" if scene < 100 else None
    check_policy("afs:lengths=no,period_s=3,min_resize_s=0", seeds=[scene], only=only)


@pytest.mark.parametrize("period_s", [1, 3, 7])
def test_resizes_that_cost_more_than_a_period_do_not_take_all_the_time(period_s):
    """Two jobs on three GPUs, a resize takes 10 s: the third goes to and fro, and both work between."""
    costs = parse_costs("start=10s,restore=10s")
    trace = trace_of("A 1x100 B 1x100", gpus_min=1, gpus_max=3, workload=0, workload_names=("lin",))
    setting = Setting(costs=costs, speed=ScalingSpeed(trace, parse_cluster("1x3"), CURVES))
    record = play(f"afs:lengths=no,min_resize_s=0,period_s={period_s}", trace, "1x3", setting)
    # 200 of work, at most 13 s for each of which less than `period_s` are work
    assert max(finishes(record).values()) < 200 * (10 + period_s) / period_s
