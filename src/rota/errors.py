"""Every error Rota raises on purpose.

RotaError                 one clear sentence; the command line prints it and exits with `exit_code`
├── InputError            a file, a row, a flag or a name is not what was expected      (exit 2)
├── PolicyError           a policy cannot run as asked, or broke its contract           (exit 1)
│   ├── NeedError         a policy reads knowledge that it did not declare or nothing provides
│   └── GuardError        a decision breaks a rule of the cluster; names job, device, rule
└── WorldError            a world could not do what a valid decision asked              (exit 1)
"""

from __future__ import annotations

import re
from collections.abc import Collection

_BRIEF = 120
"""Most characters shown of a wrong value."""


class RotaError(Exception):
    """Base of all errors meant for a person to read."""

    exit_code = 1


class InputError(RotaError):
    """Bad input: says where (file, row, field), what was found there and what was expected.

    When a function of the Python API raises it, options have the names of that function's arguments.
    """

    exit_code = 2
    in_command: str | None = None
    """The sentence as the command line states it, where an API has reworded it."""

    @classmethod
    def at(
        cls,
        problem: str,
        *,
        file: object = None,
        row: int | None = None,
        field: str | None = None,
        argument: str | None = None,
        expected: str | None = None,
    ) -> InputError:
        """Build the sentence `FILE, row N, column 'F': PROBLEM; expected E`.

        `row` counts as an editor does: the first line of the file is row 1.  A `field` that begins with a
        dash is an option of the command line and is shown as it is; an `argument` is one of a function.
        """
        places = [shown(file)] if file is not None else []
        if row is not None:
            places.append(f"row {row}")
        if field is not None:
            places.append(field if field.startswith("-") else f"column '{field}'")
        if argument is not None:
            places.append(f"argument '{argument}'")
        where = ", ".join(places)
        sentence = f"{where}: {problem}" if where else problem
        return cls(f"{sentence}; expected {expected}" if expected else sentence)

    def name_arguments(self, names: Collection[str]) -> None:
        """If the sentence begins with an option in `names`, name the argument instead."""
        option = _OPTION.match(str(self))
        if option is None:
            return
        name = option[1].replace("-", "_")
        name = name if name in names else _SEVERAL.get(name, name)
        if name in names:
            self.in_command = str(self)
            self.args = (f"argument '{name}'{self.in_command[option.end() :]}",)


_OPTION = re.compile(r"--([a-z][a-z-]*[a-z])\b")
_SEVERAL = {"policy": "policies"}
"""Options that a command takes one by one and a function together."""


def shown(file: object) -> str:
    """The name of a file on one line: line breaks and unprintable characters are escaped."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(file))


def brief(value: object) -> str:
    """`value` for use in a sentence: its `repr`, cut if it is long."""
    text = repr(value)
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}..."


def words_of(error: BaseException, module: str = "") -> str:
    """An exception in one line: what, and the file and line; in `module`, if it passed through that."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    places = _places(error)
    if not places:
        return what
    file, line = next((place[1:] for place in reversed(places) if place[0] == module), places[-1][1:])
    return f"{what} ({file.rpartition('/')[2]}, line {line})"


def _places(error: BaseException) -> list[tuple[object, str, int]]:
    """Module, file and line of each frame that `error` passed through, the innermost last."""
    places, trace = [], error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        places.append((frame.f_globals.get("__name__"), frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return places


class PolicyError(RotaError):
    """A policy cannot run as configured, or returned something that is not a decision."""


class NeedError(PolicyError):
    """Knowledge was read that was not declared, or declared and not provided."""


class GuardError(PolicyError):
    """A decision breaks a rule; carries the rule's code so that tests can name it."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule

    def __reduce__(self) -> tuple[type[GuardError], tuple[str, str]]:
        """Errors travel between processes; pickle would otherwise forget the rule."""
        return GuardError, (self.rule, str(self))


class WorldError(RotaError):
    """The world failed to carry out a valid action."""
