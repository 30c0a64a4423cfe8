"""A trace: a history of jobs, as a reader or a generator hands it to a world."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from rota.errors import shown
from rota.model.columns import Bools, Floats, Ints
from rota.model.jobs import JobTable, RecordedRun, Truth
from rota.model.units import plural

DROPPED = "dropped: "
"""Prefix of `OddRows.done` for rows that are not in the trace."""
EXAMPLES = 5
"""Rows of a kind that are named."""


@dataclass(frozen=True)
class OddRows:
    """Rows of a file that are not ordinary jobs, and how they were treated."""

    what: str
    """The oddity, for instance `zero duration`."""
    done: str
    """How they were treated: `dropped`, `kept`, `kept as CPU jobs`, ..."""
    count: int
    examples: tuple[str, ...] = ()
    """Up to five of them, as `row 17 (job 4711)`."""

    @property
    def is_left_out(self) -> bool:
        """True if these rows are not in the trace."""
        return self.done.startswith(DROPPED)

    def __str__(self) -> str:
        """One sentence: the number of rows, the first of them, what is odd, and what became of them."""
        named = ", ".join(self.examples) + (" ..." if self.count > len(self.examples) else "")
        noun = "job" if self.examples and self.examples[0].startswith("job ") else "row"
        rows = plural(self.count, noun) + (f" ({named})" if self.examples else "")
        why = self.done.removeprefix(DROPPED)
        return (
            f"Left out: {rows}: {self.what}; {why}." if self.is_left_out else f"{rows}: {self.what}; {why}."
        )


@dataclass(frozen=True, repr=False)
class Trace:
    """Jobs with their truth, what was observed, and what the reader noticed.

    All tables have one row per job, sorted by submission (stable: ties keep the file's order).
    """

    jobs: JobTable
    truth: Truth
    source: str
    """File or generator it came from."""
    format: str
    observed: RecordedRun | None = None
    odd: tuple[OddRows, ...] = ()
    facts: dict[str, object] = field(default_factory=dict)
    """Anything else worth printing: time zone, reference GPU type, seed ..."""

    @property
    def calendar(self) -> dict[str, object]:
        """`epoch` (the moment of second 0, on the wall clock of `time_zone`) where the trace has dates."""
        return {key: self.facts[key] for key in ("epoch", "time_zone") if key in self.facts}

    def ran_s(self) -> Floats:
        """Seconds that each job really held its GPUs, over all its attempts, interrupted ones included.

        NaN where that is not known.  `Truth.run_s` is less: what the job needs if it is left to run.
        """
        run_s = self.truth.run_s()
        return run_s if self.observed is None else run_s + self.observed.interrupted_s()

    @property
    def is_undated(self) -> Bools:
        """True for jobs that ran at an unrecorded time, in a trace that records it for others."""
        seen = self.observed
        if seen is None or not np.isfinite(seen.start_s).any():
            return np.zeros(len(self), dtype=np.bool_)
        return np.asarray(np.isnan(seen.start_s) & (self.ran_s() > 0))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Facts for readers of any figure: each kind of row of the file that is left out, and what is
        unknown."""
        left_out = tuple(str(odd) for odd in self.odd if odd.is_left_out)
        undated = int(self.is_undated.sum())
        if not undated:
            return left_out
        ran = int((self.ran_s() > 0).sum())
        return (
            *left_out,
            f"When {undated:,} of {plural(ran, 'job')} that ran did so is not recorded: they count in "
            "GPU-hours and outcomes, not in waits nor in what was held at a moment.",
        )

    def __repr__(self) -> str:
        """One line, whatever the number of jobs."""
        return f"<Trace of {plural(len(self), 'job')}: {shown(self.source)} ({self.format})>"

    def __len__(self) -> int:
        return len(self.jobs)

    def take(self, rows: Ints) -> Trace:
        """The trace of `rows` only."""
        observed = self.observed.take(rows) if self.observed else None
        return replace(self, jobs=self.jobs.take(rows), truth=self.truth.take(rows), observed=observed)

    def by_submission(self) -> Trace:
        """The trace with rows sorted by submission, ties in their present order."""
        order = np.argsort(self.jobs.submit_s, kind="stable")
        return self if bool((order[1:] > order[:-1]).all()) else self.take(order)
