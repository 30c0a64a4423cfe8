"""Which jobs may have how many GPUs: what every policy that hands out numbers of GPUs begins with."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rota.model.columns import Bools, Ints
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Can
from rota.scheduler.snapshot import Snapshot
from rota.table.state import Phase

_RUNNING = int(Phase.RUNNING)
_STOPS = Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE


class Sizing:
    """The live jobs among which GPUs are handed out, and how many each can use.

    A job that cannot be stopped in any way keeps what it has: a request to stop it would be repeated for
    ever. One that would lose its work by a resize has its present number or none.
    """

    def __init__(self, snapshot: Snapshot, alone: Collection[int] = ()) -> None:
        """Rows that are left `alone` keep what they have as well."""
        jobs = snapshot.jobs
        rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        rows = rows[jobs.gpus[rows] > 0]
        can = jobs.can(rows)
        stays: Bools = (jobs.phase[rows] == _RUNNING) & (((can & _STOPS) == 0) | np.isin(rows, [*alone]))
        self.rows: Ints = rows[~stays]
        """Rows in order of submission."""
        resizes = ((can[~stays] & Can.RESIZE) != 0).tolist()
        ranges = (jobs.gpus_min, jobs.gpus_max, jobs.gpus_step, jobs.counts)
        columns = (column[self.rows].tolist() for column in ranges)
        self.counts: list[Sequence[int]] = [
            range(least, most + 1, step) if not special and resizable else _counts(snapshot, row, resizable)
            for row, resizable, least, most, step, special in zip(
                self.rows.tolist(), resizes, *columns, strict=True
            )
        ]
        """Numbers of GPUs that each can use, ascending."""
        self.most = max((counts[-1] for counts in self.counts), default=0)
        among = set(self.rows.tolist())
        others = [len(grant.devices) for row, grant in snapshot.grants.items() if row not in among]
        self.gpus = max(0, snapshot.cluster.gpus - len(snapshot.occupancy.down) - sum(others))
        """GPUs to hand out: those that work, less what all other jobs hold."""


def _counts(snapshot: Snapshot, row: int, resizable: bool) -> Sequence[int]:
    grant = snapshot.grants.get(row)
    if grant is not None and not resizable:
        return (len(grant.devices),)
    return feasible_counts(snapshot.jobs.table, row)
