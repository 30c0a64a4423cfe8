"""First in, first out: serve in order of submission.

Paper     none; the baseline of them all
Decides   order
Needs     nothing; `backfill=easy` needs durations
Idea      1. Jobs start in the order in which they were submitted, and run to their end.
          2. What happens when the first one does not fit is the variant: wait (strict), pass it by (skip).
Departs   -
Checked   worked examples of systems/tiresias.md (FIFO rows); authors' `fifo` and `fjf`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.scheduler.decision import Decision, Memory
from rota.scheduler.needs import Knowledge
from rota.scheduler.policy import register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.place import Placement
from rota.scheduler.stages.priority import ByPriority


@dataclass(frozen=True)
class FifoParameters:
    """Parameters of `fifo`."""

    skip: bool = False
    """Pass by a job that does not fit instead of waiting for it."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""


def by_submission(snapshot: Snapshot, rows: Any) -> Any:
    """Rows are numbered by submission."""
    return rows


@register("fifo", "Serve in order of submission", parameters=FifoParameters)
class Fifo:
    """Serve in order of submission."""

    needs: frozenset[Knowledge] = frozenset()

    def __init__(self, parameters: FifoParameters | None = None) -> None:
        p = parameters or FifoParameters()
        self.inner = ByPriority(by_submission, strict=not p.skip, placement=p.placement)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
