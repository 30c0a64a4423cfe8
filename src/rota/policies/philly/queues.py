"""Queues of virtual clusters whose waiting jobs try again and again: who may get further now, and when next.

A job can get further at few of its many moments: when an attempt opens while GPUs are free, or when GPUs
become free where an attempt is open.  `AttemptQueues` finds those jobs in order without
looking at the others.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter

from rota.policies.philly.delays import Class
from rota.policies.philly.gang import Attempts, Calendar, Cycle


class AttemptQueues:
    """Waiting rows by virtual cluster, in order of arrival: a cache of the attempts in a policy's memory."""

    def __init__(self, attempts: dict[int, Attempts], cycle: Cycle) -> None:
        self.attempts = attempts
        self.cycle = cycle
        self.calendar = Calendar(attempts, cycle)
        self.lines: dict[str, list[int]] = {}
        """Rows of each virtual cluster, ascending."""
        self.classes: Counter[Class] = Counter()
        """Jobs of each virtual cluster and size."""
        self.class_of: dict[int, Class] = {}
        self.without_gpus: set[int] = set()
        self.labelled: tuple[float, dict[str, float], dict[str, float], list[Class]] | None = None
        """Free GPUs, those used and due, and classes when the reasons of the classes were last noted."""
        self.unwanted = 0
        """Nodes whose free GPUs no open attempt wanted when somebody last looked."""
        self.need_of: dict[int, tuple[float, ...]] = {}
        """What the rows that somebody asked for need."""
        self.offered: dict[tuple[float, ...], dict[int, int]] = {}
        """Candidate nodes in a full cluster, by needs and level."""

    def add(self, row: int, of: Class) -> None:
        """`row`, which has an entry in `attempts`, joins the queue of its virtual cluster."""
        insort(self.lines.setdefault(of[0], []), row)
        self.class_of[row] = of
        self.classes[of] += 1
        self.calendar.add(row)
        if not of[1]:
            self.without_gpus.add(row)

    def drop(self, row: int) -> tuple[Class, Attempts]:
        """`row` waits no longer; returns what its entry was."""
        of = self.class_of.pop(row)
        self.calendar.drop(row)
        line = self.lines[of[0]]
        del line[bisect_right(line, row) - 1]
        if not line:
            del self.lines[of[0]]
        self.classes[of] -= 1
        if not self.classes[of]:
            del self.classes[of]
        self.without_gpus.discard(row)
        self.need_of.pop(row, None)
        return of, self.attempts.pop(row)
