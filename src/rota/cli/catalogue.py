"""Facts about each system for printing, from the registry and the heads of policy files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from rota.cli.system_index import Entry, Parameter
from rota.knowledge.needs import Knowledge
from rota.scheduler.parameters import parameters_told
from rota.scheduler.policy import Lever, System, published, system, systems

HEAD = ("Paper", "Decides", "Needs", "Idea", "Departs", "Checked")
"""Keys of the head of a policy file, in order."""


def entries() -> list[Entry]:
    """All systems by name, without what reproduces published code."""
    return [_entry(one) for one in systems().values()]


def published_entries() -> list[Entry]:
    """All policies that reproduce published code, by name."""
    return [_entry(one) for one in published().values()]


def entry(name: str) -> Entry:
    """The system `name`; raises InputError if there is none."""
    return _entry(system(name))


def _entry(one: System) -> Entry:
    return Entry(
        name=one.name,
        summary=one.summary,
        paper=one.paper,
        needs=_values(one.needs),
        needs_by_default=_values(one.needs_of(one.parameters())),
        has_inner=one.needs >= frozenset(Knowledge),
        levers=_values(one.levers),
        heeds_priority=one.heeds_priority,
        status=one.status.value,
        module=one.make.__module__,
        page=page_of(one.make.__module__),
        head=head_of(getattr(sys.modules.get(one.make.__module__), "__doc__", None) or ""),
        parameters=parameters_of(one.parameters),
    )


def _values(kinds: Iterable[Knowledge] | Iterable[Lever]) -> tuple[str, ...]:
    return tuple(sorted(kind.value for kind in kinds))


def page_of(module: str) -> str:
    """The page of the paper that `module` is about, named after its folder; empty for other modules."""
    for rooms in ("rota.systems.", "rota.published.artifacts."):
        if module.startswith(rooms):
            return f"docs/systems/{module.removeprefix(rooms).split('.')[0]}.md"
    return ""


def head_of(docstring: str) -> dict[str, str]:
    """The aligned head of a policy file by key; lines of several points stay apart."""
    texts: dict[str, str] = {}
    key = ""
    for line in docstring.splitlines():
        if match := re.match(rf"({'|'.join(HEAD)}) +(\S.*)", line):
            key = match[1]
            texts[key] = match[2].strip()
        elif key and line.startswith(" "):
            text = line.strip()
            texts[key] += ("\n" if re.match(r"\d+\.", text) else " ") + text
        else:
            key = ""
    return texts


def parameters_of(kind: type[Any]) -> tuple[Parameter, ...]:
    """The fields of a dataclass of parameters, with the strings written under them."""
    return tuple(Parameter(*one) for one in parameters_told(kind))
