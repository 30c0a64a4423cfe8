"""Knowledge that stands before the run begins and does not change."""

from __future__ import annotations

from rota.knowledge.needs import Knowledge, Provenance, Table
from rota.model.columns import Array
from rota.table.state import State


class Given:
    """Provides `values` of one kind as they are."""

    learns = False

    def __init__(
        self, kind: Knowledge, values: Array | Table, provenance: Provenance = Provenance.ORACLE
    ) -> None:
        self.kind = kind
        self.values = values
        self.provenance = provenance

    def attach(self, state: State) -> None: ...

    def known(self) -> Array | Table:
        return self.values

    def submitted(self, row: int) -> None: ...

    def ended(self, row: int, ran_s: float) -> None: ...
