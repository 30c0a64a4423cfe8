"""The rule of Philly: every waiting job that can get further is served, in order.

The steps of the paper, in its order, and where they stand:

1. A job joins the queue of its virtual cluster          `GangAttempts._enter`
2. Least use of a quota first, then arrival; a job that
   does not fit is passed over                           `_serve`, `_least_served`, `_next`
3. A quota may be exceeded while GPUs are idle           no step: a quota decides order and step 6 only
4. An attempt fixes its nodes, holds what is free there
   until the timeout, and starts once it is complete     `GangAttempts._try`, `_collect`; `gang.Cycle`
5. After failed attempts locality is relaxed             `gang.Cycle.latest`, `locality.Domains`
6. Above 90 % use, a job within its quota takes GPUs
   back from virtual clusters above theirs               `GangAttempts._reclaim`, `quota.reclaim`

Memory    `attempts`        efforts of each waiting job (`gang.Attempts`)
          `asleep_until_s`  openings before this moment were slept through: they could find nothing
          `slept`           kinds of jobs whose openings were slept through, and when
          `labels`, `delay_s`  why jobs wait and waited (`delays`)
          `down`            nodes that were lost, or closed to new grants

Most openings find nothing and are slept through.  While no suitable GPU is free and none may be taken back,
an attempt would fix the nodes that a full cluster offers, so they are computed when a GPU becomes free.  A
free GPU of a later type does not suit a gang that needs more of that type than there are (`queues`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Set
from typing import TypedDict

from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.systems.philly.attempt import GangAttempts, Premises
from rota.systems.philly.delays import Class
from rota.systems.philly.parameters import PhillyParameters
from rota.systems.philly.queues import AttemptQueues, Key, Line
from rota.systems.philly.quota import QuotaShares


class Slept(TypedDict):
    """Kinds of jobs whose openings were slept through; JSON, for a policy's memory."""

    at_s: float
    """The latest moment at which the policy decided."""
    kinds: list[list[int]]
    """Their keys: an attempt that opened then found nothing."""


class PhillyDecision(GangAttempts):
    """One call: which jobs are served, in which order, and until when all other jobs sleep."""

    def __init__(
        self,
        p: PhillyParameters,
        snapshot: Snapshot,
        fit: Fitter,
        queues: AttemptQueues,
        premises: Premises,
        shares: QuotaShares,
        slept: Slept,
    ) -> None:
        """`slept` holds the kinds that sleep; it is overwritten, since it is kept between decisions."""
        super().__init__(p, snapshot, fit, queues, premises, shares)
        self.slept = slept

    def run(self, gone: list[int], come: list[int], asleep_until_s: float, *, are_others_there: bool) -> None:
        """Serve all waiting jobs; the rows `gone` no longer wait, the rows `come` have begun to.

        If nodes are lost or back (`are_others_there`), each open attempt fixes its nodes again.
        """
        for row in gone:
            self.ended.append(self.queues.drop(row))
        for row in come:
            self._enter(row)
        for row, devices, until_s in self.snapshot.reservations:
            if row in self.attempts and until_s > self.now and not are_others_there:
                self.held[row] = tuple(d for d in devices if self.scratch.free.is_free(d))
                self.scratch.free.remove_all(self.held[row])
        fresh = self._fresh(come, min(asleep_until_s, self.now))
        if are_others_there:
            fresh = [row for row in self.attempts if self.now < self._latest(row).until_s]
        self._serve_all(fresh, self._free_nodes() & ~self.queues.unwanted)

    def _serve_all(self, fresh: list[int], news: int) -> None:
        """Serve, also the jobs that wait because of it, until no job gets further."""
        taken = len(self.victims)
        while not self._serve(fresh, news):  # a victim waits again, and may have left too much
            fresh = [row for row in (*self.fresh, *self.victims[taken:]) if row in self.attempts]
            news, taken = self._free_nodes(), len(self.victims)
        self.queues.unwanted = self._free_nodes() if self.sleeps else 0

    # -- order -------------------------------------------------------------------------------------

    def _serve(self, fresh: list[int], news: int) -> bool:
        """Jobs whose attempt is `fresh`, and those whose open attempt wants free GPUs on the nodes `news`.

        Virtual clusters with the least use of their quota come first; in each, order of arrival.  False if
        GPUs were taken back, some of which may be left: all jobs are to be asked from the beginning.
        """
        self.fresh, taken = set(fresh), len(self.victims)
        special = self._by_cluster([*fresh, *self._always()])
        heads = {name: self._next(name, -1, special.get(name, []), news) for name in self.queues.lines}
        heads = {name: row for name, row in heads.items() if row is not None}
        while heads:
            name = self._least_served(heads)
            row = heads.pop(name)
            assert row is not None
            self._try(row)
            self.fresh.discard(row)
            if len(self.victims) > taken:
                return False
            if not self.scratch.free.total and self.fresh and self._may_sleep():
                self._sleep_through(special)
            following = self._next(name, row, special.get(name, []), news)
            if following is not None:
                heads[name] = following
        return True

    def _least_served(self, names: Collection[str]) -> str:
        """The virtual cluster that uses the smallest part of its quota."""
        if len(names) == 1:  # as where no tenant has a quota: nothing to compare
            return next(iter(names))
        return min(names, key=lambda name: (self.shares.ratio(name), name))

    def _always(self) -> list[int]:
        """Rows that may start although nothing became free on their nodes: held back by CPU or memory."""
        if not self.held and not self.queues.without_gpus:
            return []
        free = self._free_nodes()
        return [row for row in {*self.held, *self.queues.without_gpus} if self._reaches(row, free)]

    def _by_cluster(self, rows: list[int]) -> dict[str, list[int]]:
        rows_of: dict[str, list[int]] = {}
        for row in sorted(set(rows)):
            rows_of.setdefault(self.queues.class_of[row][0], []).append(row)
        return rows_of

    def _next(self, name: str, last: int, special: list[int], news: int) -> int | None:
        """The next row of a virtual cluster to be served after `last`."""
        place = bisect_right(special, last)
        chosen = special[place] if place < len(special) else None
        nodes = news & self._free_nodes()
        if not nodes:
            return chosen
        for line in self.queues.lines.get(name, {}).values():
            if line.kind.first & nodes:
                chosen = self._first_reaching(line, last, chosen, nodes)
            elif line.astray:
                chosen = self._first_astray(line, last, chosen, nodes)
        return chosen

    def _first_astray(self, line: Line, last: int, end: int | None, nodes: int) -> int | None:
        """As `_first_reaching` where `nodes` are no candidates of attempts that were slept through."""
        for row in line.astray[bisect_right(line.astray, last) :]:
            if end is not None and row >= end:
                break
            if not self._is_seen(row):
                line.astray.remove(row)
            elif self._reaches(row, nodes):
                return row
        return end

    def _first_reaching(self, line: Line, last: int, end: int | None, nodes: int) -> int | None:
        """The first row of `line` after `last` and before `end` that gets further by `nodes`, or `end`."""
        rows = line.rows
        at = max(line.first_open(self.now), bisect_right(rows, last))
        while (at := line.next_open(at, self.now)) < len(rows):
            row = rows[at]
            if end is not None and row >= end:
                break
            if self._reaches(row, nodes):
                return row
            at += 1
        return end

    def _reaches(self, row: int, nodes: int) -> bool:
        """True if the attempt of `row` is open, seen or slept through, for one of `nodes`."""
        latest = self._latest(row)
        if self.now >= latest.until_s:
            return False
        if latest.wants < 0:
            if self.attempts[row]["opened_s"] == latest.opened_s:
                latest.wants = self.attempts[row]["nodes"]
            elif row not in self.fresh:
                latest.wants = self._offered_when_full(row, latest)
            else:
                return False
        return bool(latest.wants & nodes)

    # -- openings that can find nothing are slept through (ours) --------------------------------------

    def _fresh(self, come: list[int], from_s: float) -> list[int]:
        """Rows with an attempt that has opened since `from_s` and may find something.

        The others are slept through, which is noted: the next decision may be of the same moment.
        """
        queues, now = self.queues, self.now
        slept: set[Key] = set()
        if self.slept["at_s"] == now:
            slept = {(nodes, gpus) for nodes, gpus in self.slept["kinds"]}
        asleep = self._asleep()
        opened = queues.opened(from_s, now, slept | asleep)
        late = [row for row in come if queues.kind_of[row].key in slept - asleep]
        self.slept["at_s"], self.slept["kinds"] = now, [list(key) for key in slept | asleep]
        attempts, latest = self.attempts, queues.latest
        return late + [row for row in opened if attempts[row]["opened_s"] != latest.of(row, now).opened_s]

    def _asleep(self) -> Set[Key]:
        """Kinds whose attempts find nothing now, whatever else this decision does."""
        if not self._may_sleep():
            return set()
        return set(self.queues.without(self.scratch.free, self._free_nodes(), not self._is_anybody_due()))

    def _is_anybody_due(self) -> bool:
        """True if some job may take GPUs back as soon as others have borrowed enough."""
        shares = self.shares
        return len(shares.quota) > 1 and any(of[1] > 0 and shares.is_due(*of) for of in self.queues.classes)

    def _may_sleep(self) -> bool:
        """True if an attempt without a suitable free GPU finds nothing."""
        return self.sleeps and not self.queues.without_gpus and not self._may_anybody_reclaim()

    def next_opening_s(self) -> float:
        """The next opening of an attempt that may find something, if nothing happens before."""
        if not self.sleeps:
            return self.queues.next_of_any_s(self.now)
        return self.queues.next_s(self.now, self.scratch.free, self._free_nodes(), self._hopeful)

    def _hopeful(self) -> set[Class]:
        """Classes with an attempt that may find something where no GPU is free."""
        tight = self._is_tight()
        return {of for of in self.queues.classes if not of[1] or (tight and self._may_reclaim(of))}

    def _sleep_through(self, special: dict[str, list[int]]) -> None:
        """Drop jobs whose attempt is fresh from `special`: no GPU is left for them."""
        for row in self.fresh:
            latest = self._latest(row)
            self._open(row, self._offered_when_full(row, latest), latest)
        for name, rows in special.items():
            special[name] = [row for row in rows if row not in self.fresh]
        self.fresh.clear()
