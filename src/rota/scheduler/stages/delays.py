"""Delay attribution: how long jobs waited, and whether for their share or for a place.

After Jeon et al. (Philly, ATC 2019): a wait is *fair-share delay* while the job would bring its virtual
cluster above its quota, otherwise *fragmentation delay*.  Part of the latter is *borrowed*: there are not
even enough free GPUs, since others hold more than theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rota.model.grants import Code, Constraint
from rota.scheduler.decision import Memory
from rota.scheduler.stages.quota import Shares

FAIR_SHARE, FRAGMENTATION, BORROWED = "fair share", "fragmentation", "borrowed"


def size_bucket(gpus: int) -> str:
    """The classes of the study: 1, 2-4, 5-8 and more GPUs."""
    return "1" if gpus <= 1 else "2-4" if gpus <= 4 else "5-8" if gpus <= 8 else ">8"


class Delays:
    """Reads and writes the attribution in a policy's memory, under `waits` and `delay_s`."""

    def __init__(self, memory: Memory, gpus_of: list[int]) -> None:
        self.waits: dict[int, list[object]] = memory.setdefault("waits", {})
        """Label and moment since which it holds, by row."""
        self.delay_s: dict[str, dict[str, float]] = memory.setdefault("delay_s", {})
        """Seconds by class of size and label."""
        self.gpus_of = gpus_of

    def label(self, row: int, label: str, now: float) -> None:
        """From `now` on, `row` waits for the reason `label`."""
        known = self.waits.get(row)
        if known is None or known[0] != label:
            self.close(row, now)
            self.waits[row] = [label, now]

    def close(self, row: int, now: float) -> None:
        """`row` waits no longer, or for another reason."""
        if row in self.waits:
            label, since = self.waits.pop(row)
            seconds = self.delay_s.setdefault(size_bucket(self.gpus_of[row]), {})
            seconds[str(label)] = seconds.get(str(label), 0.0) + now - float(since)  # type: ignore[arg-type]


def label_of(shares: Shares, row: int, gpus: int, free: float) -> str:
    """Why `row` waits while `free` GPUs are granted to nobody."""
    if not shares.is_due(row, gpus):
        return FAIR_SHARE
    return BORROWED if free < gpus else FRAGMENTATION


class Reasons(Mapping[int, Constraint]):
    """The labels as constraints, made when somebody asks."""

    def __init__(self, delays: Delays, shares: Shares, free: float) -> None:
        self.delays = delays
        self.shares = shares
        self.free = free

    def __iter__(self) -> Iterator[int]:
        return iter(self.delays.waits)

    def __len__(self) -> int:
        return len(self.delays.waits)

    def __getitem__(self, row: int) -> Constraint:
        label, gpus = self.delays.waits[row][0], self.delays.gpus_of[row]
        if label == FAIR_SHARE:
            name = self.shares.of(row)
            return Constraint(Code.QUOTA, self.shares.used[name] + gpus, self.shares.quota[name], name)
        if label == BORROWED:
            return Constraint(Code.RESOURCES, gpus, self.free)
        return Constraint(Code.LOCALITY, gpus, self.free, "locality is given up step by step")
