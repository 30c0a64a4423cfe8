"""Why a file is in no known format: what is almost right about it, or which program wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from rota.errors import InputError, shown
from rota.traces.near_names import near_name, quoted
from rota.traces.plain.header import result_of_simulation
from rota.traces.source import TraceSource

_LSF = ('"JOB_FINISH"', '"JOB_NEW"', '"JOB_START"', "Job <", "Summary of time in seconds")
"""First texts of LSF's files: `lsb.acct`, `lsb.events`, `bhist -l` and `bhist`."""
_SLURM_JSON = re.compile(rb'"(?:jobs"\s*:\s*\[|slurm"\s*:)', re.IGNORECASE)
"""Text near the beginning of the output of `sacct --json`."""
_LFS = "version https://git-lfs"
_PAGE = ("<!doctype html", "<html")
_FROM_SLURM = (
    "what the command prints that `rota trace formats sacct` shows: `sacct --parsable2 --format=...`"
)
_FROM_LSF = (
    "a CSV with submit_s, gpus and duration_s, made of what `bjobs -u all -a -json -o 'jobid user queue stat "
    "submit_time start_time finish_time run_time gpu_num'` prints"
)

_TABLE = "a CSV or Parquet with the columns submit_s, gpus and duration_s, in seconds"
_OWN = ("submit_s", "gpus", "duration_s")
_SLIPS = (
    (";", "the cells are joined by semicolons"),
    ("\t", "the cells are joined by tabs"),
    ("", "the names of the columns are in capitals, or between other blanks"),
)
"""Separators that, replaced by commas, make a header a known one, and the sentence about each."""
_SWF_FIELDS = 18


def unrecognised(source: TraceSource, matches: Mapping[str, Callable[[TraceSource], bool]]) -> InputError:
    """The error for `source`, in which none of `matches` (by format name) recognises its format."""
    start = source.opening[0][:60] if source.opening else ""
    if start.startswith(_LSF):
        return InputError.at("is written by LSF, which is not read", file=source.file, expected=_FROM_LSF)
    if start.startswith(_LFS):
        what = "is a pointer of Git LFS, not the file that it stands for"
        return InputError.at(what, file=source.file, expected="the file, which `git lfs pull` gets")
    if start.lower().startswith(_PAGE):
        return InputError.at("is a web page", file=source.file, expected="the file that its link names")
    if start.startswith("{") and _SLURM_JSON.search(source.data[:100_000]):
        return InputError.at("is JSON of Slurm, which is not read", file=source.file, expected=_FROM_SLURM)
    if source.begins_with("{") or source.begins_with("["):
        what = "is JSON, of which only the logs of Philly and PBS are read"
        return InputError.at(what, file=source.file, expected=_TABLE)
    if result := result_of_simulation(source.file, source.header()):
        return result
    return _slip(source, matches) or _short_line(source) or _own_names(source) or _unknown(source, start)


def _slip(source: TraceSource, matches: Mapping[str, Callable[[TraceSource], bool]]) -> InputError | None:
    """The error for a header that would be known if it were written differently; None otherwise."""
    header = source.opening[0] if source.opening else ""
    for separator, what in _SLIPS:
        # Formats with tabs have no header.
        if separator not in header or (not separator and "\t" in header):
            continue
        changed = ",".join(name.strip() for name in header.split(separator or ",")).lower()
        nearly = TraceSource(source.file, changed.encode() + b"\n")
        name = next((name for name, fits in matches.items() if changed != header and fits(nearly)), None)
        if name is not None:
            return InputError.at(what, file=source.file, row=1, expected=f"as for {name}, {shown(changed)}")
    return None


def _short_line(source: TraceSource) -> InputError | None:
    """The error for a log in Standard Workload Format whose first line has the wrong number of fields."""
    lines = source.opening
    row = next((row for row, line in enumerate(lines) if not line.startswith(";")), None)
    if row is None or not lines[0].startswith(";"):
        return None
    what = f"the first line after the comments, {lines[row][:40]!r}, is no job"
    return InputError.at(what, file=source.file, expected=f"the {_SWF_FIELDS} numbers of swf")


def _own_names(source: TraceSource) -> InputError | None:
    """The error for a table with its own column names, some of them similar to the plain format's."""
    header = source.header()
    missing = [name for name in _OWN if name not in header]
    near = {name: theirs for name in missing if (theirs := near_name(name, set(header) - set(_OWN)))}
    if len(header) < len(_OWN) or len(missing) > len(near):
        return None
    pairs = ", ".join(f"{theirs!r} to {name!r}" for name, theirs in near.items())
    expected = f"the columns {', '.join(_OWN)}, in seconds: rename {pairs}, or name a format with --format"
    return InputError.at("the header is that of no known format", file=source.file, expected=expected)


def _unknown(source: TraceSource, start: str) -> InputError:
    missing = [name for name in _OWN if name not in source.header()]
    return InputError.at(
        f"the format is not recognised (the file begins with {start!r})",
        file=source.file,
        expected="a format that `rota trace formats` lists (--format names it), or a CSV with the columns "
        "submit_s, gpus and duration_s, in seconds"
        + (f" ({quoted(missing)} missing)" if len(missing) < len(_OWN) else ""),
    )
