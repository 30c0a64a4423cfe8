"""Checks the arguments of the Python API before a function uses them.

Each public function states what its arguments may be.  Any other value raises one sentence that names the
argument, instead of failing at its first use.  What a text or a number means is checked where it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Signature, signature
from numbers import Integral, Real
from os import PathLike, fspath
from types import UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from rota.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Argument:
    """What an argument may be."""

    noun: str
    """What the argument should be, as in "5 is no trace"."""
    fits: Callable[[Any], bool] | None
    """True for the values that it may have; None if the function's annotation says it."""
    expected: str

    def or_none(self) -> Argument:
        """This argument, which may be None as well."""
        fits = self.fits
        return replace(self, fits=fits and (lambda value: value is None or fits(value)))

    def check(self, name: str, value: object, kind: object = None) -> None:
        """Raises InputError if `value` is not allowed for the argument `name` annotated with `kind`."""
        if not (is_of(kind, value) if self.fits is None else self.fits(value)):
            raise InputError.at(f"{shown(value)} is no {self.noun}", argument=name, expected=self.expected)


def takes(**arguments: Argument) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator that checks `arguments` before the function begins; errors call them by name."""

    def of(function: Callable[P, R]) -> Callable[P, R]:
        known = signature(function)
        kinds = cache(lambda: get_type_hints(function))

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in _bound(function.__name__, known, args, kwargs).items():
                if name in arguments:
                    arguments[name].check(name, value, kinds().get(name))
            try:
                return function(*args, **kwargs)
            except InputError as error:
                error.name_arguments(known.parameters)
                raise

        return checked

    return of


def _bound(
    name: str, known: Signature, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Mapping[str, object]:
    """Arguments by name.  Raises TypeError for an impossible call, with the name probably meant."""
    try:
        return known.bind(*args, **kwargs).arguments
    except TypeError as error:
        close = [
            near for one in kwargs for near in get_close_matches(one, known.parameters, n=1) if near != one
        ]
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise TypeError(f"{name}() {error}{hint}") from None


def is_of(kind: Any, value: object) -> bool:
    """True if `value` is of `kind`, a type as annotations write it.

    NumPy's numbers count as `int` and `float`, an `int` as `float`.  A string is not a sequence, a class not
    an instance of a protocol.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(is_of(part, value) for part in parts)
    if kind in (int, float):
        return is_whole(value) if kind is int else is_number(value)
    if origin is PathLike:
        return not isinstance(value, str) and is_file(value)
    if origin is Sequence:
        return all_of(parts[0])(value)
    if origin is Mapping:
        return named(parts[1])(value)
    if getattr(kind, "_is_protocol", False):
        methods = [name for name in vars(kind) if not name.startswith("_")]
        return not isinstance(value, type) and all(hasattr(value, name) for name in methods)
    return isinstance(value, origin or kind)


def shown(value: object) -> str:
    """`value` as a message can name it, however large it is."""
    text = repr(value)
    if len(text) <= 40 and "\n" not in text and " at 0x" not in text:
        return text
    return f"an object of type {type(value).__name__}"


def instance_of(*types: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types)


def is_file(value: object) -> bool:
    """True for what can name a file: a string or a path."""
    return isinstance(value, str) or (isinstance(value, PathLike) and isinstance(fspath(value), str))


def is_whole(value: object) -> bool:
    """True for integers, NumPy's too, but not for True and False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def all_of(kind: type) -> Callable[[object], bool]:
    """True for sequences of instances of `kind`."""
    return lambda value: (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and all(isinstance(one, kind) for one in value)
    )


def named(kind: type) -> Callable[[object], bool]:
    """True for mappings from strings to instances of `kind`."""
    return lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(key, str) and isinstance(one, kind) for key, one in value.items())
    )


def either(*tests: Callable[[Any], bool]) -> Callable[[object], bool]:
    return lambda value: any(test(value) for test in tests)


TEXT = Argument("text", instance_of(str), "a text")
FLAG = Argument("yes or no", instance_of(bool), "True or False")
CALL = Argument("function", callable, "a function")
FILE = Argument("file", is_file, "the name of a file")
WHOLE = Argument("whole number", is_whole, "one such as 1")
NUMBER = Argument("number", is_number, "one such as 0.9")
