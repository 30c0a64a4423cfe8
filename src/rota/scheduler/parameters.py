"""The parameters of a policy as its file describes them: defaults, what may be given, what they mean."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from typing import Any, NamedTuple, get_type_hints


class ParameterTold(NamedTuple):
    """One field of a dataclass of parameters."""

    name: str
    default: str
    values: str
    """What may be given."""
    meaning: str


def parameters_told(kind: type[Any]) -> tuple[ParameterTold, ...]:
    """The fields of a dataclass of parameters, with the strings written under them."""
    types, meanings = get_type_hints(kind), field_docs(kind)
    return tuple(
        ParameterTold(f.name, _default(f), values_of(types[f.name]), meanings.get(f.name, ""))
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
