"""Checks what a policy declares when it is registered or passed in; errors are one sentence."""

from __future__ import annotations

import copyreg
import re
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints

from rota.errors import InputError, PolicyError, brief

_NAME = re.compile(r"[A-Za-z_][\w-]*")
_Kind = TypeVar("_Kind", bound=StrEnum)


def check_entry(name: object, cls: Any, parameters: Any, taken: Collection[str]) -> None:
    """Refuse a third-party registration that could not be used; `taken` are names of Rota's policies."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"a policy is named {brief(name)}; expected letters, digits, _ and -")
    if name in taken:
        raise InputError(f"policy {name!r} of {cls.__module__} is called as one of Rota's; expected its own")
    if not isinstance(parameters, type) or not is_dataclass(parameters):
        raise InputError(f"policy {name!r} has parameters={brief(parameters)}; expected a frozen dataclass")
    try:
        types = get_type_hints(parameters)
    except Exception as error:  # whatever stands in an annotation
        raise InputError(f"policy {name!r}: the types of its parameters cannot be read: {error}") from error
    for field in fields(parameters):
        if not _can_be_read(types[field.name]):
            raise InputError(
                f"policy {name!r}: its parameter {field.name!r} is of type {brief(types[field.name])}; "
                "expected bool, int, float, str, a StrEnum or tuple[float, ...]"
            )


def _can_be_read(kind: Any) -> bool:
    """True if a value of this type can be given as text."""
    is_choice = isinstance(kind, type) and issubclass(kind, StrEnum)
    return kind in (bool, int, float, str, tuple[float, ...]) or is_choice


def kinds_of(given: Any, kind: type[_Kind], whose: str) -> frozenset[_Kind]:
    """Keys of `given`, a set of members of `kind` or a dict by them; else PolicyError, naming `whose`."""
    is_set = isinstance(given, Collection) and not isinstance(given, str)
    if not is_set or not all(isinstance(one, kind) for one in given):
        first = next(iter(kind))
        raise PolicyError(
            f"{whose}={brief(dict(given) if isinstance(given, Mapping) else given)}; expected a set of "
            f"{kind.__name__}, such as {{{kind.__name__}.{first.name}}}, frozenset() for nothing"
        )
    return frozenset(given)


def begins_anew(cls: Any) -> None:
    """Make copies of Rota's own policies fresh instances with the same parameters.

    Whatever else an instance keeps is derived from what it is shown; and an instance with compiled parts
    could not be copied as it is.
    """
    copyreg.pickle(cls, _made_of)


def _made_of(policy: Any) -> tuple[Any, ...]:
    return type(policy), ((policy.parameters,) if hasattr(policy, "parameters") else ())
