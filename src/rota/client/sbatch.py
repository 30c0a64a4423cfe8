"""An sbatch script as a job: the common `#SBATCH` lines, and one sentence for each line that is ignored.

The script is taken as it is now, as sbatch does: a shell gets its text by `-c`, so that the file may change
before the job starts.  It runs once on each node (`ranks: node`).  `#ROTA --gpus-range 1:4` lines take the
options of `rota submit` and come last.  docs/jobs.md has the table of what becomes of each option.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rota.client.fields import Fields, merge, read_fields
from rota.client.sbatch_options import NeverHeard, ScriptLine, ScriptRequest, read_option
from rota.errors import InputError

LARGEST_BYTES = 4 << 20
LARGEST_INLINE = 120_000
"""Bytes of a script that fit into one argument of a program."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_PRELUDE = (
    'export SLURM_JOB_ID="$ROTA_JOB_ID" SLURM_JOBID="$ROTA_JOB_ID" SLURM_NODEID="${ROTA_NODE_RANK:-0}"'
    ' SLURM_PROCID="${RANK:-0}" SLURM_LOCALID="${LOCAL_RANK:-0}" SLURM_RESTART_COUNT="${ROTA_RESTARTS:-0}";'
    ' if [ -n "${ROTA_ARRAY_INDEX:-}" ]; then'
    ' export SLURM_ARRAY_TASK_ID="$ROTA_ARRAY_INDEX" SLURM_ARRAY_JOB_ID="${ROTA_ARRAY_JOB_ID:-}"; fi'
)
"""What Slurm would say about the job, from what Rota says; takes the place of the `#!` line."""
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.@:+/-]")


@dataclass(frozen=True)
class Script:
    """A script as a job."""

    fields: Fields
    warnings: list[str] = field(default_factory=list)
    """One sentence, with its line number, for each line that does not count."""
    export: str = ""
    """What `--export` says; empty if nothing."""


def read_sbatch(path: str | Path, arguments: Sequence[str], folder: str) -> Script:
    """The job of the script at `path`, run with `arguments`; `folder` is where it is submitted."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise InputError.at("there is no such file", file=file, expected="an sbatch script") from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError.at(problem, file=file, expected="an sbatch script") from None
    if not data.startswith(b"#!"):
        expected = "a first line such as #!/bin/bash, as sbatch does"
        raise InputError.at("does not say by which interpreter it runs", file=file, row=1, expected=expected)
    if b"\0" in data or len(data) > LARGEST_BYTES:
        raise InputError.at("is no script", file=file, expected="text of at most 4 MiB")
    return parse_sbatch(data.decode("utf-8", "replace"), file, arguments, folder)


def parse_sbatch(text: str, file: Path, arguments: Sequence[str], folder: str) -> Script:
    """The same for the text of a script that begins with `#!`; `file` is named in messages."""
    asked = ScriptRequest()
    warnings: list[str] = []
    own: list[Fields] = []
    for line in _directives(text, file, warnings):
        if line.prefix == "#ROTA":
            own.append(_own(line, file))
            continue
        for name, value in _options(line.words, file, line.row):
            try:
                read_option(asked, name, value, ScriptLine(line.row, f"{file}, row {line.row}, "))
            except NeverHeard:
                warnings.append(f"line {line.row}: {name} is ignored: Rota does not know it")
    command, late = _command(text, file, arguments)
    fields = merge(asked.fields(), {"command": command, "ranks": "node"}, *own)
    warnings += asked.warnings + late
    name = fields.get("name") or file.name
    fields["name"] = _ILLEGAL.sub("_", name)[:128]
    if fields["name"] != name:
        warnings.append(f"the name {name!r} becomes {fields['name']!r}")
    fields["env"] = {**asked.environment(fields["name"], folder), **fields.get("env", {})}
    return Script(fields, sorted(warnings, key=_row), asked.export)


@dataclass(frozen=True)
class _Directive:
    row: int
    prefix: str
    words: list[str]


def _directives(text: str, file: Path, warnings: list[str]) -> list[_Directive]:
    """`#SBATCH` and `#ROTA` lines before the first command; sbatch does not read those behind it either."""
    directives: list[_Directive] = []
    in_head = True
    for row, line in enumerate(text.splitlines(), start=1):
        prefix = next((p for p in ("#SBATCH", "#ROTA") if re.match(rf"{p}(\s|$)", line)), "")
        if not prefix:
            in_head = in_head and (not line.strip() or line.lstrip().startswith("#"))
        elif not in_head:
            warnings.append(f"line {row}: {prefix} is ignored: it stands behind the first command")
        else:
            try:
                words = shlex.split(line[len(prefix) :], comments=True)
            except ValueError as error:
                raise InputError.at(str(error).lower(), file=file, row=row) from None
            directives.append(_Directive(row, prefix, words))
    return directives


def _options(words: Sequence[str], file: Path, row: int) -> list[tuple[str, str | None]]:
    """`--name=value`, `--name value`, `-n value`, `-nVALUE` as pairs; None where nothing is given."""
    pairs: list[tuple[str, str | None]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word.partition("=")
            given: str | None = value if equals else None
        elif word.startswith("-") and len(word) > 1:
            name, given = word[:2], word[2:].removeprefix("=") or None
        else:
            raise InputError.at(f"{word!r} is no option", file=file, row=row, expected="--name=value")
        if given is None and rest and not rest[0].startswith("-"):
            given = rest.pop(0)
        pairs.append((name, given))
    return pairs


def _own(line: _Directive, file: Path) -> Fields:
    """Fields of a `#ROTA --gpus-range 1:4 --trial` line."""
    layers = []
    for name, value in _options(line.words, file, line.row):
        try:
            layers.append(read_fields(name.lstrip("-"), "yes" if value is None else value, name))
        except InputError as error:
            raise InputError(f"{file}, row {line.row}, {error}") from None
    return merge(*layers)


def _command(text: str, file: Path, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """How to run the script, and what is worth a warning about that."""
    head, _, body = text.partition("\n")
    try:
        interpreter = shlex.split(head[2:])
    except ValueError as error:
        raise InputError.at(str(error).lower(), file=file, row=1) from None
    if not interpreter:
        raise InputError.at("names no interpreter", file=file, row=1, expected="#!/bin/bash")
    shell = next((Path(word).name for word in reversed(interpreter) if not word.startswith("-")), "")
    if shell in SHELLS and len(text.encode()) <= LARGEST_INLINE:
        script = f"{_PRELUDE}\n{body}"
        return [*interpreter, "-c", script, str(file.absolute()), *arguments], []
    why = "is read when the job starts: leave it as it is until then"
    if shell not in SHELLS:
        why += " (and SLURM_JOB_ID is not set: use ROTA_JOB_ID)"
    return [*interpreter, str(file.absolute()), *arguments], [f"{file} {why}"]


def _row(warning: str) -> int:
    match = re.match(r"line (\d+):", warning)
    return int(match[1]) if match else 1 << 30
