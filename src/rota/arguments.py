"""What a caller of the Python API hands over, looked at before anything is done with it.

Each public function says of its arguments what they may be; of anything else it is told in one sentence, by
name, instead of failing wherever that thing is first used.  What a text or a number means is looked at later,
by whoever reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import wraps
from inspect import Signature, signature
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any, ParamSpec, TypeVar

from rota.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Argument:
    """What an argument may be."""

    noun: str
    """What the argument is to be, as in "5 is no trace"."""
    fits: Callable[[Any], bool]
    expected: str

    def or_none(self) -> Argument:
        """The same; None as well."""
        return replace(self, fits=lambda value: value is None or self.fits(value))

    def check(self, name: str, value: object) -> None:
        """Raises InputError if `value`, the argument `name`, is nothing of the kind."""
        if not self.fits(value):
            raise InputError.at(f"{shown(value)} is no {self.noun}", argument=name, expected=self.expected)


def takes(**arguments: Argument) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that takes `arguments`, which are looked at before it begins; errors call them by name."""

    def of(function: Callable[P, R]) -> Callable[P, R]:
        known = signature(function)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in _bound(function.__name__, known, args, kwargs).items():
                if name in arguments:
                    arguments[name].check(name, value)
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
    """Arguments by name; the TypeError of a call that cannot be knows better names."""
    try:
        return known.bind(*args, **kwargs).arguments
    except TypeError as error:
        close = [
            near for one in kwargs for near in get_close_matches(one, known.parameters, n=1) if near != one
        ]
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise TypeError(f"{name}() {error}{hint}") from None


def shown(value: object) -> str:
    """`value` as a message can name it, however large it is."""
    text = repr(value)
    if len(text) <= 40 and "\n" not in text and " at 0x" not in text:
        return text
    return f"an object of type {type(value).__name__}"


def instance_of(*types: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types)


def is_file(value: object) -> bool:
    """True of what can name a file: a text or a path."""
    return isinstance(value, str) or (isinstance(value, PathLike) and isinstance(fspath(value), str))


def is_whole(value: object) -> bool:
    """True of integers, NumPy's too; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def all_of(kind: type) -> Callable[[object], bool]:
    """True of sequences of instances of `kind`."""
    return lambda value: (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and all(isinstance(one, kind) for one in value)
    )


def named(kind: type) -> Callable[[object], bool]:
    """True of mappings from texts to instances of `kind`."""
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
