"""All studies of a trace, in the order for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rota.errors import shown
from rota.model.cluster import Cluster
from rota.model.gpu_slices import said_of_slices
from rota.model.trace import OddRows, Trace
from rota.model.whole_gpus import slice_hours, types_held
from rota.model.words import hours
from rota.reports.finding import Bars, Finding, Said, Unsaid
from rota.reports.findings import (
    arrays,
    failures,
    limits,
    locality,
    partitions,
    queueing,
    tenants,
    utilisation,
    workload,
)
from rota.reports.findings.faults import KINDS, FaultGroup, grouped
from rota.reports.findings.history import HOUR_S, JobHistory
from rota.reports.findings.pools import Pools
from rota.reports.findings.thresholds import Thresholds
from rota.reports.plain import plain
from rota.reports.wording import gpu_count


@dataclass(frozen=True)
class Analysis:
    """The analysis of a trace, ready for a terminal, a program or a page."""

    source: str
    format: str
    facts: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    unsaid: tuple[Unsaid, ...]
    thresholds: Thresholds
    checked: tuple[str, ...]
    """Kinds of faults that this data was searched for."""
    odd: Sequence[OddRows] = ()
    remarks: tuple[str, ...] = field(default_factory=tuple)

    @property
    def groups(self) -> tuple[FaultGroup, ...]:
        """The faults by kind."""
        return grouped(self.faults)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What should be acted on."""
        return tuple(finding for finding in self.findings if finding.fault)

    def of(self, study: str) -> tuple[Finding, ...]:
        """The findings of one study, faults left out."""
        return tuple(one for one in self.findings if one.study == study and not one.fault)

    def with_findings(self, findings: Sequence[Finding], remarks: Sequence[str] = ()) -> Analysis:
        """This analysis with gains filled in."""
        return replace(self, findings=tuple(findings), remarks=(*self.remarks, *remarks))

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON: keys and units are stable, sentences are not."""
        return {
            "source": self.source,
            "format": self.format,
            "facts": dict(self.facts),
            "faults": [_plain(one) for one in self.faults],
            "findings": [_plain(one) for one in self.findings if not one.fault],
            "unsaid": plain(self.unsaid),
            "checked": list(self.checked),
            "thresholds": plain(self.thresholds),
            "remarks": list(self.remarks),
        }


def _plain(finding: Finding) -> dict[str, object]:
    figure = finding.figure
    rows = figure.rows if isinstance(figure, Bars) else None
    return {
        **{name: getattr(finding, name) for name in ("key", "study", "sentence", "value", "unit")},
        **{name: getattr(finding, name) or None for name in ("subject", "user", "certainty", "evidence")},
        "job_ids": [job.id for job in finding.jobs],
        "numbers": plain(finding.numbers),
        "note": finding.note or None,
        "figure": None if figure is None else figure.title,
        "bars": None
        if rows is None
        else [{"name": row.name, "parts": list(row.parts), "text": row.text} for row in rows],
        "remedies": [
            {"system": one.system, "page": one.page, "why": one.why, "gain": plain(one.gain)}
            for one in finding.remedies
        ],
    }


def study(trace: Trace, cluster: Cluster | None = None, thresholds: Thresholds | None = None) -> Analysis:
    """All findings of `trace`; `cluster` as stated; None takes what its jobs show of it."""
    limits_ = thresholds or Thresholds()
    history = JobHistory.of(trace, cluster)
    pools = Pools.of(history)
    said = Said.together(
        (
            utilisation.study(history, pools, limits_),
            queueing.study(history, pools),
            partitions.study(history, pools, limits_),
            locality.study(history, limits_),
            failures.study(history, limits_),
            arrays.study(history, limits_),
            workload.study(history, pools),
            limits.study(history, limits_),
            tenants.study(history),
        )
    )
    gaps = {gap.what for gap in said.unsaid}
    return Analysis(
        source=trace.source,
        format=trace.format,
        facts=_facts(history, pools),
        findings=said.findings,
        unsaid=said.unsaid,
        thresholds=limits_,
        checked=tuple(kind.searched for kind in KINDS if kind.gap not in gaps),
        odd=trace.odd,
        remarks=(*trace.remarks, *filter(None, (_slices(history),))),
    )


def _slices(history: JobHistory) -> str:
    """What hours of MIG slices count as; empty if there are none."""
    trace = history.trace
    device_hours = np.where(history.ran, trace.jobs.gpus * trace.jobs.gpu_share * history.run_s / HOUR_S, 0.0)
    return said_of_slices(slice_hours(types_held(trace), device_hours))


def _facts(history: JobHistory, pools: Pools) -> tuple[tuple[str, str], ...]:
    low_s, high_s = history.span_s
    facts = [("Trace", f"{shown(history.trace.source)} ({history.trace.format})")]
    facts.append(("Jobs", f"{len(history.trace):,}"))
    if history.ran.any():
        facts.append(("GPU-hours", hours(float(history.gpu_hours.sum()))))
    if history.starts:
        facts.append(
            ("GPUs", gpu_count(pools.capacity) + ("" if history.cluster else " at the busiest moment"))
        )
    if history.clock:
        facts.append(("Submitted", f"{history.clock.day(low_s)} to {history.clock.day(high_s)}"))
    return tuple(facts)
