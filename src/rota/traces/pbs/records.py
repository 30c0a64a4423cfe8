"""Checked records of PBS and Torque: lines of an accounting log, or jobs that `qstat` prints."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from rota.errors import InputError, brief
from rota.traces.bad_rows import BadEntryError, check_text, collected
from rota.traces.json_text import parsed
from rota.traces.pbs.resources import gpus_of, unread_in
from rota.traces.source import TraceSource
from rota.traces.table import MOST

NAN = float("nan")
SUBMITTED, ELIGIBLE, STARTED, ENDED = ("qtime", "ctime"), ("etime",), ("start", "stime"), ("end",)
"""Names of the moments of a record, in a log and in JSON."""
_LINE = re.compile(r"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);([A-Za-z]);\s*([^;\s][^;]*);(.*)")
_PAIR = re.compile(r"([A-Za-z_][\w.]*)=")
_QUOTED = re.compile(r'^"(.*)"$')
_STAMP, _NOTED = "%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S"
_Value = TypeVar("_Value")


class PbsRecord(NamedTuple):
    """One record, with everything as text."""

    row: int
    id: str
    kind: str
    """Letter of a record in a log; E for a job in JSON that ran."""
    said: Mapping[str, str]
    noted: str = ""
    """When the log recorded it, on the wall clock of the site."""

    def under(self, prefix: str) -> dict[str, str]:
        """Fields under `Resource_List.` or `resources_used.`."""
        return {
            key[len(prefix) + 1 :]: value for key, value in self.said.items() if key.startswith(prefix + ".")
        }


def is_pbs(source: TraceSource) -> bool:
    """Whether most of the first lines are PBS records; one of them may be cut off."""
    fitting = sum(bool(_LINE.match(line)) for line in source.opening)
    return 2 * fitting > len(source.opening) or is_json(source)


def is_json(source: TraceSource) -> bool:
    start = " ".join(source.opening)
    return start.lstrip().startswith("{") and '"Jobs"' in start and '"pbs_' in start


def read_records(source: TraceSource) -> list[PbsRecord]:
    """The records of a log or of JSON that are not left out.

    BadRowsError names those that are invalid or have invalid moments or amounts. All records of a job are
    left out if one cannot be read: without its end, a job would seem to run on.
    """
    if is_json(source):
        entries = _entries(source)
        records = collected(
            (one for one in enumerate(entries.items(), 1) if one[0] not in source.left_out),
            lambda one: _from_json(source, one[0], *one[1]),
            len(entries),
            "job",
        )
    else:
        check_text(source)
        lines = enumerate(source.data.decode().split("\n"), 1)
        read = collected(
            (one for one in lines if one[1].strip() and one[0] not in source.left_out),
            lambda one: _from_line(source, *one),
        )
        records = [record for record in read if record.kind in "QSERDA"]
    each_checked(source, records, records, lambda record: _check(source, record))
    return records


def each_checked(
    source: TraceSource,
    records: list[PbsRecord],
    some: list[PbsRecord],
    check: Callable[[PbsRecord], _Value],
) -> list[_Value]:
    """The result of `check` for each record in `some`.

    BadRowsError names those that raise BadEntryError, with all `records` of their jobs.
    """
    rows: dict[str, list[int]] = defaultdict(list)
    for record in records:
        rows[record.id].append(record.row)

    def checked(record: PbsRecord) -> _Value:
        try:
            return check(record)
        except BadEntryError as error:
            raise error.with_rows(rows[record.id]) from None

    noun = "job" if is_json(source) else "row"
    return collected(some, checked, len(records) if is_json(source) else None, noun)


def _from_line(source: TraceSource, row: int, line: str) -> PbsRecord:
    match = _LINE.fullmatch(line.rstrip())
    if not match:
        expected = "MM/DD/YYYY HH:MM:SS;LETTER;ID;key=value ..."
        raise BadEntryError.found(
            source.file, row, f"{line[:40]!r} is no accounting record", expected=expected
        )
    return PbsRecord(row, match[3].strip(), match[2], _pairs(match[4]), match[1])


def _pairs(text: str) -> dict[str, str]:
    """Read `key=value key=value`, where values may contain blanks or be in quotes."""
    places = [match for match in _PAIR.finditer(text) if match.start() == 0 or text[match.start() - 1] == " "]
    if not places:
        return {}
    ends = [match.start() for match in places[1:]] + [len(text)]
    return {
        match[1]: _QUOTED.sub(r"\1", text[match.end() : end].strip())
        for match, end in zip(places, ends, strict=True)
    }


def _entries(source: TraceSource) -> dict[str, Any]:
    """The jobs of JSON by their ids."""
    expected = "what qstat -xf -F json prints"
    given = parsed(source, expected)
    jobs = given.get("Jobs") if isinstance(given, dict) else None
    if not isinstance(jobs, dict):
        raise InputError.at("has no object Jobs", file=source.file, expected=expected)
    return jobs


def _from_json(source: TraceSource, number: int, id: str, said: Any) -> PbsRecord:
    wrong = ""
    if not id.strip():
        wrong, expected = f"job {number} has no id", "a job by its id"
    elif not isinstance(said, dict):
        wrong, expected = f"job {id}: {brief(said)} is not an object", "a job"
    if wrong:
        raise BadEntryError.found(source.file, number, wrong, expected=expected, says_row=False)
    flat = {key: str(value) for key, value in said.items() if not isinstance(value, dict)}
    for key in ("Resource_List", "resources_used"):
        inner = said.get(key, {})
        if isinstance(inner, dict):
            flat |= {f"{key}.{name}": str(value) for name, value in inner.items()}
    flat["user"] = flat.get("Job_Owner", "").partition("@")[0]
    flat["jobname"] = flat.get("Job_Name", "")
    over = flat.get("job_state") in ("F", "X", "C", "E")
    return PbsRecord(number, id.strip(), ("E" if "stime" in flat else "D") if over else "S", flat)


def _check(source: TraceSource, record: PbsRecord) -> None:
    """Raise BadEntryError for invalid moments and invalid requested amounts."""
    for names in (SUBMITTED, ELIGIBLE, STARTED, ENDED):
        moment(source, record, *names)
    if record.kind in "RS" and record.noted:
        noted(source, record)
    asked = record.under("Resource_List")
    if unread := unread_in(asked):
        field, problem, expected = unread
        what = f"job {record.id}: {problem}"
        raise BadEntryError.found(source.file, record.row, what, field=field, expected=expected)
    if gpus_of(asked, record.said.get("exec_vnode", ""), record.said.get("exec_gpus", "")) > MOST:
        what = f"job {record.id} has too many GPUs"
        raise BadEntryError.found(source.file, record.row, what, field="ngpus", expected=f"at most {MOST}")


def moment(source: TraceSource, record: PbsRecord, *names: str) -> float:
    """The first of `names` that the record has, in seconds; NaN if it has none.

    Raises BadEntryError if it is not a moment.
    """
    text = next((record.said[name] for name in names if record.said.get(name)), "")
    if not text:
        return NAN
    # A number with more digits would be in no year of the calendar.
    if re.fullmatch(r"\d{1,11}(\.\d+)?", text):
        return float(text)
    try:
        return datetime.strptime(text, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        expected = "seconds since 1970, or a stamp such as Fri Mar  1 09:00:00 2024"
        what = f"job {record.id}: {brief(text)} is no moment"
        raise BadEntryError.found(source.file, record.row, what, field=names[0], expected=expected) from None


def noted(source: TraceSource, record: PbsRecord) -> datetime:
    """Time at which the log recorded `record`, on the site's wall clock. BadEntryError if it is invalid."""
    try:
        return datetime.strptime(record.noted, _NOTED)
    except ValueError:
        what = f"{record.noted!r} is no date and time"
        raise BadEntryError.found(source.file, record.row, what, expected="MM/DD/YYYY HH:MM:SS") from None
