"""Jobs that a round can skip: they sit where no job is ever short of anything, and stay there.

Where no node states cores, memory or storage bandwidth, every job that stays has all that it wants where it
is, whatever comes.  Then a round concerns only jobs to which something has happened since the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from rota.model.grants import Grant
from rota.scheduler.decision import Decision
from rota.scheduler.snapshot import Snapshot
from rota.systems.synergy.room import Ask
from rota.table.free import Free


class Unmoved:
    """All jobs but the named ones: they stay where the last round left them."""

    def __init__(self) -> None:
        self._is_known = False
        """True if the last round left every job on whole GPUs of its own."""
        self._down: frozenset[int] = frozenset()
        self._named: set[int] = set()

    def name(self, rows: Iterable[int]) -> None:
        """Note that something has happened to `rows`."""
        self._named.update(rows)

    def knows(self, decision: Decision, down: Set[int]) -> bool:
        """True if only named jobs have to be looked at; adds the jobs that `decision` starts or stops."""
        if not self._is_known or self._down != down:
            return False
        self._named.update(grant.job for grant in decision.grants)
        self._named.update(decision.preempt, decision.cancel)
        return True

    @property
    def named(self) -> Set[int]:
        return self._named

    def settled(self, asks: Collection[Ask] | None, decision: Decision, down: Set[int]) -> None:
        """Note that jobs are as `decision` leaves them; `asks` are the jobs to run, None if one was short.

        A job that is started, moved or stopped is looked at again: the world may refuse it.
        """
        self._is_known = asks is not None and all(map(is_movable, asks))
        self._down = frozenset(down)
        self._named = {grant.job for grant in decision.grants}
        self._named.update(decision.preempt, decision.cancel)


def is_movable(ask: Ask) -> bool:
    """True if the job is alone on its GPUs, and may have others."""
    return ask.share == 1.0 and bool(ask.allowed.any())


def without(seen: Snapshot, rows: Iterable[int]) -> Free:
    """A copy of the index of free devices, where devices of `rows` are free too unless they are down."""
    free, down = seen.occupancy.free.copy(), seen.occupancy.down
    for row in rows:
        held = seen.grants.get(row)
        if held is not None:
            free.put_all(tuple(device for device in held.devices if device not in down))
    return free


def stopped(held: Mapping[int, Grant], rows: Set[int]) -> list[int]:
    """The jobs of `rows` that hold something, in the order in which they began."""
    stop = [row for row in rows if row in held]
    return stop if len(stop) < 2 else [row for row in held if row in rows]
