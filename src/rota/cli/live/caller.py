"""A job's inheritance from its caller, and the error if no answer comes.  Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping

PASSED = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
PASSED_PREFIXES = ("CONDA_", "LC_")
"""Variables that a job inherits from its caller: they locate programs and hold no secrets."""
NEVER_PASSED = ("ROTA_", "TORCHELASTIC_")
"""The agent sets these, and one of them is the caller's token."""


def pass_on(caller: Mapping[str, str], export: str = "") -> dict[str, str]:
    """The part of the caller's environment that a job gets.

    `export` is sbatch's: empty for what programs need to be found, ALL, NONE, or names and NAME=VALUE.
    """
    asked = [word.strip() for word in export.split(",") if word.strip()]
    allowed = {name: value for name, value in caller.items() if not name.startswith(NEVER_PASSED)}
    if not asked:
        return {n: v for n, v in allowed.items() if n in PASSED or n.startswith(PASSED_PREFIXES)}
    environment = dict(allowed) if "ALL" in asked else {}
    for word in asked:
        name, equals, value = word.partition("=")
        if equals:
            environment[name] = value
        elif name in allowed:
            environment[name] = allowed[name]
    return environment


def here() -> tuple[dict[str, str], str]:
    """The caller's environment and folder."""
    return dict(os.environ), os.getcwd()


def perhaps_submitted(key: str) -> str:
    """The sentence for a submission that was sent and not answered."""
    return (
        f"the job may be on record all the same, under the key {key}: the same command with --key {key} says "
        "its number then, and submits it otherwise"
    )
