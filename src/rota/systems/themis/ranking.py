"""The order of apps by finish-time fairness, and how a job's place in it is explained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rota.model.grants import Code, Constraint
from rota.model.reasons import listed, names_of
from rota.model.units import format_duration
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.stages.received import has_run
from rota.systems.themis.apps import App, Estimates, Holds, rho_at_best
from rota.table.occupancy import Occupancy


@dataclass(frozen=True)
class AppStanding:
    """An app's standing among the others."""

    rho: float
    """ρ with what it holds under leases in force; infinite if that is nothing."""
    at_best: float
    """ρ with the smallest gang it could get: of apps that hold nothing the larger is worse."""

    def rank(self, app: App) -> tuple[float, float, float, int]:
        """Sort key: the worst app first."""
        return (-self.rho, -self.at_best, app.began_s, min(app.rows))


def standings(
    apps: list[App],
    values: list[float],
    holds: list[Holds],
    estimates: Estimates,
    crowd: list[float],
) -> list[AppStanding]:
    """The standing of each app; `values` are logarithms of 1 / ρ, computed with `holds`."""
    return [
        AppStanding(
            math.exp(-value) if held else math.inf,
            0.0 if held else rho_at_best(app, estimates, n),
        )
        for app, value, held, n in zip(apps, values, holds, crowd, strict=True)
    ]


@dataclass(frozen=True)
class ToldApp:
    """What was reported of an app when GPUs were last handed out."""

    rows: tuple[int, ...]
    rho: float
    """ρ with what it holds since then; infinite if that is nothing."""
    at_best: float
    """ρ with the smallest gang, where it holds nothing."""
    place: int
    """Number of apps that wanted GPUs and would have finished worse; -1 if it wanted none."""


class LeaseTurns:
    """Which apps come before which, and until when GPUs are leased, for explanations."""

    spreads = True

    def __init__(
        self, tell: Callable[[], Sequence[ToldApp]], won: Sequence[int], until: Mapping[int, float]
    ) -> None:
        """`tell` gives the standings at the last auction; it is called once, when first needed."""
        self._tell = tell
        self._won = won
        self.until = until
        """When leases end, by row."""

    @cached_property
    def _apps(self) -> Sequence[ToldApp]:
        return self._tell()

    @cached_property
    def _told(self) -> dict[int, ToldApp]:
        return {row: app for app in self._apps for row in app.rows}

    @cached_property
    def _in_want(self) -> list[ToldApp]:
        return sorted((app for app in self._apps if app.place >= 0), key=lambda app: app.place)

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        """Waiting rows of apps that would finish worse."""
        own = self._told.get(row)
        place = len(self._in_want) if own is None or own.place < 0 else own.place
        before = [other for app in self._in_want[:place] for other in app.rows]
        return sorted(other for other in before if snapshot.waits(other))

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        """True if `row` could be placed on `scratch`."""
        return Fitter(snapshot, consolidate)(scratch, row) is not None

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """ρ of its app, what it has had, apps before it and until when; None if it takes no turns."""
        if snapshot.gpus_of[row] == 0 or (row not in self._told and row not in self.until):
            return None
        runs = row in snapshot.grants
        words = [self._fairness(row), has_run(snapshot, row)]
        words += self._own_lease(snapshot, row) if runs else self._leases(snapshot, row)
        return Constraint(Code.TURN, float(runs), math.nan, "; ".join(word for word in words if word))

    def _fairness(self, row: int) -> str:
        own = self._told.get(row)
        if own is None:
            return ""
        holds = own.rho < math.inf
        what = "its app, with what it holds, finishes" if holds else "would finish, if it began now,"
        said = f"{what} at ρ = {own.rho if holds else own.at_best:.3g}"
        if own.place < 0:
            return said
        return f"{said}, {_ordinal(own.place + 1)} worst of {len(self._in_want)} that want GPUs"

    def _own_lease(self, snapshot: Snapshot, row: int) -> list[str]:
        """What becomes of a running job, and which jobs want its GPUs."""
        left_s = self.until.get(row, math.nan) - snapshot.now
        if math.isnan(left_s):
            return []
        waits = [other for app in self._in_want for other in app.rows if snapshot.waits(other)]
        names = self._names(snapshot, [other for other in waits if other != row])
        then = f", when its GPUs are offered to {names} as well" if names else ", to be renewed: nobody waits"
        return [f"its lease ends {_in(left_s)}{then}"]

    def _leases(self, snapshot: Snapshot, row: int) -> list[str]:
        """Which jobs are before a waiting job, and until when they hold GPUs."""
        before = self._names(snapshot, [other for other in self.ahead(snapshot, row) if other != row])
        words = [f"before it: {before}"] if before else []
        winners = [winner for winner in self._won if winner in self.until]
        if winners:
            first_s = min(self.until[winner] for winner in winners)
            names = self._names(snapshot, winners)
            words.append(f"the last went to {names}, leased {_for(first_s - snapshot.now)}")
        elif self.until:
            words.append(f"the next lease ends {_in(min(self.until.values()) - snapshot.now)}")
        return words

    def _names(self, snapshot: Snapshot, rows: Sequence[int]) -> str:
        ids = snapshot.jobs.table.ids
        return listed(names_of([str(ids[row]) for row in rows])) if rows else ""


def _for(seconds: float) -> str:
    return f"for another {format_duration(seconds)}" if seconds > 0.0 else "until now"


def _in(seconds: float) -> str:
    return f"in {format_duration(seconds)}" if seconds > 0.0 else "now"


def _ordinal(place: int) -> str:
    if place == 1:
        return "the"
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"
