"""The tables of docs/jobs.md and docs/traces.md that list the columns of a job, printed by `make docs`."""

from __future__ import annotations

import re
from pathlib import Path

import rota
from rota.cli.catalogue import entries
from rota.errors import InputError
from rota.model.job_columns import COLUMNS, JobColumn

BEGIN, END = "<!-- columns of a job: printed by `make docs` -->", "<!-- end of columns -->"
SOURCE = Path(rota.__file__).parent
STAGES = SOURCE / "scheduler" / "stages"
ROOMS = {"knowledge": "knowledge", "worlds": "worlds"}
"""Rooms, other than a system's own, that read columns, with their names in the table."""


def pages(docs: Path) -> dict[Path, str]:
    """The text of both pages, with fresh tables between their markers."""
    tables = {"jobs.md": asked_table(), "traces.md": trace_table()}
    files = {docs / name: table for name, table in tables.items()}
    return {file: _between(file.read_text(encoding="utf-8"), table) for file, table in files.items()}


def asked_table() -> str:
    """The fields of a job's request, by the name of the option."""
    rows = ["| property | example | meaning | default | read by |", "|---|---|---|---|---|"]
    said: set[str] = set()
    for column in COLUMNS:
        option = column.option
        if option and option.name not in said:
            said.add(option.name)
            cells = f"`{option.name}`", f"`{option.example}`", option.meaning, option.default, read_by(column)
            rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(rows)


def trace_table() -> str:
    """The columns of a job in the plain format; all but the required ones."""
    rows = ["| column | meaning | if absent |", "|---|---|---|"]
    for column in COLUMNS:
        if column.default is not None:
            members = ", ".join(f"`{member.name}`" for member in column.words or ())
            meaning = column.meaning + (f" ({members})" if members else "")
            rows.append(f"| `{column.name}` | {_cell(meaning)} | {_cell(column.absent)} |")
    return "\n".join(rows)


def read_by(column: JobColumn) -> str:
    """The readers of a column: `all` if the guard reads it, else rooms and systems by name, or `none yet`."""
    used = re.compile(rf'\b(?:jobs|table)\.{column.name}\b|name_of\("{column.name}"')
    if any(used.search(text) for text in [*_texts(SOURCE / "scheduler/guard"), *_texts(SOURCE / "table")]):
        return "all"
    rooms = [word for room, word in ROOMS.items() if any(map(used.search, _texts(SOURCE / room)))]
    systems = [f"`{one.name}`" for one in entries() if any(map(used.search, _system(one.module)))]
    return ", ".join([*rooms, *systems]) or "none yet"


def _system(module: str) -> list[str]:
    """The files of a system, and of the stages that it names."""
    file = SOURCE.parent.joinpath(*module.split(".")).with_suffix(".py")
    own = _texts(file.parent if file.name == "system.py" else file)
    stages = {
        name for text in own for name in re.findall(r"from rota\.scheduler\.stages\.(\w+) import", text)
    }
    return [*own, *(text for name in sorted(stages) for text in _texts(STAGES / f"{name}.py"))]


def _texts(place: Path) -> list[str]:
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [file.read_text(encoding="utf-8") for file in files if file.name != "recorder.py"]


def _between(text: str, table: str) -> str:
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(f"the page has no place for the columns; expected {BEGIN} and {END}, once each")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
