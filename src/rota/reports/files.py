"""A run on disk: `DIR/POLICY/{jobs,intervals}.parquet` and `summary.json`, `DIR/report.html`.

The two tables and the `run` entry of `summary.json` are the whole record; `load` reads them back.
`summary.json` is there last: a folder without one is not a run.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from rota.errors import InputError
from rota.model.atomic import replacing
from rota.model.grants import LIMITS
from rota.model.parquet import DamagedParquet, damage_told
from rota.model.record import INTERVALS_SCHEMA, JOBS_SCHEMA, Record
from rota.reports.plain import json_text
from rota.reports.report import Notes, write_report
from rota.reports.summary import Summary, summarise, summarise_all
from rota.reports.window import Window

FORMAT = 1
"""Version of the layout; a reader refuses a newer one."""
_NAME_MAX = 100


def folder_name(policy: str, seed: object = None) -> str:
    """A folder name for a policy's specification, different for different ones: `fifo~backfill=easy`."""
    safe = quote(policy, safe="=,+:").replace("~", "%7E").replace(":", "~").lstrip(".") or "%"
    if len(safe) > _NAME_MAX or policy.startswith("."):
        safe = f"{safe[: _NAME_MAX - 9]}-{hashlib.sha256(policy.encode()).hexdigest()[:8]}"
    return safe if seed is None else f"{safe}~seed={quote(str(seed), safe='')}"


def write_results(
    records: Sequence[Record],
    folder: Path,
    *,
    baseline: str | None = None,
    window: Window | None = None,
    notes: Notes | None = None,
    csv: bool = False,
    summaries: Sequence[Summary] | None = None,
) -> list[Path]:
    """Write every record and the report into `folder`, all or nothing; gives the runs' folders, in order.

    `summaries` are of the records inside `window`, if known.
    """
    known = summaries if summaries is not None else summarise_all(records, window)
    written = [folder / name for name in _folder_names(records)]
    with _whole(folder, *written) as files:
        for place, (record, summary, of_run) in enumerate(zip(records, known, written, strict=True)):
            _save(files, record, summary, of_run, place=place, csv=csv)
        report = files.enter_context(replacing(folder / "report.html"))
        write_report(records, report, baseline=baseline, window=window, notes=notes, summaries=known)
    return written


@contextmanager
def _whole(*folders: Path) -> Iterator[ExitStack]:
    """Files that take their places together at the end, the one entered last first; none if one fails.

    Of `folders`, outer ones first, those that were not there are not left behind then.
    """
    new = [folder for folder in folders if not folder.exists()]
    try:
        with ExitStack() as files:
            yield files
    except BaseException:
        for folder in reversed(new):
            with suppress(OSError):
                folder.rmdir()
        raise


def _folder_names(records: Sequence[Record]) -> list[str]:
    """One per record; the seed tells several runs of a policy apart, a number if that does not."""
    policies = [record.policy for record in records]
    names: list[str] = []
    for record in records:
        several = policies.count(record.policy) > 1
        name = folder_name(record.policy, record.provenance.get("seed", 0) if several else None)
        again = sum(other.partition("#")[0] == name for other in names)
        names.append(f"{name}#{again + 1}" if again else name)
    return names


def save(
    record: Record, folder: Path, *, place: int = 0, window: Window | None = None, csv: bool = False
) -> None:
    """Write one record into `folder`, all or nothing; `place` is its turn when a report lists several."""
    with _whole(folder) as files:
        _save(files, record, summarise(record, window), folder, place=place, csv=csv)


def _save(files: ExitStack, record: Record, summary: Summary, folder: Path, *, place: int, csv: bool) -> None:
    whole = summary.to_dict() | {"run": _facts(record, place)}
    text = json_text(whole, indent=1)
    path = files.enter_context(replacing(folder / "summary.json"))
    path.write_text(text + "\n", encoding="utf-8")
    for name, table in (("jobs", record.jobs), ("intervals", record.intervals)):
        with _table_at(files, folder / f"{name}.parquet") as path:
            table.write_parquet(path)
    if csv:
        _write_csv(files, record, folder)


@contextmanager
def _table_at(files: ExitStack, path: Path) -> Iterator[Path]:
    """As `replacing`, as one of `files`; a full disk is an OSError, whatever the writer calls it."""
    try:
        yield files.enter_context(replacing(path))
    except pl.exceptions.PolarsError as error:
        raise OSError(f"{path}: cannot be written ({error})") from error


def _facts(record: Record, place: int) -> dict[str, object]:
    return {
        "format": FORMAT,
        "place": place,
        "policy": record.policy,
        "cluster": dict(record.cluster),
        "engine_seconds": record.engine_seconds,
        "decisions": record.decisions,
        "provenance": dict(record.provenance),
        "counts": dict(record.counts),
        "observed": record.observed,
    }


def load(folder: Path) -> list[Record]:
    """The records below `folder` (or in it), in the order they were written in."""
    summaries = [folder / "summary.json", *sorted(folder.glob("*/summary.json"))]
    dated = [_read(path) for path in summaries if path.is_file()]
    if not dated:
        raise InputError.at("no results here", file=folder, expected="POLICY/summary.json as a run writes it")
    return [record for _, record in sorted(dated, key=lambda entry: entry[0])]


def _read(path: Path) -> tuple[int, Record]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))["run"]
        version, place = int(facts.pop("format")), int(facts.pop("place"))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError.at("not a summary of a run", file=path, expected="JSON with `run` in it") from error
    if version > FORMAT:
        raise InputError.at(
            f"format {version} is newer than this Rota", file=path, expected=f"up to {FORMAT}"
        )
    facts["engine_seconds"] = math.nan if facts["engine_seconds"] is None else facts["engine_seconds"]
    jobs = _table(path.with_name("jobs.parquet"), JOBS_SCHEMA, ["eligible_s", "why"])
    intervals = _table(path.with_name("intervals.parquet"), INTERVALS_SCHEMA, [*LIMITS, "work"])
    return place, Record(jobs=jobs, intervals=intervals, **facts)


def _table(path: Path, schema: dict[str, Any], later: Sequence[str] = ()) -> pl.DataFrame:
    """The table at `path`; runs of earlier versions lack the columns `later`."""
    try:
        with damage_told():
            table = pl.read_parquet(path)
    except (OSError, DamagedParquet) as error:
        raise InputError.at("cannot be read", file=path, expected="a table that a run wrote") from error
    table = table.with_columns(pl.lit(None).alias(name) for name in later if name not in table.columns)
    if missing := [name for name in schema if name not in table.columns]:
        raise InputError.at("is missing", file=path, field=missing[0])
    return table.select(*schema).cast(schema)  # type: ignore[arg-type]


def _write_csv(files: ExitStack, record: Record, folder: Path) -> None:
    """Both tables as CSV; lists of nodes and devices are joined by spaces."""
    with _table_at(files, folder / "jobs.csv") as path:
        record.jobs.write_csv(path)
    lists = pl.col("nodes", "devices").cast(pl.List(pl.String)).list.join(" ")
    with _table_at(files, folder / "intervals.csv") as path:
        record.intervals.with_columns(lists).write_csv(path)
