"""Shockwave: worked examples of systems/shockwave.md, its plans, and what it says of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota.api.fidelity import replay_case, run_case
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance, Table
from rota.model.cluster import parse_cluster
from rota.published.artifacts.shockwave.system import ShockwaveAuthorsParameters
from rota.scheduler.reasons.waiting import explain
from rota.systems.shockwave.outlook import Outlook, outlook
from rota.systems.shockwave.parameters import ShockwaveParameters
from rota.systems.shockwave.planning import WindowQuestion, fair_rounds, make_plan, weights
from rota.systems.shockwave.system import Shockwave
from rota.systems.shockwave.targets import FinishTargets
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, run
from shared_data import needs_shared, reference
from tiers import examples, first


def _ahead(left_s, progress=None, whole_s=None) -> Outlook:
    left = np.array(left_s, dtype=float)
    n = len(left)
    done = np.zeros(n) if progress is None else np.array(progress, dtype=float)
    whole = left / (1.0 - done) if whole_s is None else np.array(whole_s, dtype=float)
    return Outlook(np.arange(n), done, whole, left, done * whole, np.zeros(n, dtype=np.int64))


def _question(left_s, target_s, *, capacity=1.0, gpus=None, now=0.0, submit_s=None) -> WindowQuestion:
    n = len(left_s)
    return WindowQuestion(
        _ahead(left_s),
        np.array(target_s, dtype=float),
        np.zeros(n) if submit_s is None else np.array(submit_s, dtype=float),
        np.ones(n) if gpus is None else np.array(gpus, dtype=float),
        capacity,
        min(1.0, capacity / n),
        now,
    )


# -- targets and weights ---------------------------------------------------------------------------


def test_targets():
    """Card example 3."""
    targets, row = FinishTargets({}), np.array([4])
    targets.note(row, np.array([1000.0]), 0)
    assert targets.target_s(row, 0) == pytest.approx([1000])
    targets.note(row, np.array([1600.0]), 6)
    assert targets.target_s(row, 8) == pytest.approx([1195])


def test_targets_remember_earlier_ones():
    """The naive one begins anew at each arrival, and drifts with it."""
    targets, one, two = FinishTargets({}), np.array([1]), np.array([1, 2])
    targets.note(one, np.array([1000.0]), 0)
    targets.note(two, np.array([2000.0, 2000.0]), 10)
    assert targets.target_s(two, 10) == pytest.approx([0.9 * 1000 + 0.1 * 2000, 2000])
    targets.note(np.array([2]), np.array([2000.0]), 12)
    assert targets.target_s(np.array([2]), 12) == pytest.approx([2000])
    assert targets.memory["rows"].tolist() == [2]


PAPER = ShockwaveParameters(fairness_exponent=5.0)
ARTIFACT = ShockwaveAuthorsParameters(fairness_exponent=12.0)


# projected finish 1200 s; rounds of 120 s
@pytest.mark.parametrize(
    ("parameters", "left_s", "target_s", "weight"),
    [
        (ARTIFACT, 1200.0, 1000.0, 8.9161),
        (PAPER, 1200.0, 1000.0, 2.48832),
        (PAPER, 1200.0, 1200.0, 1.0),
        (ARTIFACT, 1200.0, 1500.0, 1.0),
        (ARTIFACT, 100.0, 99.0, (100 / 99) ** 100),
    ],
)
def test_weights(parameters, left_s, target_s, weight):
    """Card example 5."""
    assert weights(_question([left_s], [target_s]), parameters) == pytest.approx([weight], rel=1e-5)


def test_lateness_counts_from_submission():
    """A job that came at 9000 s and is to have 1000 s will take 2000: twice as long, not a tenth longer."""
    question = _question([1000.0], [10_000.0], now=10_000.0, submit_s=[9000.0])
    assert weights(question, PAPER) == pytest.approx([2.0**5])
    assert weights(question, ARTIFACT) == pytest.approx([1.1**12])


def test_weights_stay_within_bounds():
    assert weights(_question([1e9], [1.0]), ARTIFACT).max() <= 1e12 * (1 + 1e-9)


# -- the plan --------------------------------------------------------------------------------------


def test_fair_finishes_are_kept_if_they_can_be():
    """B is to end after the window as if it had half the GPU; A has time.  B needs 8 of 20 rounds for it."""
    question = _question([2400.0, 2400.0], [1e5, 2400.0 + (2400.0 - 960.0) * 2], capacity=1.0)
    assert fair_rounds(question, PAPER).tolist() == [0, 8]
    plan = make_plan(question, PAPER)
    assert plan.keeps_fair
    assert plan.runs.sum(axis=1)[1] >= 8


def test_who_is_late_goes_first_if_they_cannot():
    """Nobody can be in time; B is the latest by far, gets the most rounds and the first."""
    question = _question([4800.0, 4800.0], [5000.0, 2000.0])
    assert (fair_rounds(question, PAPER) > PAPER.window_rounds).any()
    plan = make_plan(question, PAPER)
    assert not plan.keeps_fair
    a, b = plan.runs
    assert b.sum() > a.sum()
    assert b[0]


@examples(40)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.5, 1, 2, 3, 4]), st.floats(1, 1e5), st.floats(1, 1e6)),
        min_size=1,
        max_size=9,
    ),
    st.integers(4, 9),
)
def test_plans_keep_the_capacity_of_each_round(jobs, capacity):
    gpus, left_s, target_s = zip(*jobs, strict=True)
    plan = make_plan(_question(left_s, target_s, capacity=float(capacity), gpus=gpus), PAPER)
    assert (np.array(gpus) @ plan.runs <= capacity + 1e-9).all()
    assert 0.0 <= plan.missing <= 1.0


# -- carried out -----------------------------------------------------------------------------------


def test_idle_gpus_go_to_the_longest():
    """Three GPUs for jobs of two: A and the longer of the others, one after the other, no GPU idle."""
    record = play("shockwave", "A 1x240 B 2x600 C 1x600", "1x3")
    assert set(starts(record).values()) == {0, 240} or max(starts(record).values()) <= 240
    assert max(finishes(record).values()) <= 960


def test_nobody_starves():
    """Short jobs come for ever and fill the GPU; the long one has one round of 21 and ends all the same."""
    short = " ".join(f"S{i} 1x110@{i * 120}" for i in range(260))
    record = play("shockwave", f"L 1x1200 {short}", "1x1")
    assert finishes(record)["L"] <= 10 * 21 * 120


def test_a_job_that_outlives_its_forecast_ends():
    """Told 60 s, it takes 3000; beside a crowd that gains more by each round."""
    trace = trace_of("A 1x3000 " + " ".join(f"B{i} 1x2000" for i in range(6)))
    told = np.array([60.0] + [2000.0] * 6)
    setting = Setting(providers=[Given(Knowledge.DURATION, told, Provenance.USER)])
    record = run("shockwave", trace, parse_cluster("1x2"), setting)
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 7


def test_the_authors_leave_a_job_that_outlives_its_forecast_to_the_last():
    """As above: A, of which nothing is foreseen any more, goes on when the others leave something to it."""
    trace = trace_of("A 1x3000 " + " ".join(f"B{i} 1x2000" for i in range(6)))
    told = np.array([60.0] + [2000.0] * 6)
    setting = Setting(providers=[Given(Knowledge.DURATION, told, Provenance.USER)])
    ends = finishes(run("shockwave@authors", trace, parse_cluster("1x2"), setting))
    assert ends["A"] == max(ends.values())
    assert ends["A"] - 3000 > 6000 - 2 * 2000  # it has waited for most of what the others ran


def test_a_lost_node_makes_a_new_plan():
    record = play("shockwave", "A 2x600 B 2x600 C 1x600", "2x2", Setting(faults=[Fault(0, 300.0, 900.0)]))
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 3


MIXED = "A 1x4000 B 2x3000 C 4x2000@60 D 1x500@700 E 2x9000@900 F 1x2500@1000"


def test_the_plan_outlives_a_restart():
    """Memory is all there is: a fresh instance at each decision, from JSON and back, does the same."""

    class Forgetful:
        needs, levers = Shockwave().needs, Shockwave().levers

        def decide(self, snapshot, memory):
            return Shockwave().decide(snapshot, _through_json(memory))

    again = run(Forgetful(), trace_of(MIXED), parse_cluster("1x4"))
    assert finishes(again) == finishes(play("shockwave", MIXED, "1x4"))


def _through_json(value):
    """As a store keeps it: arrays as lists with their kind."""
    if isinstance(value, dict):
        return {key: _through_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return np.array(json.loads(json.dumps(value.tolist())), dtype=value.dtype).reshape(value.shape)
    return json.loads(json.dumps(value))


@pytest.mark.parametrize(
    "option", ["nodes=1", "resolve_on_regime_change=yes", "predictor=posterior", "makespan_weight=0"]
)
def test_options(option):
    record = play(f"shockwave:{option}", MIXED, "1x4")
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 6


def test_why():
    """Who waits is told how many rounds the plan has for it, when, and who is before it."""
    said = _reasons(trace_of("A 1x6000 B 1x6000 C 1x6000"), "1x1", until_s=0.0)
    assert said[1] == (
        "takes turns: is planned for 7 of the next 19 rounds, from 26m on; before it in this round: C; "
        "the next round begins in 2m"
    )
    assert said[2] == "takes turns: is planned for 5 of the next 19 rounds, from 2m on; its turn ends in 2m"


def _reasons(trace, cluster, until_s):
    """What each job is told after the last decision up to a moment."""
    said = {}

    class Telling:
        needs, levers = Shockwave().needs, Shockwave().levers

        def decide(self, snapshot, memory):
            decision = Shockwave().decide(snapshot, memory)
            if snapshot.now <= until_s:
                for row in range(len(trace)):
                    said[row] = decision.ranking.turn(snapshot, row).sentence()
                    granted = {grant.job for grant in decision.grants}
                    assert row in granted or explain(snapshot, decision, row)
            return decision

    run(Telling(), trace, parse_cluster(cluster))
    return said


# -- regimes ---------------------------------------------------------------------------------------


def test_a_change_foreseen_saves_the_short_job():
    """Two jobs of ten epochs at 200 s so far; one of them may go on at 20 s: it has less to do."""
    rows = 2
    by_row = {
        "class": np.array([0, 1]),
        "epochs": np.full(rows, 10.0),
        "per_epoch": np.full(rows, 200.0),
        "mode": np.zeros(rows, dtype=np.int64),
        "seen": np.array([[1.0, 0.0], [1.0, 0.0]]),
    }
    shared = {
        "modes": np.array([[32.0, np.nan], [32.0, 64.0]]),
        "seconds": np.array([[200.0, np.nan], [200.0, 20.0]]),
        "until": np.array([[np.inf, np.nan], [5.0, np.inf]]),
        "regime": np.array([[0, -1], [0, 1]]),
    }
    told = Given(Knowledge.REGIMES, Table(by_row, shared), Provenance.USER)
    seen = []

    class Looking:
        needs, levers = Shockwave().needs, Shockwave().levers

        def decide(self, snapshot, memory):
            seen.extend(outlook(snapshot, np.arange(2), p).left_s.tolist() for p in (PAPER, ARTIFACT))
            return Shockwave().decide(snapshot, memory)

    run(Looking(), trace_of("A 1x2000 B 1x2000"), parse_cluster("1x1"), Setting(providers=[told]))
    assert seen[0] == pytest.approx([2000, 5 * 200 + 5 * 20])
    assert seen[1][0] > seen[1][1]


FOLDER = Path(__file__).parents[3] / "benchmarks" / "fidelity"


@needs_shared
@pytest.mark.shared
@pytest.mark.slow
def test_the_authors_120_jobs():
    """Makespan within 3 % of theirs, and the mean within 2 %."""
    result = run_case(FOLDER / "shockwave-t120-shockwave.yaml", reference(""))
    assert (result.jobs, result.unfinished) == (120, 0)
    assert result.holds


@needs_shared
@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("policy", first(1, ["shockwave", "shockwave@authors"]))
def test_no_more_of_the_authors_jobs_are_late_than_published(policy, tmp_path):
    """Jobs with static rho above 1 and the worst rho no worse than published, the makespan within 3 %."""
    case = yaml.safe_load((FOLDER / "shockwave-t120-shockwave.yaml").read_text())
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump(case | {"policy": policy}))
    jobs = replay_case(path, reference("")).jobs
    theirs = pl.read_csv(reference("gavel-pollux-sia") / "authors" / "shockwave_tacc_32gpus_jobs.csv.gz")
    jct_s, theirs_s = jobs["finish_s"] - jobs["submit_s"], theirs["jct_shockwave.simulation"]
    theirs_rho = theirs["rho_static_shockwave.simulation"]
    rho = jct_s * theirs_rho / theirs_s
    assert (rho > 1.0).sum() <= (theirs_rho > 1.0).sum() == 9
    assert rho.max() <= theirs_rho.max()
    assert jobs["finish_s"].max() <= 1.03 * (jobs["submit_s"] + theirs_s).max()
