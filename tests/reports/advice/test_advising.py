"""Advice as a whole: the winner is the best, twins are never told apart, a bad replay is no ground."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from advice_play import CLUSTER, as_happened, asked, busy

from play import trace_of
from rota.api.simulation import simulate
from rota.errors import InputError
from rota.reports.advice import Advice, advise, trials
from rota.reports.advice.page import Scale
from rota.reports.advice.verdict import judge
from shared_data import data, needs_shared

TRIED = ["fifo:skip=yes", "srtf", "tiresias"]


@pytest.fixture(scope="module")
def advice() -> Advice:
    return asked(policies=TRIED, seeds=2, knowledge="duration=predicted")


@pytest.mark.slow
def test_the_winner_is_the_best_of_an_independent_run(advice: Advice) -> None:
    """And all that are said to be worse are."""
    verdict = advice.verdict
    results = simulate(
        busy(), cluster=CLUSTER, policies=["fifo", *TRIED], knowledge="duration=predicted", costs=advice.costs
    )
    jct_s = {summary.policy: summary["mean_jct_s"] for summary in results.summaries}
    assert verdict.firm
    assert not verdict.stays
    worse = [line.policy for line in verdict.lines if not line.undecided]
    assert "fifo" in worse
    assert all(jct_s[verdict.best.policy] < jct_s[name] for name in worse)
    first = {name: of[0].values[0] for name, of in advice.trials.runs.items()}
    assert first == pytest.approx({name: jct_s[name] for name in TRIED})
    assert verdict.seeds == 2


@pytest.mark.soak
def test_twins_are_never_told_apart() -> None:
    """One policy under two names, with moved submissions and whatever goal."""
    for goal in ("jct", "tail=2,utilisation=1", "fairness"):
        twins = asked(policies=["fifo:skip=no", "srtf"], goal=goal, seeds=2, knowledge="duration=oracle")
        lines = {line.policy: line for line in twins.verdict.lines}
        own, twin = lines["fifo"], lines["fifo:skip=no"]
        assert own.values == twin.values
        assert own.undecided == twin.undecided
        assert (twin.ratio, twin.low, twin.high) == (1.0, 1.0, 1.0)
    alone = asked(policies=["fifo:skip=no"], seeds=2)
    assert alone.verdict.stays
    assert alone.verdict.best.policy == "fifo", "of equals, what is there"
    assert "Stay with fifo" in alone.text()


def test_other_knowledge_is_tried(advice: Advice) -> None:
    """Limits are stated in this trace; who reads no durations does the same whatever they are."""
    told = {one.source: one for one in advice.verdict.told}
    assert list(told) == ["predicted", "user", "noisy"]
    assert told["user"].values["tiresias"] == told["predicted"].values["tiresias"]
    assert told["user"].values["srtf"] != told["predicted"].values["srtf"]
    assert {one.best for one in advice.verdict.told}


def test_a_replay_that_agrees() -> None:
    seen = asked(as_happened(busy(), "fifo"), policies=["fifo:skip=yes", "tiresias"])
    assert seen.verdict.unsupported == ()
    assert seen.verdict.replay_error == pytest.approx(0.0, abs=0.01)
    assert seen.verdict.firm
    observed = seen.trials.observed
    assert observed is not None
    assert observed.values == pytest.approx(seen.trials.present[0].values, rel=0.01)
    assert "Adopt" in seen.text()
    assert "rota policy set" in seen.text()


@pytest.mark.slow
def test_a_replay_that_does_not_agree_is_no_ground() -> None:
    """What happened was first in, first out; the present policy is said to be another."""
    seen = asked(as_happened(busy(), "fifo"), present="tiresias", policies=["fifo", "srtf", "las"])
    assert seen.verdict.unsupported
    assert not seen.verdict.firm
    text = seen.text()
    assert "No firm recommendation" in text
    assert "too much to go by" in text
    assert "--site-policy" not in text, "here it is called --present"
    assert "rota policy set" not in text
    facts = seen.to_dict()
    assert facts["firm"] is False
    assert facts["replay"]["agrees"] is False  # type: ignore[index]


def test_differences_below_the_replay_error_are_undecided() -> None:
    """The same replays; what was observed is half a day slower, by which no difference is larger."""
    near = asked(policies=["fifo:skip=yes"])
    assert not near.verdict.stays

    late = replace(near.trials.present[0], values=(near.trials.present[0].values[0] * 50.0,))
    near.trials.observed = late
    verdict = judge(near.trials, near.wanted, "predicted")
    assert verdict.replay_error == pytest.approx(49.0)
    assert verdict.stays
    assert len(verdict.undecided) == 2


def test_few_jobs_decide_nothing() -> None:
    few = asked(busy().take(np.arange(30)), policies=["srtf"])
    assert not few.verdict.enough
    assert few.text().count("Too few jobs to tell policies apart: 30 count") == 1
    assert few.to_dict()["adopt"] is None


def test_when_the_time_is_over_it_says_what_is_missing() -> None:
    over = asked(policies=TRIED, time="0s")
    assert over.trials.undone == TRIED
    assert "no time was left for fifo:skip=yes, srtf, tiresias and durations from" in over.text()


def test_a_run_is_ended_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first candidate that says how far it is hears that it is too late."""
    moments = iter([0.0, 1.0])  # when it begins, and before the first candidates do
    monkeypatch.setattr(trials, "time", SimpleNamespace(monotonic=lambda: next(moments, 1000.0)))
    over = asked(busy(600), policies=["las", "srtf"], time="10s")
    assert over.trials.undone == ["las", "srtf"]
    assert len(over.trials.present) == 1


def test_goals_with_weights_and_deadlines() -> None:
    both = asked(
        goal="jct=3,deadlines=1", deadlines="1:4", policies=["edf", "srtf"], knowledge="duration=oracle"
    )
    assert [goal.key for goal in both.wanted.goals] == ["jct", "deadlines"]
    assert both.wanted.weights == (0.75, 0.25)
    assert "by the weighted mean" in both.text()
    assert "jct (75%), deadlines (25%)" in both.html()


def test_jobs_that_the_cluster_cannot_hold_compare_nothing() -> None:
    with pytest.raises(InputError, match="none of the jobs that count completes on this cluster"):
        advise(trace_of("A 9x10 B 16x20"), cluster="1x8", policies=["srtf"], seeds=1)


def test_energy_needs_watts_and_says_what_it_is() -> None:
    with pytest.raises(InputError, match="no trace says what a GPU draws"):
        asked(goal="energy", policies=["srtf"])
    text = asked(goal="energy", power="300:60", policies=["srtf"]).text()
    assert "kWh" in text
    assert "computed from what jobs hold, not measured" in " ".join(text.split())


@needs_shared
@pytest.mark.soak
def test_on_a_public_trace() -> None:
    """A fortnight of ITP's cluster 06: who is said to be worse is so in a run of `simulate` as well."""
    path = data("itp_elasticflow/raw/cluster06.csv.gz")
    found = asked(
        path, cluster="16x8", policies=["fifo:skip=yes", "tiresias", "srtf"], window="14d", workers=None
    )
    part = found.part
    results = simulate(
        part.trace,
        cluster="16x8",
        policies=["fifo", "fifo:skip=yes", "tiresias", "srtf"],
        knowledge="duration=predicted",
        costs=found.costs,
        measure=part.measured,
    )
    jct_s = {summary.policy: summary["mean_jct_s"] for summary in results.summaries}
    worse = [line.policy for line in found.verdict.lines if not line.undecided]
    assert worse
    assert all(jct_s[found.verdict.best.policy] < jct_s[name] for name in worse)


def test_as_json(advice: Advice) -> None:
    facts = json.loads(json.dumps(advice.to_dict()))
    assert facts["policies"][0]["policy"] == advice.verdict.best.policy
    assert facts["adopt"]["set_line"] == f"rota policy set {advice.verdict.best.policy}"
    assert facts["undecided"] == [line.policy for line in advice.verdict.undecided]
    assert facts["replay"]["error"] is None
    assert {one["source"] for one in facts["durations"]} == {"predicted", "user", "noisy"}


def test_on_one_screen(advice: Advice) -> None:
    lines = advice.text().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 110


def test_the_page_is_one_file_without_a_script(advice: Advice, tmp_path) -> None:
    page = advice.write(tmp_path / "advice.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert not re.search(r'(src|href)="http', page)
    for line in advice.verdict.lines:
        assert line.policy in page
    for part in ("How firm it is", "What comes nearest in Slurm", "Not tried", advice.adoption.set_line):
        assert (part in page) is (part != "Not tried"), "candidates were named"
    assert "rota simulate" in page


@pytest.mark.parametrize(("low", "high"), [(0.1, 1.7), (0.9, 1.1), (1 / 32, 32.0)])
def test_marks_on_a_phone_do_not_lie_on_each_other(low: float, high: float) -> None:
    """`as now` stood on -25% and +50%: an axis of 160 pixels has room for labels of 45 at 30 per cents."""
    scale = Scale(low, high)
    for apart, ratios in (
        (11, list(scale.marks())),
        (30, [one for one, roomy in scale.marks().items() if roomy]),
    ):
        places = [scale.place(one) for one in ratios]
        assert 1.0 in ratios
        assert all(right - left > apart for left, right in pairwise(places))
