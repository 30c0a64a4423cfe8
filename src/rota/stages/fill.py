"""Order and lease by counting: which jobs run when any free GPU is as good as another.

`admit` starts waiting jobs beside the running ones; `running_set` rebuilds the whole set of running jobs in
the order of the key, as preemptive policies do.  Both return what walking the complete order from an empty
cluster would, without walking it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, NamedTuple

from rota.model.columns import Row
from rota.stages.order import Item, JobOrder


def admit(order: JobOrder, free: int, *, strict: bool = False) -> list[int]:
    """Rows to start, in order, on `free` GPUs; `strict` stops at the first job that does not fit."""
    rows: list[int] = []
    fronts, passed = order.fronts(), dict[int, int]()
    while fronts and free > 0:
        front = fronts[0]
        gpus: int = front[1]
        if gpus <= free:
            rows.append(front[0][1])
            free -= gpus
            order.advance(fronts, passed)
        elif strict:
            break
        else:
            heappop(fronts)
    return rows


class RunningSet(NamedTuple):
    """What a rebuild changes."""

    start: list[int]
    """Waiting rows to start, in order."""
    preempt: list[int]
    """Running rows that give way."""
    reached: bool
    """True if every running job that was given was considered as a victim."""


def running_set(
    order: JobOrder,
    running: list[Item],
    free: int,
    gpus_of: list[int],
    ahead: float | None = None,
    begin: int = 0,
) -> RunningSet:
    """The changes that make the running set what a walk from an empty cluster admits.

    `running[begin:]` are the running jobs in order of the key; leading ones may be left out if the result is
    computed again with more of them when it says `reached`.  `free` is the number of GPUs that no job holds.
    A job that does not fit is skipped, not waited for.  With `ahead`, the keys of running jobs are larger by
    this amount than those of waiting ones (moments of finishing against remaining times).
    """
    fronts, passed = order.fronts(), dict[int, int]()
    start: list[Row] = []
    losers: list[Row] = []
    end = len(running)  # running[:end] keep their GPUs
    reached = False
    while fronts:
        front = fronts[0]
        item: Item = front[0]
        gpus: int = front[1]
        if gpus == _EVICTED:
            # It gave way to a job before it; now its own turn has come to fit again.
            heappop(fronts)
            own: int = gpus_of[item[1]]
            if own <= free:
                free -= own
            else:
                losers.append(item[1])
            continue
        cut, room = end, free
        if room < gpus and cut > begin:
            limit = item if ahead is None else (item[0] + ahead, item[1])
            while room < gpus and cut > begin and running[cut - 1] > limit:
                cut -= 1
                row: int = running[cut][1]
                room += gpus_of[row]
        reached = reached or cut == begin
        if room >= gpus:
            start.append(item[1])
            order.advance(fronts, passed)
            for place in range(cut, end):
                heappush(fronts, (_behind(running[place], ahead), _EVICTED))
            end, free = cut, room - gpus
        elif room == 0:
            break  # nothing is free and no running job is behind: no later job can be admitted either
        else:
            heappop(fronts)
    losers += [item[1] for item in sorted([front[0] for front in fronts if front[1] == _EVICTED])]
    return RunningSet(start, losers, reached)


def _behind(item: Item, ahead: float | None) -> Item:
    """The place of a running job among the waiting ones."""
    return item if ahead is None else (item[0] - ahead, item[1])


_EVICTED: Final = 0
"""Stands in place of a size: a running job that lost its GPUs earlier in the walk."""
