"""Ours against the authors' own simulators: completion times job by job, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rota.errors import InputError
from rota.model.units import plural
from rota.reports.finding import DataTable, TableCell, TableColumn, TableRow
from rota.reports.plain import json_text, plain
from rota.reports.table import as_markdown

_HALF_A_DIGIT = 0.0005 + 1e-9
"""A share that is given to three digits may be off by this."""
_SAME_S = 0.5
"""Completion times closer than this are equal to the second."""


@dataclass(frozen=True)
class Tolerance:
    """Tolerances that a case promises."""

    equal_share: float | None = None
    """Least share of jobs with completion times equal to the second; None promises nothing."""
    mean_within: float = 0.03
    """Largest relative difference of the mean completion times."""


@dataclass(frozen=True)
class CaseResult:
    """One case: a list of jobs under our policy and under the authors' simulator."""

    name: str
    reference: str
    """The reference, in words."""
    workload: str
    cluster: str
    policy: str
    jobs: int
    """Jobs in the reference."""
    unfinished: int
    """Jobs of the reference that did not finish in our run; no mean includes them, and the case fails."""
    equal: int
    """Jobs with completion times equal to the second."""
    ours_s: float
    """Mean job completion time of our run."""
    theirs_s: float
    """Mean of the reference, over these jobs."""
    worst_job: str
    """The job with the largest difference; empty if all are equal."""
    worst_s: float
    """Ours less theirs of that job."""
    engine_seconds: float
    """CPU seconds of our run."""
    tolerance: Tolerance
    in_time: float | None = None
    """Share of the jobs with a deadline that were planned in time in our run; None if it is not compared."""
    in_time_theirs: float | None = None
    """That share as the authors count it, to three digits."""
    note: str = ""
    """Where a known difference comes from."""

    @property
    def difference(self) -> float:
        """Relative difference of the means: ours / theirs - 1."""
        return (self.ours_s - self.theirs_s) / self.theirs_s if self.theirs_s else 0.0

    @property
    def in_time_differs(self) -> float:
        """How far apart both shares in time are; 0 where they are not compared."""
        if self.in_time_theirs is None:
            return 0.0
        return abs((self.in_time or 0.0) - self.in_time_theirs)

    @property
    def remark(self) -> str:
        """Remarks on the numbers."""
        if self.in_time is None or self.in_time_theirs is None:
            return self.note
        told = f"planned in time, of all jobs: {self.in_time:.3f} here, {self.in_time_theirs:.3f} there"
        return f"{told}; {self.note}" if self.note else told

    @property
    def equal_share(self) -> float:
        return self.equal / self.jobs

    @property
    def holds(self) -> bool:
        """True if the case keeps its promise."""
        least = self.tolerance.equal_share
        return (
            not self.unfinished
            and self.in_time_differs <= _HALF_A_DIGIT
            and abs(self.difference) <= self.tolerance.mean_within
            and (least is None or self.equal_share >= least)
        )

    @property
    def verdict(self) -> str:
        """`exact` if every job agrees to the second, else `holds` or `differs`."""
        if self.equal == self.jobs and self.holds:
            return "exact"
        return "holds" if self.holds else "differs"


@dataclass(frozen=True)
class Times:
    """Comparison of two runs of equal jobs."""

    jobs: int
    unfinished: int
    equal: int
    ours_s: float
    theirs_s: float
    worst_job: str
    worst_s: float


def compare_times(ours: pl.DataFrame, theirs: pl.DataFrame, source: str) -> Times:
    """Compare two tables with the columns `job_id` and `jct_s` (null in ours: not finished).

    Raises InputError if theirs (read from `source`) names a job that ours does not have.
    """
    joined = theirs.join(ours, on="job_id", how="left", suffix="_ours", maintain_order="left")
    unknown = theirs.join(ours, on="job_id", how="anti", maintain_order="left")
    if unknown.height:
        more = unknown.height - 1
        others = f" (nor {'is' if more == 1 else 'are'} {plural(more, 'other')})" if more else ""
        raise InputError.at(
            f"job {unknown['job_id'][0]} is not in the trace{others}",
            file=source,
            expected="results of the same workload",
        )
    done = joined.filter(pl.col("jct_s_ours").is_not_null())
    mine, reference = done["jct_s_ours"].to_numpy(), done["jct_s"].to_numpy()
    gaps = mine - reference
    worst = int(np.abs(gaps).argmax()) if len(gaps) else -1
    same = np.abs(gaps) < _SAME_S
    is_exact = bool(same.all())
    return Times(
        jobs=joined.height,
        unfinished=joined.height - done.height,
        equal=int(same.sum()),
        ours_s=float(mine.mean()) if len(gaps) else 0.0,
        theirs_s=float(reference.mean()) if len(gaps) else 0.0,
        worst_job="" if is_exact else str(done["job_id"][worst]),
        worst_s=0.0 if is_exact else float(gaps[worst]),
    )


def table(results: Sequence[CaseResult]) -> DataTable:
    """One line per case."""
    heads = ("ours", "theirs", "diff", "equal jobs", "worst job", "engine")
    rows = []
    for r in results:
        name, *numbers = _cells(r)
        verdict = TableCell(r.verdict, style="green" if r.holds else "bold red")
        cells = (*map(TableCell, numbers), TableCell(f"{r.engine_seconds:.1f}s"), verdict)
        rows.append(TableRow(name, cells))
    columns = (*map(TableColumn, heads), TableColumn("", is_text=True))
    return DataTable("Fidelity", "case", columns, tuple(rows))


def _cells(r: CaseResult) -> tuple[str, ...]:
    """Name, both means, their difference, jobs that agree, the one that agrees least."""
    worst = f"{r.worst_job} {r.worst_s:+,.0f}s" if r.worst_job else "-"
    equal = f"{r.equal:,}/{r.jobs:,}"
    return r.name, f"{r.ours_s:,.1f}s", f"{r.theirs_s:,.1f}s", f"{100 * r.difference:+.2f}%", equal, worst


def as_json(results: Sequence[CaseResult]) -> str:
    """A list of objects, one per case, with everything `CaseResult` has."""
    derived = ("difference", "equal_share", "in_time_differs", "holds", "verdict")
    return json_text([plain(r) | {name: getattr(r, name) for name in derived} for r in results])


_HEAD = """# Fidelity: ours against the authors' own simulators

How close does each policy come to the simulator that its authors published? Rota replays the same jobs
as that simulator, with the same timing rules, and compares the completion time of every job.

- *Exact*: every job completes in the same second. *Holds*: within the tolerance of the case.
- Columns *ours* and *theirs* are mean completion times.
- The cases are in `benchmarks/fidelity/`; `rota.reports.fidelity.page` printed this page from real runs.
- `PAPER@SOURCE` is a policy that follows published code where that departs from the paper.
  [systems/tiresias.md](systems/tiresias.md) compares `tiresias`, its literal reading
  `tiresias:order=first-start` and `tiresias@authors`, with the command.
"""


def page(results: Sequence[CaseResult]) -> str:
    """The text of `docs/fidelity.md`: one table per reference, in the order of the cases."""
    parts = [_HEAD]
    for reference in dict.fromkeys(r.reference for r in results):
        of_one = [r for r in results if r.reference == reference]
        parts.append(f"## {reference}\n\n{_markdown(of_one)}")
        for remark in dict.fromkeys(r.remark for r in of_one if r.remark):
            names = ", ".join(f"`{r.name}`" for r in of_one if r.remark == remark)
            parts.append(f"{names}: {remark}\n")
    return "\n".join(parts)


def _markdown(results: Sequence[CaseResult]) -> str:
    """Means and counts only: some inputs may not be published job by job, so no single job is named."""
    heads = ("case", "policy", "cluster", "ours", "theirs", "difference", "equal jobs", "")
    rows = []
    for r in results:
        name, *numbers, _ = _cells(r)
        rows.append((name, f"`{r.policy}`", r.cluster, *numbers, r.verdict))
    return as_markdown(heads, rows, numbers=range(3, 7))
