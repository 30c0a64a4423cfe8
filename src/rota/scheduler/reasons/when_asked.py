"""Why jobs wait, computed on request: a decision about thousands of jobs writes no thousands of sentences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from rota.model.reasons import Constraint


class ReasonsWhenAsked(Mapping[int, Constraint]):
    """The reasons of a decision by row; it is there until the policy decides again."""

    @abstractmethod
    def of(self, row: int) -> Constraint | None:
        """Why `row` waits; None if no reason is given."""

    @abstractmethod
    def rows(self) -> Iterable[int]:
        """Rows that have a reason, each once."""

    def __getitem__(self, row: int) -> Constraint:
        reason = self.of(row)
        if reason is None:
            raise KeyError(row)
        return reason

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.rows()))

    def __len__(self) -> int:
        return sum(1 for _ in self.rows())
