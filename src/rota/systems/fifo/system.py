"""First in, first out: serve in order of submission.

Paper     none; the baseline of most papers
Decides   order; with backfill, reservations
Needs     nothing; `backfill=easy` needs durations: the user's, predicted or true ones
Idea      1. Jobs start in order of submission, jobs of a higher priority first, and run to their end.
          2. If the first job does not fit, there are three variants: later jobs that could use the same
             nodes wait (strict), later jobs pass it (skip), or it gets a reservation and jobs that do not
             delay it pass it (backfill=easy: the first job of each partition).
          3. Two more rules of sites can be switched off: a queue for each partition (queue=all is one for
             all jobs), and priorities (priority=no).
Departs   A job that has outrun its estimate counts as "ends at any moment"; sites with hard limits kill it.
Checked   worked examples of systems/tiresias.md (FIFO rows); authors' `fifo` and `fjf`; backfill: cases
          computed by hand, and with exact durations no first job starts later than promised
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import Placement
from rota.stages.priority import ByPriority
from rota.systems.fifo.backfill import EasyBackfill, submitted_first
from rota.systems.fifo.backfill import by_submission as backfill_order
from rota.systems.fifo.queues import InQueues


class OneQueueFor(StrEnum):
    """Which jobs wait in one queue: a job that does not fit is first in it, and holds up those behind it."""

    PARTITION = "partition"
    ALL = "all"


class Backfill(StrEnum):
    """Which jobs may pass a job that does not fit, without delaying it."""

    NONE = "none"
    EASY = "easy"


@dataclass(frozen=True)
class FifoParameters:
    """Parameters of `fifo`."""

    skip: bool = False
    """Let later jobs pass a job that does not fit."""
    backfill: Backfill = Backfill.NONE
    """`easy`: reserve devices for a job that does not fit; jobs that do not delay it may pass."""
    queue: OneQueueFor = OneQueueFor.PARTITION
    """A queue for the jobs of each partition, or one for all jobs."""
    priority: bool = True
    """Serve jobs of a higher priority (Slurm's QOS) before all others."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""


def as_submitted(snapshot: Snapshot, rows: Any) -> Any:
    """One key for all jobs: equal keys are served in order of submission."""
    return 0 if isinstance(rows, int) else np.zeros(len(rows), dtype=np.int64)


def by_submission(snapshot: Snapshot, rows: Any) -> Any:
    """Higher priorities first; equal keys are served in order of submission."""
    priority = snapshot.jobs.table.priority
    return -priority.item(rows) if isinstance(rows, int) else -priority[rows]


@register(
    "fifo",
    "Serve in order of submission",
    needs={Knowledge.DURATION: lambda p: p.backfill is Backfill.EASY},
    levers={Lever.RESERVE: lambda p: p.backfill is Backfill.EASY},
    parameters=FifoParameters,
    heeds_priority=lambda p: p.priority,
)
class Fifo:
    """Serve in order of submission."""

    def __init__(self, parameters: FifoParameters | None = None) -> None:
        self.parameters = p = parameters or FifoParameters()
        if p.skip and p.backfill is not Backfill.NONE:
            raise InputError("policy 'fifo': skip=yes lets all pass already; expected no backfill with it")
        easy = p.backfill is Backfill.EASY
        key = by_submission if p.priority else as_submitted
        is_one = p.queue is OneQueueFor.ALL
        self.inner: EasyBackfill | ByPriority
        if easy:
            order = backfill_order if p.priority else submitted_first
            self.inner = EasyBackfill(p.placement, order, one_queue=is_one)
        elif p.skip or is_one:
            self.inner = ByPriority(key, strict=not p.skip, placement=p.placement)
        else:
            self.inner = InQueues(key, strict=True, placement=p.placement)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
