"""An advice as a page: one HTML file with everything in it and no script, which opens anywhere and prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rota.model.units import plural
from rota.reports.advice.advice import Advice
from rota.reports.advice.verdict import VerdictLine
from rota.reports.advice.view import adopt_lines, by_durations, left_out_table, ranking
from rota.reports.advice.wording import (
    SOURCES,
    change,
    headline,
    range_words,
    replay_sentence,
    spread_sentence,
    time_sentence,
)
from rota.reports.calibration import fit_section
from rota.reports.finding import Paragraph, ReportPage, Section, Terms
from rota.reports.page import page_text

LEAST_FACTOR = 1.1
"""The axis of changes reaches at least this far to either side ..."""
MOST_FACTOR = 32.0
"""... and at most this far: values beyond end at its edge."""
MARKS = (0.03125, 0.0625, 0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
APART = 11.0
"""Per cents of the axis that two marks are apart at least ..."""
APART_ON_A_PHONE = 30.0
"""... and where it is only some 160 pixels wide."""


@dataclass(frozen=True)
class Ranges:
    """How far each policy's cost is from the present one's, and within which range it likely lies."""

    kind: ClassVar[str] = "ranges"
    title: str
    caption: str
    rows: tuple[tuple[str, str, float, float, float], ...]
    """Policy, change in words, and its place, lowest and highest, in per cents of the width."""
    marks: tuple[tuple[float, str, bool], ...]
    """Place and text of each mark, and whether a phone has room for it."""
    now: float
    """Place of the present policy."""


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
        """The `ratios` that are at least this far from each other, the nearest to 1 first."""
        chosen: list[float] = []
        for one in sorted(ratios, key=lambda one: abs(math.log(one))):
            if all(abs(self.place(one) - self.place(other)) > least for other in chosen):
                chosen.append(one)
        return chosen


def render(advice: Advice) -> str:
    """The page as HTML."""
    calibration = advice.trials.calibration
    is_firm = advice.is_calibrated and not advice.verdict.unsupported
    verdict = "verdict" if is_firm else "verdict warning"
    sections = [
        Section("ranking", "Ranking", tuple(_ranking_parts(advice))),
        Section("told", "If durations are known from elsewhere", tuple(_told_parts(advice))),
        *([fit_section(calibration)] if calibration is not None and calibration.groups else []),
        Section("adopt", "To adopt it" if advice.verdict.firm else "To watch it", tuple(_adopting(advice))),
        Section("slurm", "What comes nearest in Slurm", tuple(_slurm_parts(advice))),
        Section("rests", "What it rests on", tuple(_base_parts(advice))),
    ]
    return page_text(
        ReportPage(
            title=f"Which policy for {advice.trace.source.rpartition('/')[2]}",
            lead=headline(advice),
            sections=tuple(section for section in sections if section.parts),
            notes=(
                Paragraph(replay_sentence(advice), verdict),
                *(Paragraph(remark, "verdict warning") for remark in advice.trials.remarks),
            ),
            facts=tuple(_facts(advice)),
        )
    )


def _ranking_parts(advice: Advice) -> Iterator[object]:
    """The goals, the ranks of the policies by them, and how firm the ranks are."""
    wanted = advice.wanted
    pairs = []
    for goal, weight in zip(wanted.goals, wanted.weights, strict=True):
        name = goal.label if wanted.one else f"{goal.label} ({goal.key}, weight {100 * weight:.0f}%)"
        pairs.append((name, f"{goal.means[0].upper()}{goal.means[1:]}."))
    yield Terms(tuple(pairs))
    yield ranking(advice)
    yield Paragraph(
        "Change is against the present policy, replayed. Tinted: the best, and what can't be told apart from "
        f"it. Interruptions: running jobs that had to give way, in all. {spread_sentence(advice)}"
    )
    yield _ranges(advice)


def _ranges(advice: Advice) -> Ranges:
    ranked = [line for line in advice.verdict.lines if not line.unranked]
    scale = Scale.of(ranked)
    marks = tuple(
        (scale.place(one), "as now" if one == 1.0 else change(advice.wanted, one), is_roomy)
        for one, is_roomy in scale.marks().items()
    )
    return Ranges(
        "How firm it is",
        "Change against the present policy: the dot is the measured change, the line its likely range. "
        "Better is to the left, logarithmic.",
        tuple(_drawn(advice, line, scale) for line in ranked),
        marks,
        scale.place(1.0),
    )


def _told_parts(advice: Advice) -> Iterator[object]:
    """The ranking with durations from elsewhere; nothing if it stays."""
    table, told = by_durations(advice), advice.verdict.told
    if table is None:
        return
    yield Paragraph(
        "No operator of a cluster knows how long a job will run. The ranking above is with durations from "
        f"{SOURCES.get(told[0].source, told[0].source)}; this is what becomes of the policies that read "
        "durations with other sources. The rest stays as it is.",
        "",
    )
    yield table
    best = " ".join(f"With {SOURCES.get(one.source, one.source)}: {', '.join(one.best)}." for one in told)
    yield Paragraph(
        "The first replay of each. Tinted: the best with this source, or not to be told apart from it. "
        + best
    )


def _adopting(advice: Advice) -> Iterator[object]:
    """The lines that bring the best into force; nothing if the present policy stays."""
    lines = () if advice.verdict.stays else tuple(adopt_lines(advice, slurm=False))[:-1]
    if lines:
        yield Paragraph("\n".join(lines), "code wrap")


def _slurm_parts(advice: Advice) -> Iterator[object]:
    near = advice.slurm
    yield Paragraph(f"To {advice.verdict.best.policy}: {near.idea}", "")
    for title, lines in (("slurm.conf", near.conf), ("Accounting database", near.sacctmgr)):
        if lines:
            yield Paragraph(title, "title")
            yield Paragraph("\n".join(lines), "code")
    if near.cannot:
        yield Paragraph("What no line can say", "title")
        yield Paragraph("\n".join(near.cannot), "list")
    yield Paragraph(
        "As slurm.conf(5) and sacctmgr(1) of version 22.05 describe it. The replays above are of the policy "
        "itself, not of these lines."
    )


def _base_parts(advice: Advice) -> Iterator[object]:
    """The replays, and the policies that were not tried."""
    again = "The same policies on the whole trace:"
    if not advice.part.said:
        again = "The first replay of each policy, again:"
    yield Paragraph(f"{time_sentence(advice)} {again}", "")
    yield Paragraph(check_line(advice), "code wrap")
    if table := left_out_table(advice):
        yield Paragraph(table.title, "title")
        yield table


def check_line(advice: Advice) -> str:
    """The command that shows the first replay of each policy again."""
    names = ",".join([str(advice.present), *(str(spec) for spec in advice.candidates.specs)])
    told = ",".join(f"{kind}={source}" for kind, source in advice.knowledge.items())
    return (
        f"rota simulate {advice.trace.source} --cluster {advice.cluster_said} --knowledge {told} "
        f"--costs {advice.costs} --policy {names}"
    )


def _facts(advice: Advice) -> list[tuple[str, str]]:
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


def _drawn(advice: Advice, line: VerdictLine, scale: Scale) -> tuple[str, str, float, float, float]:
    """A row of `Ranges`."""
    if not math.isfinite(line.ratio):
        now = scale.place(1.0)
        return line.policy, "not compared", now, now, now
    changed = f"{change(advice.wanted, line.ratio)}, likely {range_words(advice.wanted, line)}"
    places = (scale.place(line.ratio), scale.place(line.low), scale.place(line.high))
    return (line.policy, "as now" if line.is_present else changed, *places)
