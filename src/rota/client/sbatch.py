"""An sbatch script as a job: the common `#SBATCH` lines, and one sentence for each line that is ignored.

As with sbatch, the text is taken at submission: it travels with the job, and each attempt gets it as a file
of its own. The script runs once on each node (`ranks: node`). `#ROTA --gpus-range 1:4` lines take the options
of `rota submit` and are applied last. docs/jobs.md has the table of what becomes of each option.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rota.client.fields import Fields, merge, read_fields
from rota.client.sbatch_names import VALUE_BEHIND_EQUALS, WITHOUT_VALUE, long_name
from rota.client.sbatch_options import ScriptLine, ScriptRequest, known_options, read_option
from rota.client.text_file import read_text
from rota.errors import InputError
from rota.wire.script import MOST_BYTES, check_script

_ILLEGAL = re.compile(r"[^A-Za-z0-9_.@:+/-]")


@dataclass(frozen=True)
class Script:
    """A script, read as a job."""

    fields: Fields
    warnings: list[str] = field(default_factory=list)
    """One sentence, with its line number, for each line that is ignored."""
    export: str = ""
    """Value of `--export`; empty if it is not given."""


def read_sbatch(path: str | Path, arguments: Sequence[str], folder: str) -> Script:
    """The job of the script at `path`, run with `arguments`; `folder` is where it is submitted."""
    file = Path(path)
    return parse_sbatch(read_text(file, MOST_BYTES, "an sbatch script"), file, arguments, folder)


def parse_sbatch(text: str, file: Path, arguments: Sequence[str], folder: str) -> Script:
    """The job of the script `text`; `file` is its name in messages and in the job."""
    try:
        check_script(text)
    except ValueError as error:
        raise InputError.at(str(error), file=file) from None
    asked = ScriptRequest()
    warnings: list[str] = []
    own: list[Fields] = []
    for line in _directives(text, file, warnings):
        if line.prefix == "#ROTA":
            own.append(_own(line, file))
            continue
        place = ScriptLine(line.row, f"{file}, row {line.row}, ")
        for name, value in _options(line.words, file, line.row, partial(_meant, line=place)):
            read_option(asked, name, value, place)
    run: Fields = {"command": [file.name, *arguments], "script": text, "ranks": "node"}
    fields = merge(asked.fields(), run, *own)
    warnings += asked.warnings
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
    """`#SBATCH` and `#ROTA` lines before the first command; sbatch ignores later ones as well."""
    directives: list[_Directive] = []
    in_head = True
    for row, line in enumerate(text.split("\n"), start=1):
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


def _meant(word: str, line: ScriptLine) -> str:
    """Long name of the sbatch option that `word` on this line stands for."""
    try:
        return long_name(word, known_options())
    except InputError as error:
        raise InputError(f"{line.place}{error}") from None


def _options(
    words: Sequence[str], file: Path, row: int, meant: Callable[[str], str]
) -> list[tuple[str, str | None]]:
    """Split `--name=value`, `--name value`, `-n value`, `-nVALUE` into pairs; the value is None if missing.

    `meant` gives the long name of an option.
    """
    pairs: list[tuple[str, str | None]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--") and len(word) > 2:
            short, equals, value = word.partition("=")
            name, given = meant(short), value if equals else None
        elif word.startswith("-") and len(word) > 1:
            name, given = meant(word[:2]), word[2:].removeprefix("=") or None
            if name in WITHOUT_VALUE and given:  # several options in one word: -HQ
                rest.insert(0, f"-{given}")
                given = None
        else:
            raise InputError.at(f"{word!r} is no option", file=file, row=row, expected="--name=value")
        takes_next = given is None and name not in WITHOUT_VALUE | VALUE_BEHIND_EQUALS
        if takes_next and rest and not rest[0].startswith("-"):
            given = rest.pop(0)
        pairs.append((name, given))
    return pairs


def _own(line: _Directive, file: Path) -> Fields:
    """Fields of a `#ROTA --gpus-range 1:4 --trial` line."""
    layers = []
    for name, value in _options(line.words, file, line.row, str):
        try:
            layers.append(read_fields(name.lstrip("-"), "yes" if value is None else value, name))
        except InputError as error:
            raise InputError(f"{file}, row {line.row}, {error}") from None
    return merge(*layers)


def _row(warning: str) -> int:
    match = re.match(r"line (\d+):", warning)
    return int(match[1]) if match else 1 << 30
