"""The tenants in force on a running cluster: from the configuration, or set since.

The latest statement counts.  Tenants set by `rota tenants apply` outlive restarts, until the tenants of
the configuration change; then the configuration counts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.errors import InputError
from rota.model.tenants import Tenants
from rota.server.store.rows import EventRow, Json, Step
from rota.server.store.store import Store
from rota.server.tenants.settings import changes, parse_tenants, plain_tenants

FACT = "tenants"
"""Name of the fact that records them."""
MOST_CHANGES = 10
"""Sentences in one line of the audit."""


@dataclass(frozen=True)
class TenantsInForce:
    """Entitlements of the tenants, since when they hold, and the user that set them."""

    tenants: Tenants
    configured: Tenants
    """Those that the configuration had at the last start."""
    since_s: float = 0.0
    """Seconds since the cluster's epoch."""
    by: str = ""
    """The user that set them; empty if they are from the configuration."""

    def fact(self) -> dict[str, Json]:
        """For the store."""
        said, configured = plain_tenants(self.tenants), plain_tenants(self.configured)
        return {FACT: {"said": said, "configured": configured, "since_s": self.since_s, "by": self.by}}


def on_record(facts: Mapping[str, Json]) -> TenantsInForce | None:
    """Those that were noted; None if none were.  InputError if the note cannot be read."""
    kept: Any = facts.get(FACT)
    if kept is None:
        return None
    try:
        said, configured = parse_tenants(kept["said"]), parse_tenants(kept["configured"])
        return TenantsInForce(said, configured, float(kept["since_s"]), str(kept["by"]))
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise InputError(
            f"the tenants on record cannot be read ({error!r}); those of the file count"
        ) from None


def begin(store: Store, configured: Tenants, now: float, who: str) -> None:
    """Note at a start which tenants count: the configuration's if it has changed since the last start."""
    try:
        kept = on_record(store.facts())
    except InputError:
        kept = None  # the scheduler reports it; facts written now can be read again
    if kept is not None and plain_tenants(kept.configured) == plain_tenants(configured):
        return
    if kept is None and not configured:
        return
    step = moved(TenantsInForce(configured, configured, now), kept, who)
    store.commit(step)


def moved(new: TenantsInForce, old: TenantsInForce | None, who: str) -> Step:
    """The step that puts `new` in place of `old`, with its line in the audit."""
    said = changes(old.tenants if old else Tenants.none(), new.tenants)
    more = f"; and {len(said) - MOST_CHANGES} more" if len(said) > MOST_CHANGES else ""
    text = "; ".join(said[:MOST_CHANGES]) + more or "as before"
    return Step(facts=new.fact(), events=[EventRow(new.since_s, who, FACT, text=text)])
