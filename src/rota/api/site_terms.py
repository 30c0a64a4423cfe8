"""Terms for a replay of a site's own history: durations as a site knows them, costs of stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rota.bounds import has_observed
from rota.knowledge.needs import Knowledge, Provenance
from rota.model.trace import Trace
from rota.worlds.simulated.costs import Costs, parse_costs

OWN_HISTORY = frozenset({"pbs", "plain", "sacct", "swf"})
"""Formats of sites' own accounts; the others are of published traces."""
DURATIONS: Mapping[str, str] = {Knowledge.DURATION.value: Provenance.PREDICTED.value}
"""The source of durations unless `--knowledge` names one."""
RESTARTS = "checkpoint=10s,restore=60s"
"""Costs of an interruption if `--costs` is not given; `--costs measured` takes a running cluster's costs."""


def is_own_history(trace: Trace) -> bool:
    """True if `trace` is in a format of sites' accounts, and recorded when jobs started."""
    return trace.format in OWN_HISTORY and has_observed(trace)


@dataclass(frozen=True)
class SiteTerms:
    """Sources of knowledge and costs of stops, with defaults filled in."""

    knowledge: Mapping[str, str]
    costs: Costs
    is_own: bool
    """True if the trace is a site's own history, and is replayed as one."""
    defaults: tuple[str, ...] = ()
    """The defaults that were filled in, as clauses."""

    @property
    def remarks(self) -> list[str]:
        """The defaults that were filled in, and the options that change them."""
        if not self.defaults:
            return []
        return [
            f"Recorded starts make this a site's own history: {', and '.join(self.defaults)}. --knowledge "
            "and --costs say otherwise; --ideal is true durations and free stops."
        ]


def site_terms(
    trace: Trace, knowledge: Mapping[str, str], costs: str | Costs | None, *, ideal: bool
) -> SiteTerms:
    """The terms of `trace`: the given options, and for a site's own history the site's defaults.

    All other traces, and `ideal` ones, have true durations and free stops.
    """
    stated = parse_costs(costs) if isinstance(costs, str) else costs
    if ideal or not is_own_history(trace):
        return SiteTerms(knowledge, stated or Costs(), is_own=False)
    defaults = []
    if Knowledge.DURATION not in knowledge:
        defaults.append("durations are predicted from earlier jobs of the same group or tenant")
    if stated is None:
        stated = parse_costs(RESTARTS)
        defaults.append(f"a preemption costs {stated.stops['preemptions']} ({RESTARTS})")
    return SiteTerms({**DURATIONS, **knowledge}, stated, is_own=True, defaults=tuple(defaults))
