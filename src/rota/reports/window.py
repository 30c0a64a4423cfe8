"""The measured part of a run: `10%:90%` leaves warm-up and drain out, `1d:5d` takes four days."""

from __future__ import annotations

from dataclasses import dataclass

from rota.errors import InputError
from rota.model.units import parse_duration

_EXPECTED = "START:END with per cents or durations, such as 10%:90%, 1d:5d or 2h:"


@dataclass(frozen=True)
class WindowEdge:
    """A place on the submission axis: a fraction of the way, or seconds from the first submission."""

    fraction: float | None = None
    offset_s: float = 0.0

    def resolve(self, first_s: float, last_s: float) -> float:
        if self.fraction is None:
            return first_s + self.offset_s
        return first_s + self.fraction * (last_s - first_s)


@dataclass(frozen=True)
class Window:
    """From one moment to another; `end` of None means until the run ends.

    Per cents count from the first to the last *submission*, which no policy can move: all
    policies are measured on equal jobs.
    """

    start: WindowEdge
    end: WindowEdge | None
    text: str
    """As it was typed."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Span:
    """A stretch of time in seconds from the world's epoch, both ends included."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return max(self.end_s - self.start_s, 0.0)


def parse_window(text: str) -> Window:
    """The window that `10%:90%`, `1d:5d`, `10%:` or `:5d` describes."""
    start, colon, end = text.strip().partition(":")
    if not colon or not (start or end):
        raise InputError.at(f"{text!r} is not a window", field="--measure", expected=_EXPECTED)
    window = Window(
        _moment(start, text) if start else WindowEdge(0.0), _moment(end, text) if end else None, text.strip()
    )
    if window.end and not _in_order(window.start, window.end):
        raise InputError.at(f"{text!r} ends before it starts", field="--measure", expected=_EXPECTED)
    return window


def _in_order(start: WindowEdge, end: WindowEdge) -> bool:
    """Whether `start` is before `end`; a per cent and a duration cannot be compared without a trace."""
    if (start.fraction is None) != (end.fraction is None):
        return True
    return start.resolve(0.0, 1.0) < end.resolve(0.0, 1.0)


def _moment(text: str, whole: str) -> WindowEdge:
    if not text.endswith("%"):
        return WindowEdge(offset_s=parse_duration(text, field="--measure"))
    try:
        per_cent = float(text[:-1])
    except ValueError:
        per_cent = -1.0
    if not 0 <= per_cent <= 100:
        raise InputError.at(f"{text!r} in {whole!r} is no per cent", field="--measure", expected=_EXPECTED)
    return WindowEdge(fraction=per_cent / 100)
