"""Groups in which the first job to complete ends the others (`GroupRule.FIRST`)."""

from __future__ import annotations

import numpy as np

from rota.model.job_columns import GroupRule
from rota.model.jobs import JobTable
from rota.scheduler.world import Batch, Ended, How
from rota.table.state import Phase, State


class FirstOfGroup:
    """The jobs that end once another of their group has completed."""

    def __init__(self, jobs: JobTable) -> None:
        self.group = jobs.group
        self.members: dict[int, list[int]] = {}
        """By group with that rule: its rows, ascending."""
        for row in np.flatnonzero((jobs.group_rule == GroupRule.FIRST) & (jobs.group >= 0)).tolist():
            self.members.setdefault(int(jobs.group[row]), []).append(row)

    def end_others(self, batch: Batch, state: State) -> None:
        """Cancel in `batch` the submitted jobs of each group in which a job completes in this batch.

        A job that ends by itself at that moment does so; one that is submitted then, or later, runs.
        """
        completed = [one.row for one in batch.ended if one.phase is Phase.COMPLETED]
        over = {one.row for one in batch.ended if one.phase is not Phase.PENDING}
        waits_again = {one.row for one in batch.ended} - over
        for group in sorted({int(self.group[row]) for row in completed}):
            members = self.members.get(group, [])
            if not set(members).isdisjoint(completed):
                alive = [row for row in members if row not in over and _lives(state, row)]
                stopped = [row for row in alive if row in state.running and row not in waits_again]
                batch.ended = [*batch.ended, *(Ended(r, How.CANCELLED, Phase.CANCELLED) for r in stopped)]
                batch.withdrawn = [*batch.withdrawn, *(row for row in alive if row not in stopped)]


def _lives(state: State, row: int) -> bool:
    """True if the job has been submitted and has not ended."""
    return row < state.submitted and bool(state.phase[row] <= Phase.RUNNING)
