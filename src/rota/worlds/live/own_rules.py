"""The rules of the failure classifier that an operator has written."""

from __future__ import annotations

import re
from typing import Any

from rota.errors import InputError
from rota.worlds.live.endings import RULES, Cause, Rule


def rules_of(failures: Any) -> tuple[Rule, ...]:
    """The failure classifier: the rules of the setting `failures`, then the built-in ones."""
    own = []
    for number, said in enumerate(failures if isinstance(failures, list) else [None], start=1):
        where = f"failures: rule {number}"
        if not isinstance(said, dict) or not _HEAD < set(said) <= _HEAD | _FITS:
            raise InputError(f"{where}: expected name, cause, and some of codes, signals, log")
        try:
            re.compile(said.get("log", ""))
            own.append(
                Rule(
                    str(said["name"]),
                    _CAUSES[str(said["cause"])],
                    _numbers(said.get("codes", [])),
                    _numbers(said.get("signals", [])),
                    str(said.get("log", "")),
                )
            )
        except (KeyError, ValueError, TypeError, re.error) as error:
            problem = f"there is no cause {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(
                f"{where}: {problem}; expected cause user, oom or infrastructure, lists of numbers, a regex"
            ) from None
    return (*own, *RULES)


_HEAD, _FITS = {"name", "cause"}, {"codes", "signals", "log"}
_CAUSES = {cause.value: cause for cause in (Cause.USER, Cause.OOM, Cause.INFRASTRUCTURE)}
"""No rule makes a success of a failure."""


def _numbers(said: Any) -> frozenset[int]:
    if not isinstance(said, list):
        raise TypeError(f"{said!r} is no list")
    return frozenset(int(one) for one in said)
