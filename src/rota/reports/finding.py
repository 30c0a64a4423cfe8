"""The content of a report, independent of its form: findings, tables, bars, and their sections.

`page` makes HTML of all of it, `terminal` text, `plain` values for JSON, and `tables` files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rota.reports.chart import Chart
from rota.reports.wording import percent

MOST_BARS = 12
"""Bars of a finding's figure."""

# -- parts of a page ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Paragraph:
    """Sentences; text in backticks is code."""

    kind: ClassVar[str] = "paragraph"
    text: str
    style: str = "note"
    """`note`, `verdict`, `verdict warning`; `title`; `code`, `code wrap` and `list` for lines; or empty."""


@dataclass(frozen=True)
class Terms:
    """Names and what each is; as a list of definitions unless `as_facts` sets them side by side."""

    kind: ClassVar[str] = "terms"
    pairs: tuple[tuple[str, str], ...]
    as_facts: bool = False


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, right of the names of its rows."""

    head: str
    means: str = ""
    """Its definition."""
    is_text: bool = False
    """Whether it holds words, aligned left and broken where there is no room."""
    is_name: bool = False
    """Whether `head` is the name of a policy or a tenant, which may be broken between its parts."""
    curve: int | None = None
    """Number of the policy with the line drawn before the head; None for no line."""
    dashed: bool = False
    """True for a dashed line: of observed values, or of a bound."""
    sorts: bool = True
    """False if its values have several units, and so no order."""


@dataclass(frozen=True)
class TableCell:
    """A value as it is read."""

    text: str
    below: tuple[str, ...] = ()
    """Smaller lines below it: its margin, its change."""
    value: float | None = None
    """The value that a page sorts by."""
    best: bool = False
    style: str = ""
    """How a terminal shows it."""


@dataclass(frozen=True)
class TableRow:
    """A name and a cell for each column."""

    name: str
    cells: tuple[TableCell, ...]
    below: tuple[str, ...] = ()
    """Smaller lines below the name."""
    curve: int | None = None
    """Number of the policy with the line drawn before the name; None for no line."""
    ranked: bool = True
    """False for rows that are not compared: observed values, or a bound."""
    means: str = ""
    """Definition of `name`, where that is a key."""
    style: str = ""
    """How a terminal shows the name."""

    @property
    def texts(self) -> list[str]:
        """The text of each cell."""
        return [cell.text for cell in self.cells]


@dataclass(frozen=True)
class DataTable:
    """Rows under columns: for a page, a terminal or a file."""

    kind: ClassVar[str] = "table"
    title: str
    """Its name for screen readers; printed above it if `has_caption`."""
    head: str
    """Of the names of the rows."""
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    has_caption: bool = False
    style: str = "cards"
    """Classes of the style sheet, such as `headline cards sortable`."""

    starred: bool = False
    """Whether a terminal marks the best of a column by a star."""

    @property
    def sortable(self) -> bool:
        """Whether a script sorts it by the values of its cells."""
        return "sortable" in self.style

    @classmethod
    def of_texts(
        cls,
        title: str,
        heads: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        numbers: Collection[str] = (),
        has_caption: bool = False,
    ) -> DataTable:
        """A table of texts: `heads` and each row begin with the name; columns headed `numbers` hold such."""
        columns = tuple(TableColumn(head, is_text=head not in numbers) for head in heads[1:])
        lines = tuple(TableRow(name, tuple(map(TableCell, cells))) for name, *cells in rows)
        return cls(title, heads[0], columns, lines, has_caption)


@dataclass(frozen=True)
class Bar:
    """One row of a figure of bars."""

    name: str
    parts: tuple[float, ...]
    """Length of each part, in the unit of the figure."""
    text: str
    """Its figure in words."""
    curve: int | None = None
    """Number of the policy with the line drawn before the name; None for no line."""
    ranked: bool = True
    """False for a line of observations or of a bound."""
    each: tuple[str, ...] = ()
    """Each part in words, where that is said."""


@dataclass(frozen=True)
class Bars:
    """Rows of bars to one scale; equal parts have equal meaning in all rows."""

    kind: ClassVar[str] = "bars"
    title: str
    caption: str
    rows: tuple[Bar, ...]
    parts: tuple[str, ...] = ()
    """Names of the parts, where there are several."""
    top: float = 0.0
    """Value of a full row; the longest row if 0."""

    @classmethod
    def of(
        cls,
        title: str,
        caption: str,
        rows: Sequence[tuple[str, Sequence[float], str]],
        parts: Sequence[str] = (),
        top: float = 0.0,
    ) -> Bars:
        """Rows of name, lengths and words; those beyond `MOST_BARS` are left out, and the caption says so."""
        more = len(rows) - MOST_BARS
        said = f"{caption} {more:,} more are not shown." if more > 0 else caption
        shown = tuple(Bar(name, tuple(lengths), text) for name, lengths, text in rows[:MOST_BARS])
        return cls(title, said, shown, tuple(parts), top)

    @classmethod
    def shares(cls, title: str, caption: str, rows: Iterable[tuple[str, float]]) -> Bars:
        """Rows of name and share, 0 to 1, all of 1."""
        return cls.of(title, caption, [(name, (of,), percent(of)) for name, of in rows], top=1.0)

    @property
    def scale(self) -> float:
        """Value of a full row."""
        return self.top or max((sum(row.parts) for row in self.rows), default=0.0) or 1.0

    def has(self, part: int) -> bool:
        """Whether any row shows the part of that number."""
        return any(row.parts[part] > 0 for row in self.rows)

    def said(self, row: Bar) -> list[tuple[str, str]]:
        """Name and words of each part of `row` that can be seen."""
        known = zip(self.parts, row.each, row.parts, strict=True)
        return [(name, text) for name, text, length in known if length > 0.0005 * self.scale]


Figure = Chart | Bars


@dataclass(frozen=True)
class Details:
    """Parts that are folded away below their title."""

    kind: ClassVar[str] = "details"
    title: str
    parts: tuple[object, ...]


@dataclass(frozen=True)
class Section:
    """A part of a page under one title."""

    key: str
    title: str
    parts: tuple[object, ...]
    style: str = ""


@dataclass(frozen=True)
class ReportPage:
    """A self-contained page, in one file and without a script."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    notes: tuple[Paragraph, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


# -- findings -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gain:
    """The effect of another policy on the trace's jobs, measured by replaying them."""

    policy: str
    against: str
    metric: str
    """Key of `docs/metrics.md`."""
    before: float
    after: float
    sentence: str
    """The gain in words."""


@dataclass(frozen=True)
class Replay:
    """One way to run the jobs of a trace again, in the words of `rota simulate`."""

    policy: str
    knowledge: str = ""
    """Empty for the knowledge that all replays get."""
    retries: str = ""
    """As the trace did if empty."""
    spread: bool = False
    """Whether a gang on more nodes than it needs runs slower."""

    @property
    def words(self) -> str:
        """The policy with the particulars of the run."""
        more = [self.knowledge, f"retries {self.retries}" if self.retries else ""]
        more.append("spread gangs slower" if self.spread else "")
        said = ", ".join(part for part in more if part)
        return f"{self.policy} ({said})" if said else self.policy


@dataclass(frozen=True)
class Remedy:
    """A system on Rota's list that addresses a finding."""

    system: str
    page: str
    """Its page below docs/."""
    why: str
    """Its effect on the finding, in a few words."""
    replay: Replay | None = None
    """None if nothing can be replayed for it."""
    against: Replay | None = None
    """The replay to compare with; the site's own policy if None."""
    metric: str = "mean_waiting_s"
    gain: Gain | None = None


SURE, LIKELY = "sure", "likely"


@dataclass(frozen=True)
class NamedJob:
    """One job that a fault is about, as its user knows it."""

    id: str
    name: str
    node_set: str
    """Partition; empty if there is none."""
    submitted: str
    """Day and time; seconds where the trace has no dates."""
    gpus: int
    run_s: float
    gpu_hours: float
    outcome: str


@dataclass(frozen=True)
class Finding:
    """One thing that the data says."""

    kind: ClassVar[str] = "finding"
    key: str
    """The kind of finding, by a word common to all traces."""
    study: str
    sentence: str
    value: float
    unit: str
    fault: bool = False
    """True if it calls for action: it then names a subject."""
    subject: str = ""
    """The subject of a fault: a user, an array, a partition."""
    numbers: Mapping[str, object] = field(default_factory=dict)
    """What stands behind the sentence, for programs."""
    figure: Figure | None = None
    remedies: tuple[Remedy, ...] = ()
    note: str = ""
    """How it was counted, where that is not obvious."""
    certainty: str = ""
    """Of a fault: `sure` or `likely`."""
    evidence: str = ""
    """Of a fault: what makes it so sure, in a few words."""
    user: str = ""
    """Of a fault: the user to tell."""
    jobs: tuple[NamedJob, ...] = ()
    """Of a fault: all jobs that it is about."""
    bar: Bar | None = None
    """Of a fault: its row in the figure of all faults of its kind."""

    @property
    def how_sure(self) -> str:
        """`Sure: run times and limits are on record.`; empty if it is no fault."""
        return f"{self.certainty.capitalize()}: {self.evidence}." if self.certainty else ""


@dataclass(frozen=True)
class Unsaid:
    """What this data cannot tell."""

    study: str
    what: str
    needs: str
    """The column that is missing, or why the one that is there does not do."""


@dataclass(frozen=True)
class Said:
    """Findings of one study, and the questions it could not answer."""

    findings: tuple[Finding, ...] = ()
    unsaid: tuple[Unsaid, ...] = ()

    @classmethod
    def one(cls, finding: Finding) -> Said:
        """A single finding, and no gap."""
        return cls((finding,))

    @classmethod
    def gap(cls, study: str, what: str, needs: str) -> Said:
        """Nothing but what cannot be said, and the column that is missing for it."""
        return cls(unsaid=(Unsaid(study, what, needs),))

    @classmethod
    def together(cls, several: Iterable[Said]) -> Said:
        """All of them as one, in their order."""
        listed = list(several)
        return cls(
            tuple(finding for said in listed for finding in said.findings),
            tuple(gap for said in listed for gap in said.unsaid),
        )
