"""Why jobs wait, made out when somebody asks: a decision about thousands writes no thousands of sentences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from rota.model.reasons import Constraint


class ReasonsWhenAsked(Mapping[int, Constraint]):
    """The reasons of a decision by row; it is there until the policy decides again."""

    @abstractmethod
    def of(self, row: int) -> Constraint | None:
        """Why `row` waits; None if nothing is said of it."""

    @abstractmethod
    def rows(self) -> Iterable[int]:
        """Rows of which something is said, each once."""

    def __getitem__(self, row: int) -> Constraint:
        reason = self.of(row)
        if reason is None:
            raise KeyError(row)
        return reason

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.rows()))

    def __len__(self) -> int:
        return sum(1 for _ in self.rows())
