"""The queues of Tiresias as the authors' simulator keeps them, where it differs from the paper.

From      SymbioticLab/Tiresias, `simulator/run_sim.py` (`dlas`, `dlas-gpu`, `dlas-gpu-N`, `dlas-gpu-gittins`)
Differs   1. Queues are lists.  A job demoted or promoted goes to the tail; at the end of each step
             the running jobs of a queue move ahead of the waiting ones, keeping their order otherwise.
          2. A job's service is only looked at when something happens, and it falls one queue at a time.
          3. The next look is planned for floor((limit - seconds run) / GPUs) from now, where the limit is in
             GPU-seconds: too late for every job of more than one GPU.
          4. The Gittins index is `SimulatorGittins`, for one quantum in all queues; ties go to the earlier
             submission.
          5. Every event is a step, whether or not a job waits.
ElasticFlow's copy (pkusys/ElasticFlow, `dlas-gpu`) differs from that in three things:
          start-up is not service; the next look is planned for ceil((limit - seconds of work) / GPUs); and
          larger jobs are looked at first, so that they lead those demoted at the same moment.
Clock     whole seconds, as under the semantics `tiresias` and `elasticflow-tiresias`
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

from rota.knowledge.needs import Knowledge
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.solvers.gittins import SimulatorGittins
from rota.stages.levels import ServiceMetric
from rota.stages.place import Placement
from rota.stages.priority import ByPriority
from rota.table.state import Phase

_RUNNING = int(Phase.RUNNING)
_AHEAD, _BEHIND = 0, 1
"""Halves of a queue: jobs that ran at the end of the last step, then all others."""


class Seats(ByPriority):
    """The seat of each job in its queue.

    Memory    `seats`  per live job: queue, half of it, place in that half
              `runs`   per live job: seconds run that do not count any more, seconds waited that count
                       for its promotion, and the moment up to which waiting was added
              `tail`, `head`  places given out last at either end
    """

    def __init__(
        self,
        limits: tuple[float, ...],
        metric: ServiceMetric,
        knob: float,
        quantum: float | None,
        placement: Placement,
        *,
        elasticflow: bool = False,
    ) -> None:
        super().__init__(self.rank, preemptive=True, placement=placement)
        self.elasticflow = elasticflow
        self.limits = limits
        self.by_gpus = metric is ServiceMetric.GPU_TIME
        self.knob = knob
        self.quantum = quantum
        self.seats: dict[int, list[int]] = {}
        self.runs: dict[int, list[float]] = {}
        self._history: Any = None
        self._gittins = SimulatorGittins([], 1.0)
        self._indices: dict[int, float] = {}

    def decide(self, snapshot: Snapshot, memory: Memory, wake: Wake | None = None) -> Decision:
        self._recall(snapshot, memory)
        waiting, running = snapshot.waiting.tolist(), snapshot.running.tolist()
        live = sorted(waiting + running)
        for row in live:
            if row not in self.seats:
                self.seats[row] = [0, _BEHIND, self._tail(memory)]
                self.runs[row] = [0.0, 0.0, snapshot.now]
        self._forget(live)
        gpus_of = snapshot.gpus_of
        for row in sorted(live, key=lambda row: (-gpus_of[row], row)) if self.elasticflow else live:
            self._look_at(snapshot, memory, row)
        grants, preempt = self.choose(snapshot)
        started = [grant.job for grant in grants]
        run_now = sorted({*running, *started} - set(preempt), key=self._seat)
        if self.quantum is None:
            self._reseat(snapshot, memory, run_now, preempt)
        else:
            self._reseat_ties(snapshot, memory, live, set(run_now))
        at_s = self._next_look(snapshot, run_now, sorted({*waiting, *preempt} - set(started)))
        return Decision(memory, grants, preempt, wake=Wake(at_s=at_s))

    def rank(self, snapshot: Snapshot, row: int) -> Any:
        """Queue and seat; with Gittins the index, then the submission come before the seat."""
        queue, half, place = self.seats[row]
        if self.quantum is None:
            return queue, half, place
        return queue, -self._indices[row], snapshot.jobs.table.submit_s.item(row), half, place

    # -- what is remembered ------------------------------------------------------------------------

    def _recall(self, snapshot: Snapshot, memory: Memory) -> None:
        """Take over the memory; if it is empty, running jobs sit in order of their first start."""
        if self.quantum is not None:
            self._learn(snapshot, self.quantum)
        if "seats" not in memory:
            memory.update(seats={}, runs={}, tail=0, head=0)
            first_start_s = snapshot.by_row.first_start_s
            for row in sorted(snapshot.running.tolist(), key=lambda row: (first_start_s.item(row), row)):
                memory["seats"][row] = [0, _AHEAD, self._tail(memory)]
                memory["runs"][row] = [0.0, 0.0, snapshot.now]
        self.seats, self.runs = memory["seats"], memory["runs"]

    def _learn(self, snapshot: Snapshot, quantum: float) -> None:
        history = snapshot.know(Knowledge.SERVICE_HISTORY).shared["gpu_s"]
        if history is not self._history:
            self._history = history
            self._gittins = SimulatorGittins(history, quantum)

    def _forget(self, live: list[int]) -> None:
        """Drop the seats of jobs that have left; every job in `live` has one."""
        if len(self.seats) > len(live):
            for row in set(self.seats).difference(live):
                del self.seats[row], self.runs[row]
                self._indices.pop(row, None)

    @staticmethod
    def _tail(memory: Memory) -> int:
        memory["tail"] += 1
        place: int = memory["tail"]
        return place

    def _seat(self, row: int) -> list[int]:
        return self.seats[row]

    # -- one step ----------------------------------------------------------------------------------

    def _counted_s(self, snapshot: Snapshot, row: int) -> float:
        """Seconds run since the last promotion."""
        return self._ran_s(snapshot, row) - self.runs[row][0]

    def _ran_s(self, snapshot: Snapshot, row: int) -> float:
        return snapshot.jobs.work_done(row) if self.elasticflow else snapshot.jobs.ran_s(row)

    def _service(self, snapshot: Snapshot, row: int) -> float:
        return self._counted_s(snapshot, row) * (snapshot.gpus_of[row] if self.by_gpus else 1)

    def _look_at(self, snapshot: Snapshot, memory: Memory, row: int) -> None:
        """Demote or promote `row` if it is time, and read its index."""
        seat, runs, now = self.seats[row], self.runs[row], snapshot.now
        queue = seat[0]
        if snapshot.by_row.phase.item(row) == _RUNNING:
            if queue < len(self.limits) and self._service(snapshot, row) >= self.limits[queue]:
                self._sit(snapshot, row, [queue + 1, _BEHIND, self._tail(memory)])
        elif self.knob and self._counted_s(snapshot, row) > 0:
            runs[1] += now - runs[2]
            if queue and runs[1] >= int(self._counted_s(snapshot, row) * self.knob):
                runs[0], runs[1] = self._ran_s(snapshot, row), 0.0
                self._sit(snapshot, row, [0, _BEHIND, self._tail(memory)])
        runs[2] = now
        if self.quantum is not None:
            index = self._gittins.index(self._service(snapshot, row))
            if self._indices.get(row) != index:
                self._indices[row] = index
                self.order.move(snapshot, row)

    def _sit(self, snapshot: Snapshot, row: int, seat: list[int]) -> None:
        self.seats[row] = seat
        self.order.move(snapshot, row)

    def _reseat(self, snapshot: Snapshot, memory: Memory, run_now: list[int], preempt: list[int]) -> None:
        """Move running jobs ahead in their queues, and preempted jobs to the front of the waiting ones."""
        for row in run_now:
            if self.seats[row][1] == _BEHIND:
                self._sit(snapshot, row, [self.seats[row][0], _AHEAD, self._tail(memory)])
        for row in sorted(preempt, key=self._seat, reverse=True):
            if self.seats[row][1] == _AHEAD:
                memory["head"] -= 1
                self._sit(snapshot, row, [self.seats[row][0], _BEHIND, memory["head"]])

    def _reseat_ties(self, snapshot: Snapshot, memory: Memory, live: list[int], run_now: set[int]) -> None:
        """Jobs submitted together keep the order in which this step had them, running ones ahead.

        Between all others the index and the submission decide, wherever they sit.
        """
        for _, group in groupby(live, key=snapshot.jobs.table.submit_s.item):
            rows = sorted(group, key=lambda row: self.rank(snapshot, row))
            seats = [self.seats[row] for row in rows] if len(rows) > 1 else []
            halves = [_AHEAD if row in run_now else _BEHIND for row in rows]
            places = [place for _, _, place in seats]
            if places != sorted(places) or any(
                half != seat[1] for half, seat in zip(halves, seats, strict=False)
            ):
                for row, half in zip(rows, halves, strict=True):
                    self._sit(snapshot, row, [self.seats[row][0], half, self._tail(memory)])

    # -- when to look again ------------------------------------------------------------------------

    def _next_look(self, snapshot: Snapshot, running: list[int], waiting: list[int]) -> float:
        """The first planned demotion or promotion, at least a second away."""
        now, moments = snapshot.now, [math.inf]
        for row in running:
            queue = self.seats[row][0]
            if queue < len(self.limits):
                left = self.limits[queue] - self._counted_s(snapshot, row)
                gpus = snapshot.gpus_of[row] if self.by_gpus else 1
                if gpus:
                    wait_s = math.ceil(left / gpus) if self.elasticflow else left // gpus
                    moments.append(now + max(wait_s, 1))
        for row in waiting if self.knob else ():
            ran_s = self._counted_s(snapshot, row)
            left = int(ran_s * self.knob - self.runs[row][1])
            if self.seats[row][0] and ran_s > 0 and left > 0:
                moments.append(now + left)
        return min(moments)
