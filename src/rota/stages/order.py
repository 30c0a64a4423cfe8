"""Order: the waiting jobs in the order of a key, one sorted list per number of GPUs.

Skipping what does not fit never looks at the same size twice: once a job of g GPUs has been skipped, every
later job of g GPUs is skipped too, since room only shrinks along the walk.  So a walk touches the heads of
a few lists instead of the queue.  Where more than GPUs is asked for, jobs with equal requests form the
lists (`by_kind`).

A `JobOrder` is a cache: built from the snapshot when new, brought up to date from the rows that changed
phase since.  Dropping it changes no decision.  The key of a job may not change while it waits (or, with
`tracks_running`, while it runs) unless its owner says so with `move`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heapreplace
from typing import Any, Final

import numpy as np

from rota.model.columns import Row
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.requests import request_kinds
from rota.table.state import Phase

_PENDING: Final = int(Phase.PENDING)
_RUNNING: Final = int(Phase.RUNNING)

# Two fields each.  With that in the type, compiled code would take tuples apart and build new ones again and
# again.
Item = tuple[Any, ...]
"""Key and row; equal keys keep the order of submission."""

Front = tuple[Any, ...]
"""The first job of a size (its item), and the size in GPUs."""


def item_of(key: Any, row: Row) -> Item:
    """The item of a job: one object, however often it is handed on."""
    return key, row


class SortedItems:
    """A sorted list that is cheap to consume from its head."""

    __slots__ = ("head", "items", "size")

    def __init__(self, size: int = -1) -> None:
        self.size = size
        """The request of all its jobs, in a `JobOrder`: a number of GPUs or a kind of request."""
        self.items: list[Item] = []
        self.head = 0

    def __len__(self) -> int:
        return len(self.items) - self.head

    def left(self) -> list[Item]:
        """What has not been consumed, in order."""
        return self.items[self.head :]

    def add(self, item: Item) -> None:
        if not self.items or self.items[-1] < item:
            self.items.append(item)
        else:
            insort(self.items, item, self.head)

    def remove(self, item: Item) -> None:
        items, head = self.items, self.head
        if items[head] == item:
            self.head = head = head + 1
            if head > 64 and 2 * head > len(items):
                del items[:head]
                self.head = 0
            return
        del items[bisect_left(items, item, head)]


class JobOrder:
    """Waiting jobs by key; running ones too if `tracks_running`."""

    def __init__(
        self,
        key: Callable[[Snapshot, int], Any],
        *,
        tracks_running: bool = False,
        running_key: Callable[[Snapshot, int], Any] | None = None,
        by_kind: bool = False,
    ) -> None:
        self.key = key
        self.running_key = running_key or key
        self.tracks_running = tracks_running or running_key is not None
        self.by_kind = by_kind
        self.by_size: dict[int, SortedItems] = {}
        """Waiting jobs by number of GPUs, ascending; with `by_kind` by kind of request."""
        self._size_of: Sequence[int] = ()
        self.running = SortedItems()
        self._jobs: JobTable | None = None
        self._cursor = Cursor()
        self._items: dict[Row, tuple[SortedItems, Item]] = {}
        self._fronts: list[Front] = []
        """The first job of each size with that size, in order."""

    def sync(self, snapshot: Snapshot) -> None:
        """Bring the lists up to date with `snapshot`."""
        rows = snapshot.changes(self._cursor)
        if rows is None or (self.by_kind and snapshot.jobs.table is not self._jobs):
            self._rebuild(snapshot)
            return
        phase_of, items = snapshot.by_row.phase_of, self._items
        for row in rows:
            if row in items or phase_of[row] <= _RUNNING:
                self._place(snapshot, row)

    def _rebuild(self, snapshot: Snapshot) -> None:
        self._jobs = snapshot.jobs.table
        self._size_of = (
            request_kinds(self._jobs, snapshot.cluster).tolist() if self.by_kind else snapshot.gpus_of
        )
        self.by_size.clear()
        self._items.clear()
        self._fronts = []
        self.running = SortedItems()
        for row in snapshot.waiting.tolist():
            self._place(snapshot, row)
        if self.tracks_running:
            for row in snapshot.running.tolist():
                self._place(snapshot, row)

    def kind_of(self, row: int) -> int:
        """The list in which `row` stands while it waits."""
        return self._size_of[row]

    def move(self, snapshot: Snapshot, row: int) -> None:
        """The key of `row` has changed."""
        if self._cursor.follows(snapshot):
            self._place(snapshot, row)

    def forget(self) -> None:
        """Read all keys again at the next call."""
        self._cursor = Cursor()

    def stale(self, snapshot: Snapshot) -> list[int]:
        """Waiting rows whose key has changed since it was read without a call of `move`."""
        if not self._cursor.follows(snapshot):
            return []
        self.sync(snapshot)
        read = {row: key for row, (_, (key, _)) in self._items.items() if snapshot.waits(row)}
        return [row for row, key in read.items() if plain(self.key(snapshot, row)) != key]

    def _place(self, snapshot: Snapshot, row: Row) -> None:
        """Put `row` where its phase says, out of where it was."""
        known = self._items.pop(row, None)
        if known is not None:
            queue, item = known
            was_first = queue.size >= 0 and queue.items[queue.head] is item
            queue.remove(item)
            if was_first:
                self._set_front(queue)
        phase: int = snapshot.by_row.phase_of[row]
        if phase == _PENDING:
            items = self._of_size(self._size_of[row])
            item = item_of(plain(self.key(snapshot, row)), row)
        elif phase == _RUNNING and self.tracks_running:
            items = self.running
            item = item_of(plain(self.running_key(snapshot, row)), row)
        else:
            return
        items.add(item)
        if items.size >= 0 and items.items[items.head] is item:
            self._set_front(items)
        self._items[row] = (items, item)

    def _set_front(self, queue: SortedItems) -> None:
        """Update the front of `queue` after its first job has changed, or gone."""
        fronts, size = self._fronts, queue.size
        for place, front in enumerate(fronts):
            if front[1] == size:
                del fronts[place]
                break
        if queue.head < len(queue.items):
            insort(fronts, (queue.items[queue.head], size))

    def _of_size(self, size: int) -> SortedItems:
        items = self.by_size.get(size)
        if items is None:
            items = self.by_size[size] = SortedItems(size)
            self.by_size = dict(sorted(self.by_size.items()))
        return items

    def fronts(self) -> list[Front]:
        """The first job of each size with that size, in order, and so a heap."""
        return self._fronts.copy()

    def advance(self, fronts: list[Front], passed: dict[int, int]) -> None:
        """The head of `fronts` is dealt with; the next job of its size takes its place.

        `passed` counts per size the jobs dealt with in this walk.
        """
        gpus = fronts[0][1]
        count = passed.get(gpus, 0) + 1
        passed[gpus] = count
        queue = self.by_size[gpus]
        place = queue.head + count
        if place < len(queue.items):
            heapreplace(fronts, (queue.items[place], gpus))
        else:
            heappop(fronts)

    def in_order(self) -> Iterator[Item]:
        """All waiting jobs in order."""
        fronts, passed = self.fronts(), dict[int, int]()
        while fronts:
            yield fronts[0][0]
            self.advance(fronts, passed)


def plain(key: Any) -> Any:
    """A NumPy scalar as a Python value, in tuples too: those compare several times faster, and compiled code
    accepts no other truth value."""
    if type(key) is float or type(key) is int:
        return key
    if isinstance(key, (np.generic, np.ndarray)):
        return key.item()
    return tuple([plain(part) for part in key]) if isinstance(key, tuple) else key
