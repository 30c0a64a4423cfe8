"""An advice as plain values, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.reports.advice.advice import Advice
from rota.reports.advice.wording import headline, replay_sentence, spread_sentence, time_sentence
from rota.reports.plain import plain


def plain_advice(advice: Advice) -> dict[str, Any]:
    """Everything that text and page say, with numbers in seconds, shares, factors and joules."""
    wanted, verdict, trials = advice.wanted, advice.verdict, advice.trials
    keys = [goal.key for goal in wanted.goals]

    def named(values: Sequence[float]) -> dict[str, float]:
        return dict(zip(keys, values, strict=True))

    def line(one: Any) -> dict[str, object]:
        return {
            "policy": one.policy,
            "is_present": one.is_present,
            "values": named(one.values),
            "cost_ratio": one.ratio,
            "cost_ratio_low": one.low,
            "cost_ratio_high": one.high,
            "undecided": one.undecided,
            "unranked": one.unranked,
            "preemptions": one.preemptions,
        }

    adoption = None if verdict.stays or not verdict.enough else advice.adoption
    made: dict[str, Any] = plain(
        {
            "headline": headline(advice),
            "trace": {
                "source": advice.trace.source,
                "format": advice.trace.format,
                "jobs": len(advice.trace),
            },
            "part": {"jobs": len(trials.present[0].submit_s), "said": advice.part.said},
            "cluster": advice.cluster.describe(),
            "goals": [
                {"key": goal.key, "weight": weight, "means": goal.means}
                for goal, weight in zip(wanted.goals, wanted.weights, strict=True)
            ],
            "present": str(advice.present),
            "observed": None if trials.observed is None else named(trials.observed.values),
            "replay": {
                "error": verdict.replay_error,
                "agrees": not verdict.unsupported if advice.is_calibrated else None,
                "unsupported": list(verdict.unsupported),
                "calibration": None if trials.calibration is None else trials.calibration.to_dict(),
                "nearer": advice.nearer,
                "text": replay_sentence(advice),
            },
            "firm": verdict.firm,
            "stays": verdict.stays,
            "policies": [line(one) for one in verdict.lines],
            "undecided": [one.policy for one in verdict.undecided],
            "durations": [
                {
                    "source": one.source,
                    "best": list(one.best),
                    "values": {name: named(values) for name, values in one.values.items()},
                }
                for one in verdict.told
            ],
            "adopt": adoption,
            "slurm": advice.slurm,
            "left_out": [{"policy": name, "why": why} for name, why in advice.candidates.left_out],
            "undone": list(trials.undone),
            "seeds": verdict.seeds,
            "knowledge": dict(advice.knowledge),
            "costs": advice.costs,
            "remarks": list(trials.remarks),
            "spread": spread_sentence(advice),
            "spent_s": trials.spent_s,
            "time": time_sentence(advice),
        }
    )
    return made
