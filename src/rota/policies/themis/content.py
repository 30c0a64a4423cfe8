"""Apps that hold all they can use under leases in force: no part of an auction, but told how they stand."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from rota.model.columns import Bools, Ints
from rota.policies.themis.apps import Estimates, Readings, app_of, key_of, value_of
from rota.policies.themis.leases import Leases
from rota.policies.themis.members import Members
from rota.policies.themis.parameters import Groups
from rota.policies.themis.ranking import ToldApp
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.finish_time import Crowd


def are_content(snapshot: Snapshot, rows: Ints, leases: Leases, members: Members) -> Bools:
    """Which of the live `rows` are apps by themselves that have all they can use, leased beyond now.

    An auction changes nothing for them: none of their GPUs is on offer, and they bid for none.
    """
    jobs = snapshot.jobs
    content: Bools = jobs.service_rate[rows] >= jobs.gpus_max[rows] * jobs.gpu_share[rows]
    others = [*leases.ended(), *members.of_several()]
    if others:
        content[np.searchsorted(rows, others)] = False
    return content


class ContentApps:
    """How they stood at the moment of an auction, worked out if somebody asks."""

    def __init__(self, seen: Readings, snapshot: Snapshot, crowd: Crowd[str], groups: Groups) -> None:
        """What changes afterwards is copied: `seen` is of these apps alone, `crowd` of all."""
        self._seen = seen
        self._grants = dict(snapshot.grants)
        self._crowd = crowd.copy()
        self._groups = groups

    @cached_property
    def told(self) -> list[ToldApp]:
        """Each with its ρ, by its job."""
        estimates, told = Estimates(self._seen, self._grants), []
        for row in self._seen.rows.tolist():
            grant = self._grants[row]
            key = key_of(self._groups, self._seen.table, row)
            app = app_of(key, [row], self._seen, estimates)
            crowd = max(self._crowd.mean(key), 1.0)
            value = value_of(app, estimates, {row: grant}, {row: estimates.seconds(grant)}, crowd)
            told.append(ToldApp((row,), math.exp(-value), 0.0, -1))
        return told
