"""Whose turn it is: apps by finish-time fairness, and what is said to those that wait."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rota.model.grants import Code, Constraint
from rota.model.reasons import listed, names_of
from rota.model.units import format_duration
from rota.policies.themis.apps import App, Estimates, Holds, rho_at_best
from rota.scheduler.snapshot import Snapshot


@dataclass(frozen=True)
class AppStanding:
    """An app among the others."""

    rho: float
    """With what it holds under leases in force; infinite if that is nothing."""
    at_best: float
    """The same with the smallest gang it could get: of those that hold nothing the larger is worse."""

    def rank(self, app: App) -> tuple[float, float, float, int]:
        """The worst first."""
        return (-self.rho, -self.at_best, app.began_s, min(app.rows))


def standings(
    apps: list[App],
    values: list[float],
    holds: list[Holds],
    estimates: Estimates,
    crowd: list[float],
) -> list[AppStanding]:
    """How each app stands; `values` are logarithms of 1 / ρ, as it is with `holds`."""
    return [
        AppStanding(
            math.exp(-value) if held else math.inf,
            0.0 if held else rho_at_best(app, estimates, n),
        )
        for app, value, held, n in zip(apps, values, holds, crowd, strict=True)
    ]


class ThemisReasons(Mapping[int, Constraint]):
    """Why jobs wait, put into words when somebody asks."""

    def __init__(
        self,
        snapshot: Snapshot,
        waiting: dict[int, tuple[int, AppStanding, int]],
        won: list[int],
        until: Mapping[int, float],
    ) -> None:
        """`waiting` has place, standing and number of apps in want for each row that waits."""
        self.waiting = waiting
        self._ids = snapshot.jobs.table.ids
        self._now = snapshot.now
        self._won, self._until = won, until

    def __iter__(self) -> Iterator[int]:
        return iter(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)

    def __getitem__(self, row: int) -> Constraint:
        place, standing, count = self.waiting[row]
        holds = standing.rho < math.inf
        what = "its app, with what it holds, finishes" if holds else "would finish, if it began now,"
        rho = standing.rho if holds else standing.at_best
        said = f"{what} at ρ = {rho:.3g}, {_ordinal(place)} worst of {count} that want GPUs"
        winners = [winner for winner in self._won if winner in self._until]
        if winners:
            first = min(self._until[winner] for winner in winners)
            names = listed(names_of([str(self._ids[winner]) for winner in winners]))
            said += f"; the last went to {names}, leased {_for(first - self._now)}"
        elif self._until:
            said += f"; the next lease ends {_in(min(self._until.values()) - self._now)}"
        return Constraint(Code.POLICY, detail=said)


def _for(seconds: float) -> str:
    return f"for another {format_duration(seconds)}" if seconds > 0.0 else "until now"


def _in(seconds: float) -> str:
    return f"in {format_duration(seconds)}" if seconds > 0.0 else "now"


def _ordinal(place: int) -> str:
    if place == 1:
        return "the"
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"
