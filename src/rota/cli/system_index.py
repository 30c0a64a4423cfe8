"""The index that `rota systems` prints without loading the policies; `make docs` writes it.

Importing all policies takes ten times as long as printing the index.  If other packages register policies
as well, the registry itself is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

NEEDS_TOLD = "In brackets: what only some variants of a policy need."
"""How to read a column of `Entry.needs_line`."""
INDEX = Path(__file__).with_name("systems.json")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a policy, as text."""

    name: str
    default: str
    values: str
    meaning: str


@dataclass(frozen=True)
class Entry:
    """One system: facts of the registry, parameters, and the head of its file."""

    name: str
    summary: str
    paper: str
    needs: tuple[str, ...]
    """Knowledge that some variant needs."""
    needs_by_default: tuple[str, ...]
    """Knowledge that it needs with default parameters."""
    has_inner: bool
    """True if another policy, with its own needs, decides inside."""
    levers: tuple[str, ...]
    heeds_priority: bool
    status: str
    module: str
    page: str
    """Path of the system's page in the repository; empty for a policy from elsewhere."""
    head: dict[str, str]
    parameters: tuple[Parameter, ...]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)

    def needs_line(self) -> str:
        """Knowledge that it needs, for a table; needs of only some variants are in brackets."""
        if self.has_inner:
            return "what the policy inside needs"
        always = ", ".join(self.needs_by_default)
        sometimes = ", ".join(kind for kind in self.needs if kind not in self.needs_by_default)
        return " ".join(part for part in (always, f"({sometimes})" if sometimes else "") if part) or "nothing"

    def facts(self) -> dict[str, str]:
        """Lines to show: the head of the file, then the registry's own."""
        own = {
            "Levers": ", ".join(self.levers) or "none",
            "Priority": "higher ones first" if self.heeds_priority else "has no effect",
            "Status": self.status,
            "File": self.module,
        }
        if self.page:
            own["Page"] = self.page
        return (self.head or {"Paper": self.paper or "-"}) | own


@dataclass(frozen=True)
class Index:
    """All systems by name, what reproduces published code, and the bounds with their summaries."""

    systems: Mapping[str, Entry]
    published: Mapping[str, Entry]
    bounds: Mapping[str, str]


def written(entries: Iterable[Entry], published: Iterable[Entry], bounds: Mapping[str, str]) -> str:
    """The text of the index."""
    own, others = ({one.name: one.to_dict() for one in group} for group in (entries, published))
    return json.dumps({"systems": own, "published": others, "bounds": dict(bounds)}, indent=1) + "\n"


def index() -> Index | None:
    """The index; None where other packages register policies too, which it lacks."""
    if not INDEX.exists() or entry_points(group="rota.policies"):
        return None
    said = json.loads(INDEX.read_text(encoding="utf-8"))
    own, others = (
        {name: _entry(form) for name, form in said[group].items()} for group in ("systems", "published")
    )
    return Index(own, others, said["bounds"])


def _entry(form: dict[str, Any]) -> Entry:
    lists = {name: tuple(form[name]) for name in ("needs", "needs_by_default", "levers")}
    return Entry(**{**form, **lists, "parameters": tuple(Parameter(**one) for one in form["parameters"])})
