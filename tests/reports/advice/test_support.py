"""What an advice claims rests on how the replay of the present policy fits: the metric, and the groups."""

from __future__ import annotations

import json

import pytest

import replayed_site
from rota.reports.advice import Advice, advise

EASY = "fifo:backfill=easy"


def advised(*, late: int = 0, present: str | None = None, goal: str = "jct") -> Advice:
    """Advice on a dump that EASY made, from users' limits."""
    return advise(
        replayed_site.trace_of(replayed_site.dump(EASY, late=late)),
        cluster=replayed_site.CLUSTER,
        policies=["srtf"],
        knowledge="duration=user",
        costs=replayed_site.COSTS,
        present=present,
        goal=goal,
        seeds=1,
        workers=1,
    )


@pytest.mark.slow
def test_a_replay_that_fits_is_ground() -> None:
    found = advised()
    assert str(found.present) == EASY
    assert found.verdict.unsupported == ()
    assert found.verdict.firm
    assert found.text().count("Adopt srtf") == 1
    assert "which fits best of the 5 policies tried" in " ".join(found.text().split())


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["jct", "tail"])
def test_groups_that_do_not_fit_lower_confidence(goal: str) -> None:
    """Large jobs were held back by a rule that nobody knows: a firm word was given on the mean alone."""
    found = advised(late=8, goal=goal)
    assert not found.verdict.firm
    assert any(
        "of the waiting is misplaced" in why or "on average" in why for why in found.verdict.unsupported
    )
    text = " ".join(found.text().split())
    assert "No firm recommendation: in the replay" in text
    assert "A firm one takes a replay that fits" in text
    assert "jobs of 5-8 GPUs (wait " in text
    assert "rota policy set" not in text
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert facts["replay"]["agrees"] is False
    assert facts["replay"]["calibration"]["groups"][0]["kind"] == "all"
    assert "Replayed against observed" in found.html()


@pytest.mark.slow
def test_another_present_policy_is_not_the_end() -> None:
    """It names what does best in the replay, why that is not firm, and which present policy fits better."""
    found = advised(present="fifo")
    assert not found.verdict.firm
    text = " ".join(found.text().split())
    assert "in the replay srtf does best: mean JCT goes from" in text
    assert "does not fit what happened: jobs wait" in text
    assert f"{EASY} fits better than fifo: try it as --present" in text
    assert "let srtf run in the shadow" in text
