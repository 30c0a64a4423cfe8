"""The trace formats that are known: each registers itself with one decorator that carries the facts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rota.errors import InputError
from rota.model.trace import Trace
from rota.traces.source import TraceSource

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
    command: str = ""
    """What to type at the site to get such a file, if one command gives it."""


_LSF = ('"JOB_FINISH"', '"JOB_NEW"', '"JOB_START"', "Job <", "Summary of time in seconds")
"""How files of LSF begin: `lsb.acct`, `lsb.events`, `bhist -l` and `bhist`."""
_SLURM_JSON = re.compile(rb'"(?:jobs"\s*:\s*\[|slurm"\s*:)', re.IGNORECASE)
"""What `sacct --json` has near its beginning."""
_FROM_SLURM = (
    "what the command prints that `rota trace formats sacct` shows: `sacct --parsable2 --format=...`"
)
_FROM_LSF = (
    "a CSV with submit_s, gpus and duration_s, made of what `bjobs -u all -a -json -o 'jobid user queue stat "
    "submit_time start_time finish_time run_time gpu_num'` prints"
)

_FORMATS: dict[str, TraceFormat] = {}


def trace_format(
    name: str, *, description: str, recognised: str, matches: Matcher, example: str, command: str = ""
) -> Callable[[Reader], Reader]:
    """Register the decorated function as the reader of format `name`."""

    def register(read: Reader) -> Reader:
        if name in _FORMATS:
            raise ValueError(f"two readers register the trace format {name!r}")
        _FORMATS[name] = TraceFormat(name, description, recognised, example, matches, read, command)
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


_OWN = "a table of your own has the columns submit_s, gpus and duration_s, in seconds"


def find(source: TraceSource, name: str | None) -> TraceFormat:
    """The format called `name`, or the one that `source` is in."""
    if name is not None:
        return format_named(name)
    for format in formats():
        if format.matches(source):
            return format
    start = source.opening[0][:60] if source.opening else ""
    if start.startswith(_LSF):
        raise InputError.at("is written by LSF, which is not read", file=source.file, expected=_FROM_LSF)
    if start.startswith("{") and _SLURM_JSON.search(source.data[:100_000]):
        raise InputError.at("is JSON of Slurm, which is not read", file=source.file, expected=_FROM_SLURM)
    _refuse_nearly(source)
    raise InputError.at(
        f"the format is not recognised (the file begins with {start!r})",
        file=source.file,
        expected="one of "
        + ", ".join(sorted(_FORMATS))
        + f"; if it is one of these, name it with --format; {_OWN}",
    )


_SLIPS = (
    (";", "the cells are joined by semicolons"),
    ("\t", "the cells are joined by tabs"),
    ("", "the names of the columns are in capitals, or between other blanks"),
)
"""What would have to be replaced by a comma for the header to be a known one, and how to say so."""


def _refuse_nearly(source: TraceSource) -> None:
    """InputError that says what is wrong with a header that would be known but for how it is written."""
    header = source.opening[0] if source.opening else ""
    for separator, what in _SLIPS:
        if separator not in header:
            continue
        changed = ",".join(name.strip() for name in header.split(separator or ",")).lower()
        nearly = TraceSource(source.file, changed.encode() + b"\n")
        name = next((one.name for one in formats() if changed != header and one.matches(nearly)), None)
        if name is not None:
            raise InputError.at(what, file=source.file, row=1, expected=f"as for {name}, {changed}")
