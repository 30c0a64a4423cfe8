"""The parameters of a policy as its file describes them: defaults, what may be given, what they mean."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, NamedTuple, get_type_hints

from rota.errors import InputError


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
    """A parameter's value as typed on the command line."""
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
    """Field -> the string under its assignment; empty for a class defined at a prompt.

    A field that `kind` inherits has the string of its base.
    """
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            docs |= _own_field_docs(base)
    return docs


def _own_field_docs(kind: type[Any]) -> dict[str, str]:
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


# -- given as text ---------------------------------------------------------------------------------


def parse_parameters(policy: str, kind: type[Any], options: Mapping[str, str]) -> Any:
    """The parameters of `policy`, a `kind`, with `options` (text) in place of defaults."""
    types = get_type_hints(kind) if options else {}
    known = {f.name: f for f in fields(kind)}
    values: dict[str, Any] = {}
    for key, text in options.items():
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known) or 'none'}"
            raise InputError(f"policy {policy!r} has no parameter {key!r}; {hint}")
        values[key] = _parse_value(policy, key, text, types[key])
    missing = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    for name in missing:
        if name not in values:
            raise InputError(f"policy {policy!r} needs a value for {name!r}")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:  # in its `__post_init__`
        raise InputError(f"policy {policy!r}: {error}") from error


_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


def _parse_value(policy: str, key: str, text: str, kind: Any) -> Any:
    """`text` as a value of the type `kind` (bool, int, float, str, an enum or a tuple of floats)."""
    try:
        if kind is bool:
            if text.lower() not in _TRUE | _FALSE:
                raise ValueError
            return text.lower() in _TRUE
        if kind is int:
            return int(text)
        if kind is float:
            value = float(text)
            if math.isnan(value):
                raise ValueError
            return value
        if kind == tuple[float, ...]:
            return tuple(float(part) for part in text.split("/"))
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return kind(text)
    except ValueError:
        raise InputError(f"policy {policy!r}: {key}={text} is not {_expected(kind)}") from None
    return text


def _expected(kind: Any) -> str:
    if kind is bool:
        return "yes or no"
    if kind is int:
        return "a whole number"
    if kind is float:
        return "a number"
    if kind == tuple[float, ...]:
        return "numbers joined by slashes, such as 3250/7200"
    return "one of " + ", ".join(str(member) for member in kind)
