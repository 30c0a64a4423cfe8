"""What a policy means to give each job: shown on request, and never enforced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

PART_OF_TIME = "part of its time"
GPUS = "GPUs"
RHO = "ρ"
"""Names that several policies use, each a column heading."""


class Targets(Mapping[int, float]):
    """By row; computed by `make` once, on first access."""

    def __init__(self, make: Callable[[], Mapping[int, float]]) -> None:
        self._make = make
        self._made: Mapping[int, float] | None = None

    def _values(self) -> Mapping[int, float]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, row: int) -> float:
        return self._values()[row]

    def __iter__(self) -> Iterator[int]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())
