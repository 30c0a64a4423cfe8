"""Running jobs, kept from one decision to the next."""

from __future__ import annotations

from collections.abc import Iterable

from rota.systems.hived.cells import Gang


class Runners:
    """Running gangs, by row and by gang; a decision changes both."""

    def __init__(self, gang_of: dict[int, Gang], row_of: dict[Gang, int]) -> None:
        self.gang_of, self.row_of = gang_of, row_of
        self.low: set[int] = set()
        """Rows without a guarantee, once they are noted."""

    def note(self, rows: Iterable[int]) -> None:
        """Determine again which of `rows` run without a guarantee."""
        for row in rows:
            gang = self.gang_of.get(row)
            if gang is None or gang.virtual:
                self.low.discard(row)
            else:
                self.low.add(row)

    def leave(self, row: int) -> None:
        """Remove `row`, which does not run any more."""
        del self.row_of[self.gang_of.pop(row)]
        self.low.discard(row)
