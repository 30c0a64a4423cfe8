"""Faults of one kind together: their title, one figure for all, the worst in full, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rota.model.units import plural
from rota.model.words import hours
from rota.reports.finding import LIKELY, MOST_BARS, SURE, Bars, Finding, Remedy

IN_FULL = 10
"""Findings of one kind that are shown in full; the others are in the table."""


@dataclass(frozen=True)
class FaultKind:
    """What all faults of one key have in common."""

    key: str
    title: str
    searched: str
    """A search in a list of faults."""
    gap: str
    """The gap that says that this data could not be searched for it."""
    figure: str
    caption: str
    parts: tuple[str, ...]
    """Names of the parts of each bar, where there are several."""
    advice: str
    """Advice to the user, as sentences."""
    top: float = 0.0
    """Value of a full bar; the longest bar if 0."""


KINDS = (
    FaultKind(
        "idle_user",
        *("Users who hold idle GPUs", "users who hold idle GPUs", "who holds GPUs that idle"),
        *("Idle GPU-hours by user", "GPU-hours measured.", ("idle", "the rest")),
        "End jobs whose work is done, and interactive sessions that are not in use. If the program runs on "
        "CPUs, ask for no GPU; if it does not use the GPU it has, see whether it was built with support for "
        "GPUs.",
    ),
    FaultKind(
        "failing_array",
        *(
            "Arrays that die in the same way",
            "arrays that die in the same way",
            "which arrays die in the same way",
        ),
        *("Jobs that died in the same way", "Jobs.", ("died", "otherwise")),
        "Run one task to its end before all others are submitted, and look at its log for the reason given "
        "here.",
    ),
    FaultKind(
        "wrong_partition",
        *("Jobs sent to the wrong partition", "jobs sent to the wrong partition"),
        *("which jobs waited for the wrong partition", "Hours waited for a full partition"),
        *("By user and partition, of all jobs that each finding is about.", ()),
        "Submit to both partitions (--partition=A,B), or look which one has free nodes before submitting.",
    ),
    FaultKind(
        "over_asked_limits",
        *("Time limits far above need", "time limits far above need", "how generous time limits are"),
        *("Part of the time limit that is used", "Median job of each user.", ()),
        "Ask for about twice what such jobs have run so far: a job that asks for less starts sooner where "
        "the scheduler backfills.",
        top=1.0,
    ),
)


@dataclass(frozen=True)
class FaultGroup:
    """All faults of one kind, the worst first."""

    kind: ClassVar[str] = "faults"
    about: FaultKind
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> tuple[Finding, ...]:
        """Those that are shown in full."""
        return self.findings[:IN_FULL]

    @property
    def others(self) -> tuple[Finding, ...]:
        """Those that only the table has."""
        return self.findings[IN_FULL:]

    @property
    def summary(self) -> str:
        """How many, and what their jobs held together."""
        held = {job.id: job.gpu_hours for finding in self.findings for job in finding.jobs}
        sure = sum(finding.certainty == SURE for finding in self.findings)
        count = len(self.findings)
        known = f"{sure:,} of them sure, the others likely"
        known = SURE if sure == count else known if sure else LIKELY
        held_in_all = f"{plural(len(held), 'job')}, {hours(sum(held.values()))} GPU-hours"
        return f"{plural(count, 'finding')} ({known}): {held_in_all}."

    @property
    def names_users(self) -> bool:
        """Whether they are about something else than users, such as arrays."""
        return any(finding.user != finding.subject for finding in self.findings)

    @property
    def note(self) -> str:
        """How they were counted, if all were counted in one way."""
        notes = {finding.note for finding in self.findings}
        return notes.pop() if len(notes) == 1 else ""

    @property
    def figure(self) -> Bars | None:
        """The worst of them as bars to one scale."""
        rows = tuple(finding.bar for finding in self.findings if finding.bar is not None)
        if not rows:
            return None
        more = len(rows) - MOST_BARS
        caption = self.about.caption + (f" The worst {MOST_BARS}; the table has all." if more > 0 else "")
        return Bars(self.about.figure, caption, rows[:MOST_BARS], self.about.parts, self.about.top)

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Each system that addresses one of them, once."""
        return tuple({(one.system, one.why): one for f in self.findings for one in f.remedies}.values())


def grouped(faults: Sequence[Finding]) -> tuple[FaultGroup, ...]:
    """The faults by kind, in the order of `KINDS`; within a kind in the order found."""
    groups = [FaultGroup(kind, tuple(one for one in faults if one.key == kind.key)) for kind in KINDS]
    return tuple(group for group in groups if group.findings)
