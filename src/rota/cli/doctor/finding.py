"""Findings about a machine, one fact each; a check that fails is a finding too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class FindingState(StrEnum):
    """The state of a fact."""

    OK = "ok"
    ADVICE = "advice"
    """It works; the advice says what would be better."""
    UNKNOWN = "unknown"
    """It cannot be determined on this machine."""
    BROKEN = "broken"
    """Rota, or jobs under it, will fail until it is repaired."""


@dataclass(frozen=True)
class MachineFinding:
    """One fact about this machine."""

    subject: str
    state: FindingState
    says: str
    """The fact, as the end of a sentence."""
    advice: str = ""
    """What to do about it, or with it."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The numbers behind it, for `--json`."""


@dataclass(frozen=True)
class MachinePlaces:
    """Where to look: other places for tests, and for machines with folders elsewhere."""

    home: Path
    """ROTA_HOME, which need not exist."""
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    sys: Path = Path("/sys")


Look = Callable[[MachinePlaces], Iterable[MachineFinding]]
"""A check; its name, without underscores, is the subject if it fails."""


def looked(look: Look, machine: MachinePlaces) -> list[MachineFinding]:
    """The findings of `look`.  It may fail in any way on an odd machine: then that is the finding."""
    try:
        return list(look(machine))
    except Exception as error:
        subject = look.__name__.replace("_", " ")
        what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        said, advice = f"cannot be told: {type(error).__name__}: {what}", "please report it"
        if isinstance(error, PermissionError):
            said, advice = f"cannot be told: {what}", "ask as the user whose file it is, or as root"
        return [MachineFinding(subject, FindingState.UNKNOWN, said, f"what needs it may fail here; {advice}")]


def first_line(path: Path) -> str:
    """The first line of a file of the kernel; empty if there is no such file here."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
