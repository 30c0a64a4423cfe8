"""The overheads of a live cluster, from what its agents measured, for simulations of it.

A start holds devices without doing work from the agent's first move until the first step begins:
`start + ready - step`.  A preempted job pays its `leave` (`stop` where no program could checkpoint), and at
its return a start and the `restore`; a start that restores is measured with what it restores, so where most
starts do, the restore counts twice.  Taking devices from a suspended job costs `suspend` and `resume`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rota.errors import InputError
from rota.model.units import format_duration, plural
from rota.worlds.simulated.costs import CostModel, Costs

if TYPE_CHECKING:
    from rota.wire.views import CostView

ENOUGH = 5
"""Measurements from which a workload has costs of its own."""
Medians = Mapping[str, float]
"""Seconds by kind."""


@dataclass(frozen=True)
class MeasuredCosts(Costs):
    """Costs with provenance `measured`."""

    source: str = ""
    """The cluster they come from."""
    remark: str = ""
    """One sentence on what was measured too rarely; empty if nothing was."""

    @property
    def remarks(self) -> list[str]:
        """Sentences for readers of results that rest on them: what they are, and how reliable."""
        events = ("start", "checkpoint", "restore", "switch")
        named = [(event, getattr(self, event).constant_s) for event in events]
        told = ", ".join(f"{name} {format_duration(seconds)}" for name, seconds in named if seconds)
        return [f"Costs measured at {self.source}: {told or 'nothing'}.", *filter(None, [self.remark])]


def measured_costs(views: Iterable[CostView], source: str) -> MeasuredCosts:
    """The cost of each event for a simulation; InputError if nothing was measured."""
    views = list(views)
    overall = {view.kind: view.seconds for view in views if view.workload is None}
    if "start" not in overall:
        raise InputError.at(
            f"{source} has not measured a single start",
            field="--costs",
            expected="a cluster that has run jobs, or start=20s,restore=30s",
        )
    own: dict[str, dict[str, float]] = {}
    for view in views:
        if view.workload is not None and view.count >= ENOUGH:
            own.setdefault(view.workload, {})[view.kind] = view.seconds

    def cost(rule: Callable[[Medians], float]) -> CostModel:
        return CostModel(
            round(rule(overall), 6),
            by_workload={name: round(rule(overall | medians), 6) for name, medians in sorted(own.items())},
        )

    return MeasuredCosts(
        start=cost(_start),
        checkpoint=cost(_leave),
        restore=cost(lambda medians: _start(medians) + medians.get("restore", 0.0)),
        switch=cost(lambda medians: medians.get("suspend", 0.0) + medians.get("resume", 0.0)),
        source=source,
        remark=_remark(views, source),
    )


def _start(medians: Medians) -> float:
    """Seconds until the first step begins; where no program said it was ready, until its processes run."""
    work_s = max(0.0, medians["ready"] - medians.get("step", 0.0)) if "ready" in medians else 0.0
    return medians["start"] + work_s


def _leave(medians: Medians) -> float:
    return next((medians[kind] for kind in ("leave", "checkpoint", "stop") if kind in medians), 0.0)


def _remark(views: Iterable[CostView], source: str) -> str:
    counts = {view.kind: view.count for view in views if view.workload is None}
    leaves = max(counts.get(kind, 0) for kind in ("leave", "checkpoint", "stop"))
    counted = {"start": counts.get("start", 0), "first step": counts.get("ready", 0), "departure": leaves}
    few = [
        plural(count, what) if count else f"no {what}s" for what, count in counted.items() if count < ENOUGH
    ]
    for kind, what in (("restore", "restore"), ("suspend", "suspension")):  # no job may need them
        few += [plural(counts[kind], what)] if 0 < counts.get(kind, 0) < ENOUGH else []
    return f"Costs measured at {source} rest on {', '.join(few)}." if few else ""
