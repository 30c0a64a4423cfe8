"""Rows of one job in a Slurm accounting dump: its attempts in succession."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.model.jobs import PREEMPTED, REQUEUED, Interruption
from rota.traces.sacct_rows import ID
from rota.traces.table import TextTable

FAILING = ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "LAUNCH_FAILED", "DEADLINE")
"""States of attempts that failed."""
ENDED = ("COMPLETED", "CANCELLED", "REVOKED")
"""States after which a job is not tried again."""
_WHO = ("Cluster", "User", "JobName")
"""Fields that distinguish two jobs with one number: of two clusters, or of two years."""


@dataclass(frozen=True)
class SacctAttempts:
    """The attempts of each job, from all its rows; arrays are by job, in the order of the jobs' last rows.

    A requeued job is submitted again, so that the order of its attempts is that of their submissions. The
    state of an earlier attempt says whether it failed, was preempted or was put back. If it completed or was
    cancelled, the job had ended, and later rows of its number are another job. A job whose size is changed
    has several rows for one attempt: each but the last says RESIZING, and the next row is submitted and
    starts when it ends.
    """

    is_last: Bools
    """For each row of the dump, whether it is the last one of its job and represents it."""
    first: Ints
    """Row of the dump with the job's first submission."""
    ran: Ints
    """Row of the dump of the last attempt that ran, at the size it had longest; the last row if none did."""
    resized: Bools
    """For each job, whether it had several sizes in one attempt."""
    start_s: Floats
    """Start of the first attempt that ran; NaN if none did, or if it is not recorded."""
    end_s: Floats
    """End of the last row; that of the last attempt that ran if the job waits again."""
    elapsed_s: Floats
    """Seconds run by the last attempt that ran, at all its sizes; NaN if none did or if not recorded."""
    wait_s: Floats
    """Seconds from the first submission to the first start."""
    several: frozenset[int]
    """Jobs with several attempts that ran."""
    failures: Mapping[int, tuple[float, ...]]
    """By job: seconds run by failed attempts before the last one, as in `Truth`."""
    failed_rows: Mapping[int, tuple[int, ...]]
    """By job: rows of the dump with those attempts; the last row of each."""
    interruptions: Mapping[int, tuple[Interruption, ...]]
    """By job: attempts before the last one that did not fail, as in `RecordedRun`."""

    @classmethod
    def of(
        cls,
        table: TextTable,
        submit_s: Floats,
        start_s: Floats,
        end_s: Floats,
        elapsed_s: Floats,
        states: Sequence[str],
    ) -> SacctAttempts:
        """The attempts in `table`; the arrays say when its rows were submitted, started and ended and how
        long they ran.

        `states` are their states, in one word each.
        """
        resizing = np.array([state == "RESIZING" for state in states], dtype=np.bool_)
        groups = _groups(table, submit_s, start_s, end_s, states, resizing)
        has_run = np.isfinite(start_s) | (elapsed_s > 0)
        is_last = np.zeros(len(table), dtype=np.bool_)
        is_last[[rows[-1] for rows in groups]] = True
        ran = [_runs([row for row in rows if has_run[row]], resizing) for rows in groups]
        n = len(groups)
        started, ended, lasted = (np.full(n, np.nan) for _ in range(3))
        several: set[int] = set()
        failures, failed_rows, interruptions = {}, {}, {}
        for job, (rows, runs) in enumerate(zip(groups, ran, strict=True)):
            ended[job] = end_s[rows[-1]]
            if runs:
                last = runs[-1]
                started[job], lasted[job] = start_s[runs[0][0]], elapsed_s[last].sum()
                ended[job] = end_s[last[-1]] if np.isnan(ended[job]) and last[-1] != rows[-1] else ended[job]
            if len(runs) > 1:
                several.add(job)
                timed = [run for run in runs[:-1] if not np.isnan(elapsed_s[run]).any()]
                failing = [run for run in timed if states[run[-1]] in FAILING]
                if failing:
                    failures[job] = tuple(float(elapsed_s[run].sum()) for run in failing)
                    failed_rows[job] = tuple(run[-1] for run in failing)
                if len(failing) < len(timed):
                    interruptions[job] = tuple(
                        Interruption(
                            float(elapsed_s[run].sum()),
                            PREEMPTED if states[run[-1]] == "PREEMPTED" else REQUEUED,
                        )
                        for run in timed
                        if run not in failing
                    )
        first = np.array([rows[0] for rows in groups], dtype=np.int64)
        lasting_s = np.nan_to_num(elapsed_s)
        ran_rows = [
            max(runs[-1], key=lasting_s.__getitem__) if runs else rows[-1]
            for rows, runs in zip(groups, ran, strict=True)
        ]
        return cls(
            is_last,
            first,
            np.array(ran_rows, dtype=np.int64),
            np.array([any(len(run) > 1 for run in runs) for runs in ran], dtype=np.bool_),
            started,
            ended,
            lasted,
            started - submit_s[first],
            frozenset(several),
            failures,
            failed_rows,
            interruptions,
        )


def _runs(rows: list[int], resizing: Bools) -> list[list[int]]:
    """The rows of each attempt: a row after one that ended by a change of size continues its attempt."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and resizing[runs[-1][-1]]:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _groups(
    table: TextTable,
    submit_s: Floats,
    start_s: Floats,
    end_s: Floats,
    states: Sequence[str],
    resizing: Bools,
) -> list[list[int]]:
    """Rows of each job in the order of their submissions, one of each attempt; sorted by the last of them.

    If an attempt is in the file twice, from two dumps, the row in which it has ended counts. Rows after one
    that ended for good belong to another job.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, key in enumerate(_keys(table)):
        groups.setdefault(key, []).append(row)
    alone = [rows for rows in groups.values() if len(rows) == 1]
    several = [
        own
        for rows in groups.values()
        if len(rows) > 1
        for own in _until_ended(_one_each(rows, submit_s, start_s, end_s, resizing), states)
    ]
    return sorted(alone + several, key=lambda rows: rows[-1])


def _until_ended(rows: list[int], states: Sequence[str]) -> list[list[int]]:
    """`rows` of one number, divided after each that ended for good."""
    jobs: list[list[int]] = [[]]
    for row in rows:
        jobs[-1].append(row)
        if states[row] in ENDED and row != rows[-1]:
            jobs.append([])
    return jobs


def _keys(table: TextTable) -> list[tuple[str, ...]]:
    columns: list[Sequence[str]] = [table.text(table.first_of(*ID)).str.strip_chars().to_list()]
    columns += [table.text(name).to_list() for name in _WHO if table.has(name)]
    return list(zip(*columns, strict=True))


def _one_each(
    rows: list[int], submit_s: Floats, start_s: Floats, end_s: Floats, resizing: Bools
) -> list[int]:
    """One of `rows` for each submission, and for each start of those that ended by a change of size."""
    attempts: dict[tuple[float, float], int] = {}
    for row in rows:
        key = float(submit_s[row]), float(start_s[row]) if resizing[row] else np.inf
        known = attempts.get(key)
        if known is None or np.isnan(end_s[known]) or not np.isnan(end_s[row]):
            attempts[key] = row
    return [attempts[key] for key in sorted(attempts)]
