"""Lays out each job's number of rounds in a window so that no round uses more GPUs than there are.

Each job runs at most once in a round, on all its GPUs at a time.  If all jobs have one size, numbers of
rounds within the capacity always find room.  With several sizes, powers of two or not, they need not: two
GPUs and two rounds hold a job of two GPUs for one round, or one of one GPU for both, but not both, though
four GPU-rounds would be enough.  The more jobs, the rarer that is.

Rounds are filled in order of urgency, weight over GPU-rounds, which keeps the weighted mean of each job's
rounds early (Shockwave's second program in the authors' code); jobs with no round to spare come first.  If
that leaves something out, they are filled evenly, the largest jobs first, and urgent ones brought forward
afterwards.  If that does too, the layout is mended: each round in turn is filled again with what is worth
most, all other rounds being as they are, until nothing changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.solvers.window import PlanningWindow

PASSES = 4
"""How often each round is filled again, at most."""
CELLS = 100_000_000
"""Additions that mending may take; larger windows are mended fewer times, or not at all."""


SMALL = 500
"""Cells of job and round up to which a window is mended in several ways."""


class RoundLayout(NamedTuple):
    """Which jobs run in which round."""

    runs: Bools
    """[job, round]"""
    is_mended: bool
    """True if the numbers of rounds that were asked for found no room, and others were laid out."""

    @property
    def counts(self) -> Ints:
        counts: Ints = self.runs.sum(axis=1)
        return counts


def lay_out(window: PlanningWindow, counts: Ints) -> RoundLayout:
    """Rounds for `counts` of each job, urgent ones early; if they find no room, the best that was found."""
    first = _by_urgency(window, counts)
    if (first.sum(axis=1) == counts).all():
        return RoundLayout(first, is_mended=False)
    even = _evenly(window, counts)
    if (even.sum(axis=1) == counts).all():
        return RoundLayout(_urgent_first(window, even), is_mended=False)
    layouts = [first, even, *_mended(window, counts, [first, even])]
    best = min(layouts, key=lambda runs: _rank(window, runs.sum(axis=1)))
    again = _by_urgency(window, best.sum(axis=1))
    is_whole = bool((again.sum(axis=1) == best.sum(axis=1)).all())
    return RoundLayout(again if is_whole else _urgent_first(window, best), is_mended=True)


def _rank(window: PlanningWindow, counts: Ints) -> tuple[int, float]:
    """Lowest for the best layout: rounds short of what is demanded, then what it is worth."""
    return int(np.maximum(window.least - counts, 0).sum()), -window.value(counts)


def mean_index(runs: Bools, weights: Floats) -> float:
    """Weighted sum of the mean index of each job's rounds: what the order of rounds keeps small."""
    index = (runs * np.arange(runs.shape[1])).sum(axis=1) / np.maximum(runs.sum(axis=1), 1)
    return float(weights @ index)


# -- urgent ones early -----------------------------------------------------------------------------


def _by_urgency(window: PlanningWindow, counts: Ints) -> Bools:
    """Round by round: jobs with no round to spare, the largest first, then in order of urgency."""
    sizes, rounds = window.sizes, window.rounds
    left, runs = counts.copy(), np.zeros((len(counts), rounds), dtype=bool)
    ranked = np.argsort(-window.weights / np.maximum(counts * sizes, 1), kind="stable")
    for at in range(rounds):
        waiting = ranked[left[ranked] > 0]
        pressed = left[waiting] >= rounds - at
        first = waiting[pressed]
        first = first[np.argsort(-sizes[first], kind="stable")]
        chosen = _fill(np.concatenate((first, waiting[~pressed])), sizes, window.capacity)
        runs[chosen, at] = True
        left[chosen] -= 1
    return runs


def _fill(order: Ints, sizes: Ints, room: int) -> list[int]:
    """The jobs of `order` that fit, one after the other."""
    used = np.cumsum(sizes[order])
    whole = int(np.searchsorted(used, room, side="right"))
    chosen: list[int] = order[:whole].tolist()
    room -= int(used[whole - 1]) if whole else 0
    for job, size in zip(order[whole:].tolist(), sizes[order[whole:]].tolist(), strict=True):
        if room <= 0:
            break
        if size <= room:
            chosen.append(job)
            room -= size
    return chosen


def _urgent_first(window: PlanningWindow, runs: Bools) -> Bools:
    """The layout with urgent jobs early and equal numbers of rounds: whole rounds in order, then jobs of
    equal size swap between two of them, and move to earlier ones that have room, until nothing changes."""
    counts, sizes = runs.sum(axis=1), window.sizes
    urgency = window.weights / np.maximum(counts * sizes, 1)
    rounds = _Rounds(window, runs[:, np.argsort(-((urgency * sizes) @ runs), kind="stable")], urgency)
    for _ in range(PASSES):
        before = rounds.changes
        for late in range(1, window.rounds):
            for early in range(late):
                rounds.bring_forward(early, late)
        if rounds.changes == before:
            break
    return rounds.runs


class _Rounds:
    """A layout in which urgent jobs are brought forward.

    Nearly all pairs of rounds have nothing to change.  That is seen without an array: from the room that the
    earlier one has left, and from sets of jobs as integers, a bit for each job of a size in order of urgency.
    """

    def __init__(self, window: PlanningWindow, runs: Bools, urgency: Floats) -> None:
        self.window, self.runs, self.urgency = window, runs, urgency
        self.changes = 0
        rows = [np.flatnonzero(window.sizes == size) for size in np.unique(window.sizes)]
        self._ranked = [alike[np.argsort(urgency[alike], kind="stable")] for alike in rows]
        self._urgency = [urgency[ranked].tolist() for ranked in self._ranked]
        self._who: list[list[int]] = [[] for _ in range(window.rounds)]
        """By round and size: the jobs that run, as a set of bits."""
        self._room = [0] * window.rounds
        self._changed = [0] * window.rounds
        """By round: how many changes there had been when it last changed."""
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}
        """By pair of rounds: the last change of each when jobs were last brought forward between them."""
        for at in range(window.rounds):
            self._look(at)

    def _look(self, at: int) -> None:
        """Round `at` is another than before."""
        column = self.runs[:, at]
        self._who[at] = [
            int.from_bytes(np.packbits(column[ranked], bitorder="little").tobytes(), "little")
            for ranked in self._ranked
        ]
        self._room[at] = self.window.capacity - int(self.window.sizes @ column)
        self._changed[at] = self.changes

    def _note(self, early: int, late: int) -> None:
        self.changes += 1
        self._look(early)
        self._look(late)

    def bring_forward(self, early: int, late: int) -> None:
        """Jobs of equal size change places, then others move, unless that was tried on these very two."""
        last = self._changed[early], self._changed[late]
        if self._seen.get((early, late)) == last:
            return
        self._seen[early, late] = last
        for size in range(len(self._ranked)):
            if self._would_change(size, early, late):
                self._change_places(self._ranked[size], early, late)
        if self._room[early] > 0:
            self._move(early, late)

    def _would_change(self, size: int, early: int, late: int) -> bool:
        """True if the most urgent in `late` alone is more so than the least in `early` alone."""
        first, second = self._who[early][size], self._who[late][size]
        here, there = first & ~second, second & ~first
        if not here or not there:
            return False
        urgency = self._urgency[size]
        return bool(urgency[there.bit_length() - 1] > urgency[(here & -here).bit_length() - 1])

    def _change_places(self, ranked: Ints, early: int, late: int) -> None:
        """The most urgent of those in `late` alone for the least urgent of those in `early` alone."""
        runs, urgency = self.runs, self.urgency
        alike = np.sort(ranked)
        first, second = runs[alike, early], runs[alike, late]
        here, there = alike[first & ~second], alike[second & ~first]
        pairs = min(len(here), len(there))
        here = here[np.argsort(urgency[here], kind="stable")][:pairs]
        there = there[np.argsort(-urgency[there], kind="stable")][:pairs]
        gain = urgency[there] > urgency[here]
        moved = np.concatenate((here[gain], there[gain]))
        runs[moved, early] ^= True
        runs[moved, late] ^= True
        self._note(early, late)

    def _move(self, early: int, late: int) -> None:
        """Move jobs that are only in `late` into the free room of `early`, the most urgent first."""
        runs, sizes, urgency, room = self.runs, self.window.sizes, self.urgency, self._room[early]
        there = np.flatnonzero(runs[:, late] & ~runs[:, early] & (sizes <= room) & (urgency > 0.0))
        chosen = _fill(there[np.argsort(-urgency[there], kind="stable")], sizes, room)
        if chosen:
            runs[chosen, early], runs[chosen, late] = True, False
            self._note(early, late)


# -- when numbers of rounds find no room -------------------------------------------------------------


def _evenly(window: PlanningWindow, counts: Ints) -> Bools:
    """The largest jobs first, each into the rounds with most room."""
    runs = np.zeros((len(counts), window.rounds), dtype=bool)
    room = np.full(window.rounds, window.capacity)
    for job in np.lexsort((-counts, -window.sizes)).tolist():
        size = window.sizes.item(job)
        emptiest = np.argsort(-room, kind="stable")[: counts.item(job)]
        emptiest = emptiest[room[emptiest] >= size]
        runs[job, emptiest] = True
        room[emptiest] -= size
    return runs


def _mended(window: PlanningWindow, counts: Ints, laid: list[Bools]) -> list[Bools]:
    """Layouts that begin with one of `laid`, with nothing and with what is demanded, each mended.

    What a round is worth for the worst time left depends on how far that can be brought down: as far as
    `counts` say, or, in small windows, as far as a layout has come, one round further, or not at all.
    """
    starts = [*laid, np.zeros_like(laid[0])]
    if window.least.any():
        starts.append(_by_urgency(window, window.least))
    once = len(counts) * (window.capacity + 1) * window.rounds
    passes = min(PASSES, CELLS // (len(starts) * once))
    if not passes:
        return []
    gains = _gains(window, _worst_s(window, counts))
    layouts = [_refill(window, start, gains, passes) for start in starts]
    if window.makespan_weight and len(counts) * window.rounds <= SMALL:
        best = min(layouts, key=lambda runs: _rank(window, runs.sum(axis=1)))
        got = best.sum(axis=1)
        one_more = np.minimum(got + 1, window.rounds)
        for worst_s in (_worst_s(window, got), _worst_s(window, one_more), np.inf):
            gains = _gains(window, worst_s)
            layouts += [_refill(window, start, gains, passes) for start in (*starts, best)]
    return layouts


def _worst_s(window: PlanningWindow, counts: Ints) -> float:
    """The longest time left at these numbers of rounds."""
    return float(window.left_s[np.arange(len(counts)), counts].max(initial=0.0))


def _gains(window: PlanningWindow, worst_s: float) -> Floats:
    """What one round more is worth, [job, rounds it has]; none beyond the window.

    With less time left above `worst_s` as the objective counts it; a round that is demanded is worth more
    than all that are not.
    """
    above = np.maximum(window.left_s - worst_s, 0.0)
    gains = window.knapsack.gains + window.makespan_weight * -np.diff(above, axis=1)
    gains += (np.arange(window.rounds) < window.least[:, None]) * (1.0 + gains.sum())
    padded: Floats = np.concatenate((gains, np.zeros((len(gains), 1))), axis=1)
    return padded


def _refill(window: PlanningWindow, start: Bools, gains: Floats, passes: int) -> Bools:
    """Each round in turn with the jobs worth most in it, given how many others each has."""
    runs, jobs = start.copy(), np.arange(len(start))
    counts = runs.sum(axis=1)
    for _ in range(passes):
        changed = False
        for at in range(window.rounds):
            others = counts - runs[:, at]
            worth = gains[jobs, others]
            chosen, old = _most_worth(worth, window.sizes, window.capacity), worth[runs[:, at]].sum()
            if worth[chosen].sum() > old + 1e-12 * max(1.0, abs(old)):
                runs[:, at], counts, changed = chosen, others + chosen, True
        if not changed:
            break
    return runs


def _most_worth(worth: Floats, sizes: Ints, room: int) -> Bools:
    """The jobs that are worth most together and find room: a knapsack, exactly."""
    jobs = np.flatnonzero((worth > 0.0) & (sizes <= room))
    chosen = np.zeros(len(worth), dtype=bool)
    if sizes[jobs].sum() <= room:
        chosen[jobs] = True
        return chosen
    best, takes = np.zeros(room + 1), np.zeros((len(jobs), room + 1), dtype=bool)
    for place, job in enumerate(jobs.tolist()):
        size = sizes.item(job)
        trial = best[: room + 1 - size] + worth.item(job)
        is_better = takes[place, size:]
        np.greater(trial, best[size:], out=is_better)
        best = best.copy()
        best[size:][is_better] = trial[is_better]
    for place in range(len(jobs) - 1, -1, -1):
        if takes[place, room]:
            chosen[jobs[place]] = True
            room -= sizes.item(jobs[place])
    return chosen
