"""What a policy can be told about jobs beyond what they asked for, and who told it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

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
class Known:
    """Knowledge handed to a policy: plain data, never a callback."""

    values: Any
    """A column over all submitted rows, a table, a sample: the kind says what."""
    provenance: Provenance
    is_column: bool = False
    """True if `values` is an array over the rows of the job table."""


class Provider(Protocol):
    """Supplies one kind of knowledge; may learn as jobs end."""

    kind: Knowledge
    provenance: Provenance
    learns: bool
    """True if it is to be told of submissions and endings, and asked again before each decision."""

    def attach(self, state: State) -> None:
        """A run begins on `state`."""
        ...

    def known(self) -> Any:
        """The knowledge as it stands: columns are as long as the job table, valid for submitted rows."""
        ...

    def submitted(self, row: int) -> None:
        """`row` was submitted."""
        ...

    def ended(self, row: int, ran_s: float) -> None:
        """`row` completed after running `ran_s` seconds in all."""
        ...
