"""Former names of policies, so that records of live clusters and fidelity cases can still be read."""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module

LOG = logging.getLogger("rota.policy")


def todays_name(name: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Today's name and options of a policy on record under a former name; each is noted once.

    `name:mode=MODE` was the name of published code; parameters without an effect, and
    values that meant the default, are left out.
    """
    history = import_module("rota.published")
    mode, modes = options.get("mode", ""), history.FORMER_MODES.get(name, {})
    if mode in modes:
        _note_once(f"policy '{name}:mode={mode}' is called '{modes[mode]}' now")
        name, options = modes[mode], {key: value for key, value in options.items() if key != "mode"}
        options = {**history.FORMER_DEFAULTS.get(name, {}), **options}
    for text in history.FORMER_VALUES.get(name, frozenset()) & {f"{k}={v}" for k, v in options.items()}:
        _note_once(f"policy {name!r}: {text} is the default, and has no name any more")
        options = {key: value for key, value in options.items() if f"{key}={value}" != text}
    for key in history.FORMER_PARAMETERS.get(name, frozenset()) & options.keys():
        _note_once(f"policy {name!r} has no parameter {key!r} any more; it never had an effect")
        options = {other: value for other, value in options.items() if other != key}
    return name, options


@cache
def _note_once(sentence: str) -> None:
    LOG.warning(sentence)
