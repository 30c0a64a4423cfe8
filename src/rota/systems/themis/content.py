"""Apps that hold all they can use under leases in force: outside auctions, but with their state reported."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from rota.model.columns import Bools, Ints
from rota.scheduler.snapshot import Snapshot
from rota.stages.finish_time import Crowd
from rota.systems.themis.apps import Estimates, Readings, app_of, key_of, value_of
from rota.systems.themis.leases import Leases
from rota.systems.themis.members import Members
from rota.systems.themis.parameters import Groups
from rota.systems.themis.ranking import ToldApp


def are_content(snapshot: Snapshot, rows: Ints, leases: Leases, members: Members) -> Bools:
    """Which of the live `rows` belong to apps whose jobs all have what they can use, leased beyond now.

    An auction changes nothing for them: none of their GPUs is on offer, and they bid for none.
    """
    jobs = snapshot.jobs
    content: Bools = jobs.service_rate[rows] >= jobs.gpus_max[rows] * jobs.gpu_share[rows]
    ended = leases.ended()
    if ended:
        content[np.searchsorted(rows, ended)] = False
    each, several = members.of_several()
    if each:
        places = np.searchsorted(rows, each)
        of_app = np.logical_and.reduceat(content[places], np.cumsum([0, *several[:-1]]))
        content[places] = np.repeat(of_app, several)
    return content


class ContentApps:
    """Their state at the moment of an auction, worked out when asked for."""

    def __init__(self, seen: Readings, snapshot: Snapshot, crowd: Crowd[str], groups: Groups) -> None:
        """Copies what changes afterwards: `seen` is of these apps alone, `crowd` of all."""
        self._seen = seen
        self._grants = dict(snapshot.grants)
        self._crowd = crowd.copy()
        self._groups = groups

    @cached_property
    def told(self) -> list[ToldApp]:
        """Each app with its ρ, by its first job."""
        seen, grants, rows_of = self._seen, self._grants, dict[str, list[int]]()
        for row in seen.rows.tolist():
            rows_of.setdefault(key_of(self._groups, seen.table, row), []).append(row)
        estimates, told = Estimates(seen, grants), []
        for key, rows in rows_of.items():
            app = app_of(key, rows, seen, estimates)
            holds = {row: grants[row] for row in app.rows}
            seconds = {row: estimates.seconds(grant) for row, grant in holds.items()}
            value = value_of(app, estimates, holds, seconds, max(self._crowd.mean(key), 1.0))
            told.append(ToldApp(app.rows, math.exp(-value), 0.0, -1))
        return told

    def rhos(self) -> dict[int, float]:
        """ρ of each job's app."""
        return {row: app.rho for app in self.told for row in app.rows}
