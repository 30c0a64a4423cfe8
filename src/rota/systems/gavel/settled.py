"""Who stays on a type of GPUs once it has one, and what that leaves to the others."""

from __future__ import annotations

from rota.model.columns import Floats
from rota.scheduler.snapshot import Snapshot
from rota.systems.gavel.problem import GavelProblem
from rota.table.occupancy import EPSILON


def settled(problem: GavelProblem, needs: Floats) -> tuple[dict[int, int], Floats]:
    """The types that jobs were given before, by row, and the GPUs of each that this leaves, of `needs` [job].

    Where GPUs were lost since, those that run there stay, then who came first; for the others it is as if
    they had been given none.
    """
    here = {row: place for place, row in enumerate(problem.rows.tolist())}
    before = {row: kind for row, kind in problem.own.get("kinds", {}).items() if row in here}
    left, kind_of = problem.capacity.copy(), dict[int, int]()
    for row, kind in sorted(before.items(), key=lambda one: (not _runs_on(problem.snapshot, *one), one)):
        takes = needs[here[row]]
        if left[kind] >= takes - EPSILON:
            left[kind] -= takes
            kind_of[row] = kind
    return kind_of, left


def _runs_on(snapshot: Snapshot, row: int, kind: int) -> bool:
    """True if the job runs on GPUs of this type at present."""
    grant = snapshot.grants.get(row)
    return grant is not None and snapshot.cluster.device_type.item(grant.devices[0]) == kind
