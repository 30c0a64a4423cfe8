"""What the registry and the files of the policies say about each system, ready to print."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from typing import Any, get_type_hints

from rota.cli.system_index import Entry, Parameter
from rota.scheduler.policy import System, system, systems

HEAD = ("Paper", "Decides", "Needs", "Idea", "Departs", "Checked")
"""Keys of the head of a policy file, in order."""


def entries() -> list[Entry]:
    """All systems by name."""
    return [_entry(one) for one in systems().values()]


def entry(name: str) -> Entry:
    """The system `name`; raises InputError if there is none."""
    return _entry(system(name))


def _entry(one: System) -> Entry:
    return Entry(
        name=one.name,
        summary=one.summary,
        paper=one.paper,
        needs=tuple(sorted(kind.value for kind in one.needs)),
        levers=tuple(sorted(lever.value for lever in one.levers)),
        heeds_priority=one.heeds_priority,
        status=one.status.value,
        scale=one.scale,
        module=one.make.__module__,
        page=page_of(one.make.__module__),
        head=head_of(getattr(sys.modules.get(one.make.__module__), "__doc__", None) or ""),
        parameters=parameters_of(one.parameters),
    )


def page_of(module: str) -> str:
    """The page of the system in `module`, which is named after its file or folder in `rota.policies`."""
    within = module.removeprefix("rota.policies.")
    return f"docs/systems/{within.split('.')[0]}.md" if within != module else ""


def head_of(docstring: str) -> dict[str, str]:
    """The aligned head of a policy file by key; lines of several points stay apart."""
    texts: dict[str, str] = {}
    key = ""
    for line in docstring.splitlines():
        if match := re.match(rf"({'|'.join(HEAD)}) +(\S.*)", line):
            key = match[1]
            texts[key] = match[2].strip()
        elif key and line.startswith(" "):
            text = line.strip()
            texts[key] += ("\n" if re.match(r"\d+\.", text) else " ") + text
        else:
            key = ""
    return texts


def parameters_of(kind: type[Any]) -> tuple[Parameter, ...]:
    """The fields of a dataclass of parameters, with the strings written under them."""
    types, meanings = get_type_hints(kind), field_docs(kind)
    return tuple(
        Parameter(f.name, _default(f), values_of(types[f.name]), meanings.get(f.name, ""))
        for f in fields(kind)
    )


def _default(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return value_text(field.default)
    return value_text(field.default_factory()) if field.default_factory is not MISSING else "required"


def value_text(value: object) -> str:
    """A parameter's value as one types it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "/".join(value_text(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def values_of(kind: Any) -> str:
    """What may be given for a parameter of the type `kind`."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return " ".join(str(member) for member in kind)
    if kind == tuple[float, ...]:
        return "numbers joined by /"
    names = {bool: "yes no", int: "whole number", float: "number", str: "text"}
    return names.get(kind, str(kind))


def field_docs(kind: type[Any]) -> dict[str, str]:
    """Field -> the string that stands under its assignment; empty for a class typed at a prompt."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for assigned, after in zip(body.body, body.body[1:], strict=False):
        is_string = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(assigned, ast.AnnAssign) and isinstance(assigned.target, ast.Name) and is_string:
            docs[assigned.target.id] = inspect.cleandoc(str(after.value.value))  # type: ignore[attr-defined]
    return docs
