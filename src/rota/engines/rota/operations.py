"""Operations on parts that give back or take devices, and their measured costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rota.engines.rota.live import Live
from rota.engines.shared.ledger import Key
from rota.wire.sync import Mechanism, Part


class Transition(StrEnum):
    """Kinds of operation."""

    SUSPEND = "suspend"
    RESUME = "resume"
    LEAVE = "leave"


@dataclass
class Operation:
    """An operation on a part that is under way."""

    live: Live
    part: Part
    """The order that caused it."""
    kind: Transition
    mechanism: Mechanism
    began_s: float
    """Monotonic time of its start."""
    until_s: float
    """Monotonic time at which the fallback begins."""
    sequence: int = 0
    """Sequence number of the directive."""
    cores: tuple[int, ...] = ()
    parked: bool = False
    """The part gave back its devices before it began to leave."""
    answer: list[str] = field(default_factory=list)
    """Error message of the driver, once it is done."""
    again: bool = False
    """It confirms what another agent had begun or done, so its duration is not a cost."""


class Done(NamedTuple):
    """A completed operation and its cost."""

    key: Key
    kind: Transition
    mechanism: Mechanism
    seconds: float
    bytes: float = 0.0
    problem: str = ""
    """Why another mechanism had to take over; empty if none had to."""
