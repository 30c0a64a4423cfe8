"""Rows of one job in a Slurm accounting dump: its attempts, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.traces.sacct_rows import ID
from rota.traces.table import TextTable

_WHO = ("Cluster", "User", "JobName")
"""Fields that tell apart two jobs that have the same number: of two clusters, or of two years."""


@dataclass(frozen=True)
class SacctAttempts:
    """What the rows of each job say together; arrays are by job, in the order of the jobs' last rows.

    A requeued job is submitted again, so that its attempts come in the order of their submissions.
    """

    is_last: Bools
    """Of each row of the dump: whether it is the last one of its job, which stands for it."""
    first: Ints
    """Row of the dump with the job's first submission."""
    ran: Ints
    """Row of the dump of the last attempt that ran; the last row if none did."""
    start_s: Floats
    """Start of the first attempt that ran; NaN if none did."""
    end_s: Floats
    """End of the last row; that of the last attempt that ran if the job waits again."""
    elapsed_s: Floats
    """Seconds run by the last attempt that ran; NaN if there is none or nobody recorded it."""
    wait_s: Floats
    """From the first submission to the first start."""
    earlier: Mapping[int, tuple[float, ...]]
    """By job: seconds run by the attempts before the last one, for jobs that have several."""

    earlier_rows: Mapping[int, tuple[int, ...]]
    """By job: rows of the dump with those attempts."""

    def failures(self) -> dict[int, tuple[float, ...]]:
        """Run times of the attempts before the last one, as `Truth` has them."""
        return dict(self.earlier)

    @classmethod
    def of(
        cls, table: TextTable, submit_s: Floats, start_s: Floats, end_s: Floats, elapsed_s: Floats
    ) -> SacctAttempts:
        """The attempts in `table`, whose rows were submitted, started, ended and ran as the arrays say."""
        groups = _groups(table, submit_s, end_s)
        is_last = np.zeros(len(table), dtype=np.bool_)
        is_last[[rows[-1] for rows in groups]] = True
        ran = [[row for row in rows if np.isfinite(start_s[row])] for rows in groups]
        n = len(groups)
        started, ended, lasted = (np.full(n, np.nan) for _ in range(3))
        earlier, earlier_rows = {}, {}
        for job, (rows, runs) in enumerate(zip(groups, ran, strict=True)):
            ended[job] = end_s[rows[-1]]
            if runs:
                started[job], lasted[job] = start_s[runs[0]], elapsed_s[runs[-1]]
                ended[job] = end_s[runs[-1]] if np.isnan(ended[job]) and runs[-1] != rows[-1] else ended[job]
            if len(runs) > 1:
                timed = [row for row in runs[:-1] if not np.isnan(elapsed_s[row])]
                earlier[job], earlier_rows[job] = tuple(elapsed_s[timed].tolist()), tuple(timed)
        first = np.array([rows[0] for rows in groups], dtype=np.int64)
        last_run = [(runs or rows)[-1] for rows, runs in zip(groups, ran, strict=True)]
        return cls(
            is_last,
            first,
            np.array(last_run, dtype=np.int64),
            started,
            ended,
            lasted,
            started - submit_s[first],
            earlier,
            earlier_rows,
        )


def _groups(table: TextTable, submit_s: Floats, end_s: Floats) -> list[list[int]]:
    """Rows of each job in the order of their submissions, one of each attempt; sorted by the last of them.

    Where an attempt is in the file twice, from two dumps, the row counts in which it has ended.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, key in enumerate(_keys(table)):
        groups.setdefault(key, []).append(row)
    alone = [rows for rows in groups.values() if len(rows) == 1]
    several = [_one_each(rows, submit_s, end_s) for rows in groups.values() if len(rows) > 1]
    return sorted(alone + several, key=lambda rows: rows[-1])


def _keys(table: TextTable) -> list[tuple[str, ...]]:
    columns: list[Sequence[str]] = [table.text(table.first_of(*ID)).str.strip_chars().to_list()]
    columns += [table.text(name).to_list() for name in _WHO if table.has(name)]
    return list(zip(*columns, strict=True))


def _one_each(rows: list[int], submit_s: Floats, end_s: Floats) -> list[int]:
    attempts: dict[float, int] = {}
    for row in rows:
        known = attempts.get(submit_s[row])
        if known is None or np.isnan(end_s[known]) or not np.isnan(end_s[row]):
            attempts[submit_s[row]] = row
    return [attempts[moment] for moment in sorted(attempts)]
