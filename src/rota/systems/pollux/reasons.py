"""Why jobs wait under Pollux."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rota.model.grants import Code, Constraint
from rota.systems.pollux.speedups import Models, Speedups


@dataclass(frozen=True)
class PolluxReasons(Mapping[int, Constraint]):
    """Why jobs wait, put into words when somebody asks."""

    models: Models
    speedups: Speedups
    waiting: Sequence[int]

    def __iter__(self) -> Iterator[int]:
        return iter(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)

    def __getitem__(self, row: int) -> Constraint:
        if row not in self.waiting:
            raise KeyError(row)
        place = self.models.rows.tolist().index(row)
        said = "the search gave its GPUs to others, whose speedups are worth more together"
        return Constraint(Code.POLICY, detail=f"{said}; {self._by_size(place)}")

    def _by_size(self, place: int) -> str:
        """Goodput by size, in words."""
        if not self.models.known[place]:
            return "it has not run yet, so every GPU is taken to speed it up as much as the first"
        one = Models(
            self.models.rows[place : place + 1],
            self.models.fits[place : place + 1],
            self.models.limits[place : place + 1],
            self.models.noises[place : place + 1],
            self.models.profiled[place : place + 1],
            self.models.stages[place : place + 1],
        )
        table = self.speedups.goodputs(one)[0]
        sizes = [1 << power for power in range(7) if 1 << power <= self.speedups.most]
        values = {gpus: float(table[int(gpus > self.speedups.node_gpus), gpus]) for gpus in sizes}
        shown = ", ".join(f"{value:.4g} on {gpus}" for gpus, value in values.items() if value > 0.0)
        return f"its goodput in examples/s by GPUs: {shown}"
