"""Every error Rota raises on purpose.

RotaError                 one clear sentence; the command line prints it and exits with `exit_code`
├── InputError            a file, a row, a flag or a name is not what was expected      (exit 2)
├── PolicyError           a policy cannot run as asked, or broke its contract           (exit 1)
│   ├── NeedError         a policy reads knowledge it did not declare, or nobody provides it
│   └── GuardError        a decision breaks a rule of the cluster; names job, device, rule
└── WorldError            a world could not do what a valid decision asked              (exit 1)
"""

from __future__ import annotations

_BRIEF = 120
"""As much as people read of a value that is wrong."""


class RotaError(Exception):
    """Base of all errors meant for a person to read."""

    exit_code = 1


class InputError(RotaError):
    """Bad input: says where (file, row, field), what stood there and what was expected."""

    exit_code = 2

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
        dash is an option of the command line and stands for itself; an `argument` is one of a function.
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


def shown(file: object) -> str:
    """The name of a file on one line: what breaks a line or cannot be printed is written as an escape."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(file))


def brief(value: object) -> str:
    """`value` as a sentence can name it: its `repr`, cut where it becomes long."""
    text = repr(value)
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}..."


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
