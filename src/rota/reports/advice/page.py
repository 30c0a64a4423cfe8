"""An advice as a page: one HTML file with everything in it and no script, which opens anywhere and prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.units import plural
from rota.reports.advice.facts import AdviceFacts
from rota.reports.advice.text import adopt_lines
from rota.reports.advice.verdict import VerdictLine
from rota.reports.advice.wording import (
    SOURCES,
    change,
    headline,
    range_words,
    replay_sentence,
    spread_sentence,
    time_sentence,
    value_words,
)
from rota.reports.html import environment, style_named

LEAST_FACTOR = 1.1
"""The axis of changes reaches so far to either side at least ..."""
MOST_FACTOR = 32.0
"""... and at most: what is beyond ends at its edge."""
MARKS = (0.03125, 0.0625, 0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
APART = 11.0
"""Per cents of the axis that two marks are apart at least ..."""
APART_ON_A_PHONE = 30.0
"""... and where it is only some 160 pixels wide."""


@dataclass(frozen=True)
class DrawnPolicy:
    """A policy's row of the figure; places are per cents of its width."""

    policy: str
    at: float
    low: float
    high: float
    said: str


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis of ratios of costs: the best at the left."""

    low: float
    high: float

    @classmethod
    def of(cls, lines: Sequence[VerdictLine]) -> Scale:
        known = [one for line in lines for one in (line.low, line.high) if math.isfinite(one)]
        low = max(min([*known, 1.0 / LEAST_FACTOR]), 1.0 / MOST_FACTOR)
        return cls(low, min(max([*known, LEAST_FACTOR]), MOST_FACTOR))

    def place(self, ratio: float) -> float:
        low, high = math.log(self.low), math.log(self.high)
        inside = min(max(ratio, self.low), self.high)
        return 100.0 * (math.log(inside) - low) / (high - low)

    def marks(self) -> dict[float, bool]:
        """Ratios to mark, as far apart as their labels are wide; whether a phone has room for it."""
        chosen = self._apart([one for one in MARKS if self.low <= one <= self.high], APART)
        few = self._apart(chosen, APART_ON_A_PHONE)
        return {one: one in few for one in sorted(chosen)}

    def _apart(self, ratios: Sequence[float], least: float) -> list[float]:
        """Of `ratios` those that are so far from each other, the nearest to 1 first."""
        chosen: list[float] = []
        for one in sorted(ratios, key=lambda one: abs(math.log(one))):
            if all(abs(self.place(one) - self.place(other)) > least for other in chosen):
                chosen.append(one)
        return chosen


def render(advice: AdviceFacts) -> str:
    """The page as text."""
    verdict, wanted, trials = advice.verdict, advice.wanted, advice.trials
    ranked = [line for line in verdict.lines if not line.unranked]
    scale = Scale.of(ranked)
    observed = trials.observed
    return (
        environment()
        .get_template("advice.html")
        .render(
            title=f"Which policy for {advice.trace.source.rpartition('/')[2]}",
            headline=headline(advice),
            firm=verdict.firm,
            supported=advice.is_calibrated and not verdict.unsupported,
            calibration=trials.calibration,
            replay=replay_sentence(advice),
            remarks=trials.remarks,
            facts=_facts(advice),
            goals=list(zip(wanted.goals, wanted.weights, strict=True)),
            several=wanted.one is None,
            observed=None if observed is None else _cells(advice, observed.values),
            rows=[(line, _cells(advice, line.values), *_changes(advice, line)) for line in verdict.lines],
            tied=len(verdict.undecided) > 1,
            drawn=[_drawn(advice, line, scale) for line in ranked],
            marks=[
                (scale.place(one), "as now" if one == 1.0 else change(wanted, one), is_roomy)
                for one, is_roomy in scale.marks().items()
            ],
            now=scale.place(1.0),
            told=[(SOURCES.get(one.source, one.source), one) for one in verdict.told],
            told_rows=_told_rows(advice),
            spread=spread_sentence(advice),
            adopting=[] if verdict.stays else list(adopt_lines(advice, slurm=False))[:-1],
            best=verdict.best.policy,
            near=advice.slurm,
            left_out=_left_out(advice),
            check=check_line(advice),
            whole=not advice.part.said,
            more_style=style_named("advice"),
            time=time_sentence(advice),
        )
    )


def _left_out(advice: AdviceFacts) -> list[tuple[str, str]]:
    """Reasons with the names they hold for."""
    why: dict[str, list[str]] = {}
    for name, reason in [
        *advice.candidates.left_out,
        *((n, "the time was over") for n in advice.trials.undone),
    ]:
        why.setdefault(reason, []).append(name)
    return [(", ".join(names), reason) for reason, names in why.items()]


def check_line(advice: AdviceFacts) -> str:
    """The command that shows the first replay of each policy again."""
    names = ",".join([str(advice.present), *(str(spec) for spec in advice.candidates.specs)])
    told = ",".join(f"{kind}={source}" for kind, source in advice.knowledge.items())
    return (
        f"rota simulate {advice.trace.source} --cluster {advice.cluster_said} --knowledge {told} "
        f"--costs {advice.costs} --policy {names}"
    )


def _facts(advice: AdviceFacts) -> list[tuple[str, str]]:
    counted = len(advice.trials.present[0].submit_s)
    return [
        ("Trace", advice.trace.source),
        ("Cluster", advice.cluster.describe()),
        ("Jobs", f"{counted:,}" + (f" of {len(advice.trace):,}" if advice.part.said else "")),
        ("Goal", advice.wanted.words),
        ("Present policy", str(advice.present)),
        ("Candidates told", ", ".join(f"{kind}: {source}" for kind, source in advice.knowledge.items())),
        ("Interruptions cost", advice.costs),
        ("Replays", plural(advice.verdict.seeds, "seed")),
    ]


def _cells(advice: AdviceFacts, values: Sequence[float]) -> list[str]:
    return [value_words(goal, value) for goal, value in zip(advice.wanted.goals, values, strict=True)]


def _changes(advice: AdviceFacts, line: VerdictLine) -> tuple[str, str]:
    if line.is_present:
        return "", ""
    return change(advice.wanted, line.ratio), range_words(advice.wanted, line)


def _drawn(advice: AdviceFacts, line: VerdictLine, scale: Scale) -> DrawnPolicy:
    if not math.isfinite(line.ratio):
        return DrawnPolicy(line.policy, scale.place(1.0), scale.place(1.0), scale.place(1.0), "not compared")
    said = (
        "as now"
        if line.is_present
        else f"{change(advice.wanted, line.ratio)}, likely {range_words(advice.wanted, line)}"
    )
    return DrawnPolicy(
        line.policy, scale.place(line.ratio), scale.place(line.low), scale.place(line.high), said
    )


def _told_rows(advice: AdviceFacts) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Policy, and for each source its values and whether it is among the best; those that change with it."""
    told = advice.verdict.told
    first = told[0].values
    rows = []
    for name in first:
        if any(one.values.get(name, first[name]) != first[name] for one in told[1:]):
            cells = [
                ("; ".join(_cells(advice, one.values[name])), name in one.best)
                for one in told
                if name in one.values
            ]
            rows.append((name, cells))
    return rows
