"""The world in rounds: when arrivals, finishes and free GPUs are seen, and what a round holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, starts, trace_of
from rota.errors import InputError, WorldError
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Role
from rota.model.jobs import Truth
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.pace import Pace
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import (
    PRESETS,
    Arrivals,
    Finish,
    RoundEnds,
    Semantics,
    Work,
    semantics,
)
from rota.worlds.simulated.speed_table import ThroughputSpeed
from scripted import Scripted

ROUNDS = Semantics("rounds", arrivals=Arrivals.ROUND, finish=Finish.EPOCH, round_s=10.0)

# One GPU, rounds of 10 s: A works 12 s from 0, B 5 s, submitted at 3.
CASES = [
    # name          switches                                     finish            start   why
    ("epoch", {}, {"A": 12, "B": 25}, 20, "exact finish; the GPU idles until 20"),
    ("round end", {"finish": Finish.ROUND_END}, {"A": 20, "B": 30}, 20, "seen when the round ends"),
    ("latest stop", {"round_ends": RoundEnds.LATEST_STOP}, {"A": 12, "B": 17}, 12, "the second round is 2 s"),
]


@pytest.mark.parametrize(("name", "switches", "finish", "start", "why"), CASES, ids=[c[0] for c in CASES])
def test_switches(name, switches, finish, start, why):
    """Each switch moves the finish of A and the start of B as its name says."""
    record = play("fifo", "A 1x12 B 1x5@3", "1x1", Setting(semantics=replace(ROUNDS, **switches)))
    assert finishes(record) == finish, why
    assert starts(record) == {"A": 0, "B": start}, why


def test_arrival_waits_for_the_grid_with_rounds_of_fixed_length():
    """An idle cluster too begins rounds at multiples of their length."""
    record = play("fifo", "A 1x5@3", "1x1", Setting(semantics=ROUNDS))
    assert starts(record) == {"A": 10}


def test_round_begins_with_an_arrival_after_an_idle_time():
    """Rounds that end at the latest stop have no grid."""
    latest = replace(ROUNDS, round_ends=RoundEnds.LATEST_STOP)
    record = play("fifo", "A 1x5@3 B 1x5@100", "1x1", Setting(semantics=latest))
    assert finishes(record) == {"A": 8, "B": 105}


def test_finish_inside_a_round_asks_nobody():
    """A policy that wants to hear of ends hears of them when the round ends."""
    record = play("fifo", "A 1x2 B 1x2", "1x1", Setting(semantics=ROUNDS))
    assert finishes(record) == {"A": 2, "B": 12}


def test_preempted_job_keeps_what_it_did():
    """SRTF gives the GPU to the short job at the round end; the long one goes on where it was."""
    record = play("srtf", "A 1x30 B 1x5@3", "1x1", Setting(semantics=ROUNDS))
    assert finishes(record) == {"A": 40, "B": 15}


def test_lost_node_is_seen_at_the_round_end():
    """A node lost at 3 is gone from 10 on, and back at 20."""
    setting = Setting(semantics=ROUNDS, faults=(Fault(0, 3.0, 15.0),))
    record = play("fifo", "A 1x12", "1x1", setting)
    assert finishes(record) == {"A": 22}


BACK_SOON = [
    # rules      costs                         jobs       faults                  ends        why
    ("rounds", "", "A 1x25", [(3.0, 7.0)], {"A": 25.0}, "nothing is lost where nothing costs anything"),
    (
        "rounds",
        "start=1s,restore=4s",
        "A 1x25",
        [(3.0, 7.0)],
        {"A": 30.0},
        "it is loaded again from 10 to 14",
    ),
    ("rounds", "checkpoint_every=4s", "A 1x25", [(13.0, 17.0)], {"A": 25.0}, "20 s are just saved"),
    ("rounds", "checkpoint_every=7s", "A 1x25", [(13.0, 17.0)], {"A": 31.0}, "of 20 s of work 14 are saved"),
    (
        "rounds",
        "checkpoint_every=7s",
        "A 1x25",
        [(11.0, 12.0), (13.0, 14.0)],
        {"A": 31.0},
        "twice, seen once",
    ),
    ("rounds", "checkpoint_every=7s", "A 1x5", [(6.0, 7.0)], {"A": 5.0}, "it had ended before"),
    ("rounds", "checkpoint_every=7s", "A 1x5", [(3.0, 4.0)], {"A": 5.0}, "it ends before the loss is seen"),
    (
        "elasticflow",
        "checkpoint_every=7s",
        "A 1x200",
        [(20.0, 30.0)],
        {"A": 204.0},
        "seen at 60: 56 are saved",
    ),
    ("elasticflow-ef", "checkpoint_every=7s", "A 1x100", [(20.0, 30.0)], None, "ends are planned"),
]


@pytest.mark.parametrize(
    ("name", "costs", "jobs", "faults", "ends", "why"),
    BACK_SOON,
    ids=[f"{row[0]}: {row[-1]}" for row in BACK_SOON],
)
def test_a_node_that_is_back_within_the_round_has_lost_its_jobs(name, costs, jobs, faults, ends, why):
    """Who ran there starts again when the round is over, from what was saved, and pays for it."""
    rules = PRESETS.get(name, ROUNDS)
    setting = Setting(semantics=rules, costs=parse_costs(costs), faults=[Fault(0, *one) for one in faults])
    record = play("fifo", jobs, "1x1", setting)
    if ends is not None:
        assert finishes(record) == ends, why
    is_lost = record.intervals["end"].to_list().count("lost")
    assert is_lost == (jobs != "A 1x5"), why


def _iterations(steps: float, per_s: float) -> tuple:
    """One job of `steps` iterations at `per_s`, and its speed."""
    trace = trace_of("A 1x1", workload=0, workload_names=("w",))
    trace = replace(trace, truth=Truth.build([np.nan], iterations=[steps]))
    cluster = parse_cluster("1x1:v100")
    return trace, cluster, ThroughputSpeed(trace, cluster, ThroughputTable.build({("w", "v100", 1): per_s}))


def test_round_holds_whole_iterations():
    """0.25 a second: 2 iterations in 10 s, the round ends after 8 s, the fifth is done at 8 + 8 + 4."""
    trace, cluster, speed = _iterations(5, 0.25)
    whole = replace(ROUNDS, work=Work.WHOLE_STEPS, round_ends=RoundEnds.LATEST_STOP)
    record = play("fifo", trace, cluster, Setting(semantics=whole, speed=speed))
    assert finishes(record) == {"A": 20}
    fixed = replace(whole, round_ends=RoundEnds.FIXED)
    record = play("fifo", trace, cluster, Setting(semantics=fixed, speed=speed))
    assert finishes(record) == {"A": 24}, "2 in each full round, the last from 20 to 24"


def test_round_shorter_than_an_iteration_is_refused():
    """Nothing would ever be done, and the run would never end."""
    trace, cluster, speed = _iterations(5, 0.05)
    whole = replace(ROUNDS, work=Work.WHOLE_STEPS)
    with pytest.raises(WorldError, match="job A needs 20s for one iteration"):
        play("fifo", trace, cluster, Setting(semantics=whole, speed=speed))


@pytest.mark.parametrize("wrong", [{"arrivals": Arrivals.EVENT}, {"finish": Finish.EXACT}])
def test_switches_without_meaning_are_refused(wrong):
    """In rounds nothing is seen between round ends."""
    with pytest.raises(InputError, match="in rounds"):
        play("fifo", "A 1x1", "1x1", Setting(semantics=replace(ROUNDS, **wrong)))


def test_preset_of_gavel_is_a_world_of_rounds():
    """One job alone under Gavel's rules ends when its work is done."""
    trace, cluster, speed = _iterations(1000, 2.5)
    record = play("fifo", trace, cluster, Setting(semantics=PRESETS["gavel"], speed=speed))
    assert finishes(record) == {"A": 400}


def test_who_shares_a_gpu_under_the_rules_of_gavel_ends_with_the_other():
    """A is done at 200 s and B at 300 s; alone on GPU 1, C ends when it is done."""
    half = {"share": 0.5, "role": Role.PACKED}
    policy = Scripted({"grants": [Grant(0, (0,), **half), Grant(1, (0,), **half), Grant(2, (1,))]})
    rules = replace(PRESETS["gavel"], work=Work.CONTINUOUS)
    record = play(policy, "A 1x100 B 1x150 C 1x100", "1x2", Setting(semantics=rules))
    assert finishes(record) == {"A": 300, "B": 300, "C": 100}


def test_start_up_is_counted_once_however_many_rounds_follow():
    """5 s of start-up and 800 s of work in rounds of 6 minutes."""
    rounds = replace(ROUNDS, round_s=360.0)
    record = play("fifo", "A 1x800", "1x1", Setting(semantics=rounds, costs=parse_costs("start=5s")))
    assert finishes(record) == {"A": 805}
    assert record.jobs["overhead_s"].to_list() == [5.0]


def test_start_up_longer_than_a_round():
    """25 s in rounds of 10 s; SRTF gives the GPU to B at 10, when A has stood still for 10 s."""
    setting = Setting(semantics=ROUNDS, costs=parse_costs("start=25s,restore=2s"))
    record = play("srtf", "A 1x30 B 1x5@3", "1x1", setting)
    assert finishes(record) == {"A": 40 + 32, "B": 10 + 30}
    assert record.jobs["overhead_s"].to_list() == [10.0 + 2.0, 25.0]


class Regimes:
    """One unit of work a second up to 10 units, two from there on."""

    def total(self, trace):
        return trace.truth.duration_s

    def pace(self, row, grant, beside, at):
        return Pace(1.0, until_work=10.0) if at.done < 10.0 else Pace(2.0)


# One job on one GPU in rounds of 8 s: 8 units in the first, 2 at one a second and then two a second ...
REGIMES = [
    # rules                                                       work  finish  why
    (ROUNDS, 24.0, 17.0, "the rate changes where it does, not at the round end"),
    (replace(ROUNDS, finish=Finish.ROUND_END), 24.0, 24.0, "seen when the round ends"),
    (replace(ROUNDS, work=Work.WHOLE_STEPS), 23.0, 16.5, "whole steps"),
    (semantics("elasticflow:round=8s"), 24.0, 17.0, "a slot that ends with the next finish"),
]


@pytest.mark.parametrize(("rules", "work", "finish", "why"), REGIMES, ids=[case[3] for case in REGIMES])
def test_a_rate_that_ends_inside_a_round(rules, work, finish, why):
    """A rate changes at 10 units of work, inside a round of 8 s."""
    rules = replace(rules, round_s=8.0)
    record = play("fifo", f"A 1x{work}", "1x1", Setting(semantics=rules, speed=Regimes()))
    assert finishes(record) == {"A": finish}, why


class Rebased(Regimes):
    """At the end of the round in which a job has done 8 units or more, 10 of them count as 8 and 20 as 16."""

    def rebase(self, row, done, total):
        return (0.8 * done, 0.8 * total) if total == 20.0 and done >= 8.0 else None

    def pace(self, row, grant, beside, at):
        return Pace(1.0)


def test_a_model_may_count_a_job_anew_at_a_round_end():
    """After 10 s 10 of 20 units are done: 8 of 16, so that 8 s are left."""
    record = play("fifo", "A 1x20", "1x1", Setting(semantics=ROUNDS, speed=Rebased()))
    assert finishes(record) == {"A": 18}
