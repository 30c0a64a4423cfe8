"""What a policy can be told about jobs beyond what they asked for, and who told it.

All of it is arrays: a column over the rows of the job table, or a `Table` of several with what they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from rota.model.columns import Array, read_only
from rota.table.state import State


class Knowledge(StrEnum):
    """Kinds of knowledge; a policy lists in `needs` those it reads."""

    DURATION = "duration"  # seconds of running at the requested allocation
    SERVICE_HISTORY = "service history"  # GPU-seconds of past jobs, as a sample
    THROUGHPUT = "throughput"  # rate by GPU type
    SCALING = "scaling"  # rate by number of GPUs
    INTERFERENCE = "interference"  # rate beside another job
    SKEW = "skew"  # skew of a model's tensor sizes
    UTILISATION = "utilisation"  # of a GPU, by the job alone


class Provenance(StrEnum):
    """Where knowledge comes from."""

    ORACLE = "oracle"  # the simulator's truth
    USER = "user"
    MEASURED = "measured"
    PREDICTED = "predicted"


@dataclass(frozen=True)
class Table:
    """What is known of jobs as columns by row, with what they point at or have in common."""

    by_row: Mapping[str, Array] = field(default_factory=dict)
    """Columns whose first axis are the rows of the job table."""
    shared: Mapping[str, Array] = field(default_factory=dict)
    """Read-only arrays over anything else: classes of jobs, numbers of GPUs, a sample.

    A changed one is a new array: whoever has built something upon it compares identities.
    """

    def __post_init__(self) -> None:
        for array in self.shared.values():
            array.flags.writeable = False

    def upto(self, rows: int) -> Table:
        """The same for the first `rows` jobs, read-only."""
        return Table({name: read_only(column[:rows]) for name, column in self.by_row.items()}, self.shared)


@dataclass(frozen=True)
class Known:
    """Knowledge handed to a policy: plain data, never a callback."""

    values: Array | Table
    """A column over the rows of the job table, or a table; the kind says which, and what is in it."""
    provenance: Provenance

    def __post_init__(self) -> None:
        if not isinstance(self.values, Table):
            object.__setattr__(self, "values", read_only(self.values))

    def upto(self, rows: int) -> Any:
        """What is known of the first `rows` jobs, read-only."""
        values = self.values
        return values.upto(rows) if isinstance(values, Table) else values[:rows]


class Provider(Protocol):
    """Supplies one kind of knowledge; may learn as jobs end."""

    kind: Knowledge
    provenance: Provenance
    learns: bool
    """True if it is to be told of submissions and endings, and asked again before each decision."""

    def attach(self, state: State) -> None:
        """A run begins on `state`."""
        ...

    def known(self) -> Array | Table:
        """The knowledge as it stands: columns are as long as the job table, valid for submitted rows."""
        ...

    def submitted(self, row: int) -> None:
        """`row` was submitted."""
        ...

    def ended(self, row: int, ran_s: float) -> None:
        """`row` completed after running `ran_s` seconds in all."""
        ...
