"""Error for jobs that a table of speeds lacks: it lists all, so that a caller may leave them out."""

from __future__ import annotations

from collections.abc import Iterable

from rota.errors import InputError
from rota.model.columns import Ints
from rota.model.jobs import JobTable


class UnmeasuredError(InputError):
    """A table of speeds does not know some jobs; the message names the first."""

    rows: tuple[int, ...] = ()
    """The rows of these jobs in the trace."""
    problem: str = ""
    """What is missing for the first of them, without its name."""
    expected: str = ""

    @classmethod
    def of(
        cls, jobs: JobTable, rows: Iterable[int] | Ints, problem: str, *, file: str, expected: str
    ) -> UnmeasuredError:
        """The error for `rows`; `problem` is that of the first: `runs 'x', which is not measured`."""
        own = tuple(int(row) for row in rows)
        sentence = InputError.at(f"job {jobs.ids[own[0]]} {problem}", file=file, expected=expected)
        error = cls(str(sentence))
        error.rows, error.problem, error.expected = own, problem, expected
        return error
