"""Knowledge that is complete before the run begins and does not change."""

from __future__ import annotations

from collections.abc import Sequence

from rota.knowledge.needs import Knowledge, Observation, Provenance, Table
from rota.model.columns import Array
from rota.table.state import State


class Provides:
    """Provides `values` of one kind; no event changes them, unless a subclass overrides that."""

    learns = False
    listens = False

    def __init__(self, kind: Knowledge, provenance: Provenance, values: Array | Table) -> None:
        self.kind = kind
        self.provenance = provenance
        self.values = values

    def attach(self, state: State) -> None: ...

    def known(self) -> Array | Table:
        return self.values

    def submitted(self, row: int) -> None: ...

    def ended(self, row: int, ran_s: float) -> None: ...

    def observed(self, seen: Sequence[Observation]) -> None: ...


class Given(Provides):
    """The truth of a simulation, unless another provenance is named."""

    def __init__(
        self, kind: Knowledge, values: Array | Table, provenance: Provenance = Provenance.ORACLE
    ) -> None:
        super().__init__(kind, provenance, values)
