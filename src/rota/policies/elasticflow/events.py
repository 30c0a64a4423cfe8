"""The list of events of the authors' `ef`: planned changes of earlier plans stay in it.

Each decision notes for every job that has begun the next moment at which its plan changes, and never takes
one back.  A moment goes when it has come, or with the end of a job that was planned for it: whenever the end
of a job moves away from a moment, and nobody else ends then, whatever was noted for that moment goes too.
Ends move when a job is planned anew, when it is raised, and once more when the standstill of the decision is
added to the end of whoever holds GPUs.  That standstill is not told; it is seen by how much less work was
done since.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rota.policies.elasticflow.backward import Planned
from rota.scheduler.decision import Memory

_NEARLY = 1e-9


class EventList:
    """Ends and noted changes while one decision is made.

    Memory    `noted`    moments of planned changes, ascending
              `planned`  per row, when it was planned to end, on how many GPUs, and the work it had left then
              `began`    rows that have been given GPUs, in the order in which they first were
              `asked_s`  the moment of the last decision
    """

    def __init__(self, memory: Memory, now: float, jobs: Sequence[Planned]) -> None:
        """`jobs` are planned anew, in order of their deadlines."""
        live = {job.ask.row: job for job in jobs}
        self._noted = {at_s for at_s in memory.get("noted", ()) if at_s > now}
        self.began: list[int] = [row for row in memory.get("began", ()) if row in live]
        elapsed_s = now - memory.get("asked_s", now)
        self._ends = {
            row: end_s + (_stood_s(live[row], gpus, work, elapsed_s) if gpus else 0.0)
            for row, (end_s, gpus, work) in memory.get("planned", {}).items()
            if row in live
        }
        for job in jobs:
            self._move(job.ask.row, job.plan.end_s)
        fresh = set(live).difference(self.began)
        for job in sorted((live[row] for row in fresh), key=lambda job: (job.ask.submit_s, job.ask.row)):
            if job.gpus:
                self.began.append(job.ask.row)
            else:
                self._noted.update([at_s for at_s, gpus in job.plan.steps if gpus][:1])

    def raised(self, job: Planned) -> None:
        """`job` has just been given more GPUs, and a plan with them."""
        self._move(job.ask.row, job.plan.end_s)
        if job.ask.row not in self.began:
            self.began.append(job.ask.row)

    def close(self, memory: Memory, jobs: Sequence[Planned]) -> float:
        """All is given out: remember the list; returns the next moment noted in it."""
        began = set(self.began)
        self._noted.update(
            job.plan.change_s for job in jobs if job.ask.row in began and job.plan.change_s < math.inf
        )
        memory["planned"] = {job.ask.row: [job.plan.end_s, job.gpus, job.work] for job in jobs}
        by_row = {job.ask.row: job for job in jobs}
        for row in self.began:
            if by_row[row].gpus:
                self._leave(row)
        memory["noted"], memory["began"] = sorted(self._noted), self.began
        return min(self._noted, default=math.inf)

    def _move(self, row: int, end_s: float) -> None:
        if self._ends.get(row) != end_s:
            self._leave(row)
            self._ends[row] = end_s

    def _leave(self, row: int) -> None:
        """`row` does not end any more when it did, and takes what is noted for that moment with it."""
        end_s = self._ends.pop(row, None)
        if end_s is not None and end_s not in self._ends.values():
            self._noted.discard(end_s)


def _stood_s(job: Planned, gpus: int, work: float, elapsed_s: float) -> float:
    """For how long `job` has stood still on `gpus` GPUs since the last decision, when it had `work` left."""
    speed = job.speeds[job.index(gpus)]
    needed_s = math.ceil(work / speed - _NEARLY)
    return round(min(elapsed_s, needed_s) - (work - job.work) / speed)
