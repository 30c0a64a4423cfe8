"""The trace formats that are known: each registers itself with one decorator that carries the facts."""

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
    """One way to write down a trace."""

    name: str
    description: str
    """Who writes such files, in one line."""
    recognised: str
    """How a file is known to be of this format, in words."""
    example: str
    """A small file of this format, made up by us."""
    matches: Matcher
    read: Reader
    """Reads a file without the rows that cannot be read, which `Trace.odd` counts (`bad_rows`)."""
    command: str = ""
    """What to type at the site to get such a file, if one command gives it."""


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
    """True of files whose first line names all of `names` and none of `without`."""

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
    """The format called `name`, or the one that `source` is in; InputError says why it is in none."""
    if name is not None:
        return format_named(name)
    for format in formats():
        if format.matches(source):
            return format
    raise unrecognised(source, {format.name: format.matches for format in formats()})
