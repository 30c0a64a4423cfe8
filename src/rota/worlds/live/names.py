"""What `after` may name: a job by its id, or all jobs of an array by its number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rota.wire.job import array_of


class Names:
    """Rows by what they are called."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._rows: dict[str, int] = {}
        self._arrays: dict[str, list[int]] = {}
        for row, job_id in enumerate(ids):
            self.add(job_id, row)

    def add(self, job_id: str, row: int) -> None:
        """The job of `row` has this id."""
        self._rows[job_id] = row
        if "_" in job_id:
            self._arrays.setdefault(array_of(job_id), []).append(row)

    def rows(self, name: str) -> Sequence[int]:
        """Rows of the jobs that `name` stands for; none if it stands for nothing."""
        if name in self._arrays:
            return self._arrays[name]
        return (self._rows[name],) if name in self._rows else ()
