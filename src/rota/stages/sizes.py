"""Which numbers of GPUs each job may have now: for systems that decide numbers, such as AFS and Elan.

A running job keeps its number if it would lose its work by another one, for a while after it was resized, and
for a while after the cluster refused to change it: a policy that repeated its request at once would repeat it
for ever.  One that began lately and has not reported yet whether it can be resized is left alone until it
does, or for a minute.

Memory    `refused`  per running job of which a change was refused: how often in a row, and until when it is
                     left alone
          `bound`    GPUs that each job had which cannot go on on another number of them
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import rates_on
from rota.model.columns import Bools, Ints
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Can, Grant
from rota.model.reasons import Code, Constraint
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority import ByPriority
from rota.stages.resize import Carry, Settled, carry_out, settle
from rota.table.state import Phase

LEFT_ALONE_S, LEFT_ALONE_MOST_S = 60.0, 3600.0
"""How long a job is left alone after a refusal, twice as long after each further one, and at most."""
_STOPS = Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE
TRIES = 10
"""At most; a large cluster of several types cannot wait until everything fits."""


class Sizes(NamedTuple):
    """What there is to decide."""

    rows: Ints
    """Jobs whose number of GPUs is to be decided, ascending."""
    counts: list[Sequence[int]]
    """Numbers that each may have, ascending."""
    held: list[int]
    """Numbers that the jobs have; 0 for those that wait."""
    gpus: int
    """GPUs for them together."""
    again_s: float
    """The next moment at which a job that is left alone may be resized; infinite if there is none."""
    fresh: Bools
    """True for jobs resized so recently that they do not grow, and shrink only for a waiting job."""

    def calm(self) -> Sizes | None:
        """These sizes with fresh jobs kept as they are; None if that changes nothing or starves a job."""
        if not self.fresh.any():
            return None
        counts = [
            (has,) if is_fresh else own
            for own, has, is_fresh in zip(self.counts, self.held, self.fresh.tolist(), strict=True)
        ]
        if counts == self.counts or sum(own[0] for own in counts) > self.gpus:
            return None
        return self._replace(counts=counts)

    def at_most(self, most: Mapping[int, int]) -> Sizes:
        """These sizes with at most the given GPUs for some rows, which are among their numbers."""
        counts = [
            [count for count in own if count <= most[row]] if row in most else own
            for row, own in zip(self.rows.tolist(), self.counts, strict=True)
        ]
        return self._replace(counts=counts)

    def without(self, left_out: Set[int]) -> Sizes:
        """These sizes without some rows."""
        if not left_out:
            return self
        kept = [place for place, row in enumerate(self.rows.tolist()) if row not in left_out]
        counts, held = [self.counts[place] for place in kept], [self.held[place] for place in kept]
        return self._replace(rows=self.rows[kept], counts=counts, held=held, fresh=self.fresh[kept])


def sizes_now(snapshot: Snapshot, memory: Memory, min_resize_s: float, work_s: float = 0.0) -> Sizes:
    """The numbers that every job with GPUs may have.

    A job that was resized less than `min_resize_s` ago, or has not worked for `work_s` since, does not grow,
    and shrinks only for a waiting job.  A job that cannot be stopped stays as it is, and so does one on
    devices that are being drained.
    """
    jobs, table = snapshot.jobs, snapshot.jobs.table
    rows, runs = live_rows(snapshot)
    can = jobs.can(rows)
    stays = runs & ((can & _STOPS) == 0)
    if closed := on_closed(snapshot):
        stays |= np.isin(rows, closed)
    silent = _silent(snapshot, rows, runs)
    silent_s = math.inf
    if silent.any():
        silent_s = float((jobs.since_s[rows[silent]] + LEFT_ALONE_S).min())
        stays |= silent
    among = (jobs.gpus[rows] > 0) & ~stays
    others: list[int] = []
    if not among.all():
        others = rows[~among].tolist()
        rows, can, runs = rows[among], can[among], runs[among]
    grants = snapshot.grants
    held = [len(grants[row].devices) if row in grants else 0 for row in rows.tolist()]
    refused_s, bound = left_alone(snapshot, memory.setdefault("refused", {})), memory.setdefault("bound", {})
    somebody_waits = bool((jobs.gpus[snapshot.waiting] > 0).any())
    resizes = (can & Can.RESIZE) != 0
    until_s = jobs.since_s[rows] + min_resize_s
    if work_s:
        until_s = np.maximum(until_s, jobs.ready_s(rows) + work_s)
    fresh = runs & (jobs.since_s[rows] > jobs.first_start_s[rows]) & (snapshot.now < until_s)
    least = table.gpus_min[rows]
    has_choice = least < table.gpus_max[rows]
    # Most jobs run on one number, can be stopped in any way, and were never refused anything.
    is_plain = resizes & ~has_choice & ~fresh if not refused_s else np.zeros(len(rows), dtype=bool)
    counts: list[Sequence[int]] = [*map(_alone, least.tolist())]
    for place in np.flatnonzero(~is_plain).tolist():
        row, has = rows.item(place), held[place]
        can_resize, is_fresh = resizes.item(place), fresh.item(place)
        if has and not can_resize:
            bound[row] = has
        if has and (not can_resize or row in refused_s or (is_fresh and not somebody_waits)):
            counts[place] = (has,)
        elif not has and not can_resize and row in bound and jobs.work_done(row) > 0.0:
            counts[place] = (bound[row],)
        else:
            counts[place] = feasible_counts(table, row, has if has and is_fresh else None)
    _forget_ended(snapshot, bound)
    taken = {device for row in others if row in grants for device in grants[row].devices}
    gpus = snapshot.cluster.gpus - len(snapshot.occupancy.down | taken)
    again_s = math.inf
    if fresh.any():
        again_s = float(until_s[fresh & has_choice].min(initial=math.inf))
    return Sizes(rows, counts, held, gpus, min(again_s, *refused_s.values(), silent_s), fresh)


@lru_cache(maxsize=1024)
def _alone(count: int) -> range:
    return range(count, count + 1)


def settle_sizes(
    snapshot: Snapshot,
    memory: Memory,
    sizes: Sizes,
    shares_of: Callable[[Sizes], dict[int, int]],
    carry: Carry = carry_out,
) -> Settled:
    """Settle as `settle` does, but hand out once more what a job cannot have beside the others.

    Jobs of one type each may find places for less than there is of all types together.
    """
    no_place = memory.get("no_place", [-math.inf, []])
    for _ in range(TRIES):
        memory["no_place"] = no_place

        def of_others(left_out: Set[int], sizes: Sizes = sizes) -> dict[int, int]:
            return shares_of(sizes.without(left_out))

        shares, grants, preempt = settle(snapshot, memory, of_others, carry)
        short = {row: has for row, has in short_of(snapshot, shares, grants).items() if has}
        if not short:
            break
        sizes = sizes.at_most(short)
    return shares, grants, preempt


def short_of(snapshot: Snapshot, shares: Mapping[int, int], grants: Sequence[Grant]) -> dict[int, int]:
    """By row, the GPUs held once `grants` are carried out, for rows that hold less than their share."""
    holds = {grant.job: len(grant.devices) for grant in grants}
    short = {}
    for row, share in shares.items():
        has = holds.get(row, -1)
        if has < 0:
            held = snapshot.grants.get(row)
            has = 0 if held is None else len(held.devices)
        if has < share:
            short[row] = has
    return short


def remember_nothing_new(snapshot: Snapshot, memory: Memory) -> None:
    """Remember what `sizes_now` does where nothing was refused and every job is resizable."""
    memory.setdefault("refused", {})
    _forget_ended(snapshot, memory.setdefault("bound", {}))


def _forget_ended(snapshot: Snapshot, bound: dict[int, int]) -> None:
    if bound:
        phase = snapshot.by_row.phase
        for row in [row for row in bound if phase.item(row) >= Phase.COMPLETED]:
            del bound[row]


def live_rows(snapshot: Snapshot) -> tuple[Ints, Bools]:
    """Live rows, ascending, and which of them run."""
    rows = np.concatenate((snapshot.waiting, snapshot.running))
    order = np.argsort(rows)
    return rows[order], order >= len(snapshot.waiting)


def are_silent(snapshot: Snapshot, rows: Ints) -> Bools:
    """Rows that began within the last minute, have a choice of sizes, and have not reported abilities yet.

    A job that still imports its libraries looks like one that will never report: if stopped now, it would
    have to wait for as many GPUs as it had.
    """
    return _silent(snapshot, rows, np.isin(rows, snapshot.running))


def _silent(snapshot: Snapshot, rows: Ints, runs: Bools) -> Bools:
    jobs = snapshot.jobs
    mute: Bools = runs & ((jobs.can(rows) & ~Can.SUSPEND) == 0)
    if not mute.any():
        return mute
    elastic = jobs.gpus_min[rows] < jobs.gpus_max[rows]
    silent: Bools = mute & elastic & (snapshot.now < jobs.since_s[rows] + LEFT_ALONE_S)
    return silent


def on_closed(snapshot: Snapshot) -> list[int]:
    """Rows that run on devices which accept no new grants."""
    down = snapshot.occupancy.down
    if not down:
        return []
    return [row for row, grant in snapshot.grants.items() if not down.isdisjoint(grant.devices)]


def left_alone(snapshot: Snapshot, known: dict[int, list[float]]) -> dict[int, float]:
    """Until when each running job is left alone because the cluster refused to change it.

    `known` is what a policy remembers of it: how often in a row, until when, and when it was last refused.
    """
    now, since_s = snapshot.now, snapshot.by_row.since_s
    for row in [row for row, (_, _, at_s) in known.items() if _is_settled(snapshot, row, at_s)]:
        del known[row]
    for row in snapshot.refused:
        times, _, at_s = known.get(row, (0.0, 0.0, -math.inf))
        if row in snapshot.grants and at_s < now and since_s.item(row) < now:
            pause_s = min(LEFT_ALONE_S * 2.0**times, LEFT_ALONE_MOST_S)
            known[row] = [times + 1.0, now + pause_s, now]
    return {row: until_s for row, (_, until_s, _) in known.items() if now < until_s}


def _is_settled(snapshot: Snapshot, row: int, at_s: float) -> bool:
    """True if `row`, refused at `at_s`, has stopped since, or has been changed."""
    return row not in snapshot.grants or snapshot.by_row.since_s.item(row) > at_s


class BySize(ByPriority):
    """The order of a key, and what a running job's number of GPUs is worth to it."""

    def size(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """The speeds of an elastic `row` by number of GPUs; None for one that has no choice."""
        grant, counts = snapshot.grants.get(row), feasible_counts(snapshot.jobs.table, row)
        if grant is None or len(counts) < 2 or not snapshot.knows(Knowledge.SCALING):
            return None
        has, least = len(grant.devices), counts[0]
        further = next((count for count in counts if count > has), counts[-1])
        shown = sorted({least, has, further, counts[-1]})
        rates = rates_on(snapshot.know(Knowledge.SCALING), np.full(len(shown), row), np.array(shown))
        if not rates[0] > 0.0:
            return None
        speeds = [f"{rate / rates[0]:.3g} times on {count}" for count, rate in zip(shown, rates, strict=True)]
        return Constraint(Code.SIZE, least, has, ", ".join(speeds[1:]))
