"""What a study hands back: findings, each a sentence with its number, and what could not be said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rota.reports.chart import Chart


@dataclass(frozen=True)
class Bar:
    """One row of a figure of bars."""

    name: str
    parts: tuple[float, ...]
    """Length of each part, in the unit of the figure."""
    text: str
    """What stands behind it."""


@dataclass(frozen=True)
class Bars:
    """Rows of bars to one scale; the parts of all rows mean the same."""

    title: str
    caption: str
    rows: tuple[Bar, ...]
    parts: tuple[str, ...] = ()
    """Names of the parts, where there are several."""
    top: float = 0.0
    """What a full row stands for; the longest row if 0."""

    @property
    def scale(self) -> float:
        """What a full row stands for."""
        return self.top or max((sum(row.parts) for row in self.rows), default=0.0) or 1.0


Figure = Chart | Bars


@dataclass(frozen=True)
class Gain:
    """What another policy made of the same jobs, measured by replaying them."""

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
    """Empty for what all replays are told."""
    retries: str = ""
    """As the trace did if empty."""
    spread: bool = False
    """Whether a gang on more nodes than it needs runs slower."""

    @property
    def words(self) -> str:
        """The policy with what is particular about the run."""
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
    """What it does about it, in a few words."""
    replay: Replay | None = None
    """None if nothing can be replayed for it."""
    against: Replay | None = None
    """What to replay beside it; what the site ran if None."""
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

    key: str
    """What kind of finding it is: the same word for every trace."""
    study: str
    sentence: str
    value: float
    unit: str
    fault: bool = False
    """True if somebody should act on it: it names who or what."""
    subject: str = ""
    """Whom or what a fault is about: a user, an array, a partition."""
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
        """`Sure: run times and limits are on record.`; empty for what is no fault."""
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
    """What one study found, and what it could not say."""

    findings: tuple[Finding, ...] = ()
    unsaid: tuple[Unsaid, ...] = ()

    @classmethod
    def together(cls, several: Iterable[Said]) -> Said:
        """All of them as one, in their order."""
        listed = list(several)
        return cls(
            tuple(finding for said in listed for finding in said.findings),
            tuple(gap for said in listed for gap in said.unsaid),
        )


def percent(share: float) -> str:
    """`45%`, `7.3%`, `0.04%`: two digits that matter below ten per cent."""
    hundredths = 100 * share
    if hundredths >= 9.95 or hundredths == 0:
        return f"{hundredths:.0f}%"
    return f"{hundredths:.1f}%" if hundredths >= 0.095 else f"{hundredths:.2g}%"


def hours(amount: float) -> str:
    """GPU-hours as people read them."""
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def gpu_count(amount: float) -> str:
    """GPUs as people read them: `405`, and `1.4` where MIG slices or shares leave parts below ten."""
    return f"{amount:,.0f}" if amount >= 10 or amount == round(amount) else f"{amount:.2g}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """`a, b and c`, or `a, b, c and 4 more`."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""
