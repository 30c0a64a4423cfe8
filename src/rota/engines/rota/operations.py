"""What is under way with a part that gives its devices back or takes them again, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rota.engines.rota.live import Live
from rota.engines.shared.ledger import Key
from rota.wire.sync import Mechanism, Part


class Transition(StrEnum):
    """What is under way."""

    SUSPEND = "suspend"
    RESUME = "resume"
    LEAVE = "leave"


@dataclass
class Operation:
    """Something under way with a part."""

    live: Live
    part: Part
    """The order behind it."""
    kind: Transition
    mechanism: Mechanism
    began_s: float
    """Monotonic."""
    until_s: float
    """Monotonic: then the fallback."""
    sequence: int = 0
    """Of the directive."""
    cores: tuple[int, ...] = ()
    parked: bool = False
    """It gave its devices back before it began to leave."""
    answer: list[str] = field(default_factory=list)
    """The driver's complaint, once it is done."""
    again: bool = False
    """What another agent had begun, or done, is made sure of: no cost of anything."""


class Done(NamedTuple):
    """What has been done, and what it cost."""

    key: Key
    kind: Transition
    mechanism: Mechanism
    seconds: float
    bytes: float = 0.0
    problem: str = ""
    """Why another mechanism had to take over; empty if it went well."""
