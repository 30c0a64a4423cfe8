"""The known trace formats: each reader registers itself with one decorator that describes the format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.errors import InputError
from rota.model.trace import Trace
from rota.traces.bad_rows import leaving_out
from rota.traces.source import TraceSource
from rota.traces.unrecognised import unrecognised

Reader = Callable[[TraceSource], Trace]
Matcher = Callable[[TraceSource], bool]


@dataclass(frozen=True)
class TraceFormat:
    """One trace format."""

    name: str
    description: str
    """Which program or site writes such files, in one line."""
    recognised: str
    """How a file of this format is detected, in words."""
    example: str
    """A small, invented file of this format."""
    matches: Matcher
    read: Reader
    """Reads a file without its invalid rows, which `Trace.odd` counts (`bad_rows`)."""
    command: str = ""
    """Command that produces such a file at a site, if there is one."""


_FORMATS: dict[str, TraceFormat] = {}


def trace_format(
    name: str, *, description: str, recognised: str, matches: Matcher, example: str, command: str = ""
) -> Callable[[Reader], Reader]:
    """Register the decorated function as the reader of format `name`."""

    def register(read: Reader) -> Reader:
        if name in _FORMATS:
            raise ValueError(f"two readers register the trace format {name!r}")
        whole = leaving_out(read)
        _FORMATS[name] = TraceFormat(name, description, recognised, example, matches, whole, command)
        return read

    return register


def has_header(*names: str, without: tuple[str, ...] = (), separator: str = ",") -> Matcher:
    """Matches files whose first line has all of `names` and none of `without`."""

    def matches(source: TraceSource) -> bool:
        header = source.header(separator)
        return set(names) <= set(header) and not set(without) & set(header)

    return matches


def formats() -> tuple[TraceFormat, ...]:
    """All known formats, by name."""
    return tuple(_FORMATS[name] for name in sorted(_FORMATS))


def format_named(name: str, field: str | None = "--format") -> TraceFormat:
    """The format called `name`; InputError, which names `field`, if there is none."""
    if name not in _FORMATS:
        expected = "one of " + ", ".join(sorted(_FORMATS))
        raise InputError.at(f"{name!r} is not a trace format", field=field, expected=expected)
    return _FORMATS[name]


def find(source: TraceSource, name: str | None) -> TraceFormat:
    """The format called `name`, or the one that `source` has; InputError says why no format matches."""
    if name is not None:
        return format_named(name)
    for format in formats():
        if format.matches(source):
            return format
    raise unrecognised(source, {format.name: format.matches for format in formats()})
