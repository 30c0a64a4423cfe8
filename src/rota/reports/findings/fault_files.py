"""Faults as files: a CSV with a row for each, and for each user a text that is ready to send."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rota.model.units import format_duration, plural
from rota.model.words import NONE, hours
from rota.reports.finding import Finding, NamedJob
from rota.reports.findings.faults import KINDS
from rota.reports.page import write_text
from rota.reports.table import as_columns, as_csv

TABLE, FOLDER = "findings.csv", "findings"
HEAD = "What a history of jobs shows of those of "
"""How each text begins."""
COLUMNS = (
    "kind", "user", "subject", "certainty", "evidence", "value", "unit", "jobs", "gpu_hours", "sentence",
    "job_ids",
)  # fmt: skip
_UNSAFE = re.compile(r"[^\w.@+-]+")


def csv_text(faults: Sequence[Finding]) -> str:
    """CSV with a line for each fault; `job_ids` has all of its jobs, separated by blanks."""
    return as_csv(COLUMNS, map(_csv_row, faults))


def _csv_row(fault: Finding) -> tuple[object, ...]:
    gpu_hours = sum(job.gpu_hours for job in fault.jobs)
    return (
        *(fault.key, fault.user, fault.subject, fault.certainty, fault.evidence),
        *(f"{fault.value:.6g}", fault.unit, len(fault.jobs), f"{gpu_hours:.6g}", fault.sentence),
        " ".join(job.id for job in fault.jobs),
    )


def texts(faults: Sequence[Finding], source: str) -> dict[str, str]:
    """By name of the file: the text for each user about their jobs in `source`."""
    by_user: dict[str, list[Finding]] = {}
    for finding in faults:
        by_user.setdefault(finding.user, []).append(finding)
    named: dict[str, str] = {}
    for user, own in by_user.items():
        name = _UNSAFE.sub("-", user).strip(".-") or "user"
        while f"{name}.txt".casefold() in {taken.casefold() for taken in named}:
            name += "-2"
        named[f"{name}.txt"] = _text(user, own, source)
    return named


def write(faults: Sequence[Finding], source: str, folder: Path) -> None:
    """Write `TABLE` and the texts in `FOLDER` below `folder`; texts of an earlier run are removed."""
    place = folder / FOLDER
    new = texts(faults, source)
    for old in sorted(place.glob("*.txt")) if place.is_dir() else ():
        if old.name not in new and old.read_bytes().startswith(HEAD.encode()):
            old.unlink()
    write_text(folder / TABLE, csv_text(faults))
    for name, text in new.items():
        write_text(place / name, text)


def _text(user: str, findings: Sequence[Finding], source: str) -> str:
    """All findings of one user, with every job."""
    titles = {kind.key: kind for kind in KINDS}
    parts = [f"{HEAD}{user}\nHistory: {source}\n"]
    for number, finding in enumerate(findings, 1):
        kind = titles[finding.key]
        parts.append(
            f"{number}. {kind.title}\n\n{finding.sentence}\n"
            f"How sure this is: {finding.certainty} ({finding.evidence}).\n"
            + (f"{finding.note}\n" if finding.note else "")
            + f"What helps: {kind.advice}\n\n{plural(len(finding.jobs), 'job')}:\n\n{_table(finding.jobs)}"
        )
    return "\n".join(parts)


def _table(jobs: Sequence[NamedJob]) -> str:
    """Columns of text, one line for each job."""
    lines = [("job", "name", "partition", "submitted", "GPUs", "ran", "GPU-hours", "ended")]
    for job in jobs:
        ran, held = format_duration(job.run_s), hours(job.gpu_hours)
        names = job.id, job.name or NONE, job.node_set or NONE
        lines.append((*names, job.submitted, f"{job.gpus}", ran, held, job.outcome))
    return as_columns(lines)
