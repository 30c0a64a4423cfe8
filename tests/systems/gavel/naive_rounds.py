"""Gavel's rounds in plain code, from the card alone: who runs in each round, and when everybody is done.

Entries are tuples of jobs, one or two that share; fractions are {entry: [type]}.  GPUs are counted by type:
jobs of several may lie on any of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Job(NamedTuple):
    at_s: float
    gpus: int
    steps: float
    rates: list[float]
    """Steps per second on each type."""


class Rounds:
    """Replays jobs in rounds of a fixed length; `fractions(live, left)` divides time among the live ones."""

    def __init__(self, jobs, capacity, fractions, beside, fills, round_s=360.0):
        self.jobs, self.capacity, self.fractions = jobs, capacity, fractions
        self.beside = beside
        """(one, other) -> the steps per second of both on each type."""
        self.fills = fills
        self.round_s = round_s
        self.left = {m: job.steps for m, job in enumerate(jobs)}
        self.asked, self.got, self.owed = {}, {}, {}
        self.total = [0.0] * len(capacity)
        self.since = 0.0
        self.known = []
        self.ran = []
        """Entry, type and seconds of the last round."""
        self.runs = []
        """Begin of a round, entry and type."""
        self.done = {}

    def replay(self):
        now = 0.0
        while self.left:
            live = [m for m in sorted(self.left) if self.jobs[m].at_s <= now]
            if live:
                self.count(live)
                if live != self.known:
                    self.begin_anew(live, now)
                self.run(now)
            else:
                self.ran = []
            coming = min([self.jobs[m].at_s for m in self.left], default=now)
            now = max(now + self.round_s, math.ceil(coming / self.round_s) * self.round_s)
        return self

    def count(self, live):
        for entry, kind, seconds in self.ran:
            self.total[kind] += seconds
            if entry in self.got:
                self.got[entry][kind] += seconds

    def begin_anew(self, live, now):
        half, kinds = self.round_s / 2, range(len(self.capacity))
        asked = self.fractions(live, {m: self.left[m] for m in live})
        for m in live:
            asked.setdefault((m,), [0.0] * len(kinds))
        for entry in list(self.owed):
            for j in kinds:
                had = self.got[entry][j] - half
                self.owed[entry][j] += self.asked[entry][j] * (now - self.since) - had
        nothing = [0.0] * len(kinds)
        self.owed = {entry: self.owed.get(entry, list(nothing)) for entry in asked}
        self.got = {entry: [half] * len(kinds) for entry in asked}
        self.asked, self.since, self.known = asked, now, live
        self.total = [half * len(asked) for _ in kinds]

    def urgency(self, entry, kind):
        asked, part = self.asked[entry][kind], self.got[entry][kind] / self.total[kind]
        return asked / part, self.owed[entry][kind], asked

    def rate(self, entry, member, kind):
        if len(entry) == 1:
            return self.jobs[member].rates[kind]
        both = self.beside.get(entry)
        return both[entry.index(member)][kind] if both else 0.0

    def run(self, now):
        picked, taken = [], set()
        for kind, room in enumerate(self.capacity):
            line = sorted(self.asked, key=lambda entry: (entry[-1], len(entry), entry))
            line.sort(key=lambda entry: self.urgency(entry, kind), reverse=True)
            for entry in line:
                gpus = self.jobs[entry[0]].gpus
                runs = all(self.jobs[m].rates[kind] > 0 and self.rate(entry, m, kind) > 0 for m in entry)
                may = runs and (self.fills or self.asked[entry][kind] > 0)
                if may and gpus <= room and not taken & set(entry):
                    room -= gpus
                    taken |= set(entry)
                    picked.append((entry, kind))
        self.ran = []
        for entry, kind in picked:
            self.runs.append((now, entry, kind))
            ran = []
            for m in entry:
                rate = self.rate(entry, m, kind)
                seconds = min(self.round_s, self.left[m] / rate)
                ran.append(seconds)
                self.left[m] -= rate * seconds
                if seconds < self.round_s:
                    del self.left[m]
                    self.done[m] = now + seconds
            self.ran.append((entry, kind, max(ran)))
