"""GPUs that no promise needs, to the job that loses least GPU time by one more step: section 4.3."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Mapping

from rota.solvers.future import NOTHING, Plan
from rota.systems.elasticflow.asks import ShareAsk
from rota.systems.elasticflow.free_room import FreeRoom
from rota.systems.elasticflow.promises import Planner, Promised

_Entry = tuple[float, tuple[float, float, int], int]
_DIGITS = 9
"""Decimals, in GPU-slots for each GPU, to which returns are compared."""


class Surplus:
    """The present slot of a plan, raised step by step.

    The return of a step is the GPU time that it saves over that which it adds, for each further GPU; with
    concave curves it is never above 0 and falls from step to step, so that a return that was worked out
    before others took their step is at least what it is now: only the best has to be looked at again.
    """

    def __init__(
        self,
        planner: Planner,
        promised: Promised,
        others: list[ShareAsk],
        most: Mapping[int, int] | None = None,
    ) -> None:
        """`others` have no promise and begin with nothing; some rows find no place for more than `most`."""
        self._planner = planner
        self._asks = [*promised.asks, *others]
        self._plans = [*promised.plans, *[NOTHING] * len(others)]
        self._room = promised.room
        self._broken = promised.broken
        self._sizes: list[list[int]] = [ask.levels.gpus.tolist() for ask in self._asks]
        """The sizes of each job in GPUs, ascending, the first 0."""
        self._level = [
            0 if plan is NOTHING else bisect_right(sizes, plan.now) - 1
            for sizes, plan in zip(self._sizes, self._plans, strict=True)
        ]
        self.left = planner.gpus - sum(plan.now for plan in self._plans)
        self._caps = planner.caps_of(self._asks)
        if self._caps is not None:
            for place, plan in enumerate(self._plans):
                self._caps.take(place, plan.now)
        self._seen: dict[int, tuple[FreeRoom, Plan | None]] = {}
        """The next step of each as last computed, and the state it was computed on."""
        self._most = most or {}
        for place, ask in enumerate(self._asks) if self._most else ():
            if ask.row in self._most:
                self._lower(place, self._most[ask.row])

    def _lower(self, place: int, most: int) -> None:
        """Leave for others what `place` would have beyond `most`."""
        now, level = self._now(place), bisect_right(self._sizes[place], most) - 1
        self._level[place] = min(self._level[place], level)
        spare = now - self._now(place)
        self.left += spare
        if self._caps is not None:
            self._caps.take(place, -spare)

    def shares(self) -> dict[int, int]:
        """GPUs of each row now."""
        triples = zip(self._asks, self._sizes, self._level, strict=True)
        return {ask.row: sizes[level] for ask, sizes, level in triples}

    def keep(self, held: Mapping[int, int]) -> None:
        """Let these rows have up to what they hold, as far as GPUs suffice: a change would cost them more."""
        asks = self._asks
        holders = [place for place, ask in enumerate(asks) if held.get(ask.row)]
        for place in sorted(holders, key=lambda place: asks[place].rank):
            most = held[asks[place].row]
            while self._next(place) <= most and self._step(place):
                pass

    def begin(self) -> None:
        """The first step for jobs without a promise, and no other step for any job."""
        free = [place for place, ask in enumerate(self._asks) if self._is_free(ask)]
        self._begin([place for place in free if not self._level[place] and self._next(place) < math.inf])

    def hand_out(self) -> None:
        """Take one step after the other until no step fits."""
        rising = [place for place in range(len(self._asks)) if self._next(place) < math.inf]
        heap = [self._entry(place) for place in rising if self._level[place]]
        heap += self._begin([place for place in rising if not self._level[place]])
        heapq.heapify(heap)
        while heap and self.left > 0:
            _, _, place = entry = heapq.heappop(heap)
            if not self._is_left(place):
                continue  # what is left only shrinks
            again = self._entry(place)
            if heap and again > heap[0] and again > entry:
                heapq.heappush(heap, again)
            elif self._step(place):
                heapq.heappush(heap, self._entry(place))

    def _begin(self, places: list[int]) -> list[_Entry]:
        """Take the first step for jobs without GPUs, by deadline; entries of jobs that could have more."""
        begun = []
        for place in sorted(places, key=lambda place: self._asks[place].rank):
            if self.left <= 0:
                break
            if self._is_left(place) and self._step(place) and self._next(place) < math.inf:
                begun.append(self._entry(place))
        return begun

    def _entry(self, place: int) -> _Entry:
        """The entry, best first: jobs without GPUs, then the largest return; ties by deadline."""
        return -round(self._return(place), _DIGITS), self._asks[place].rank, place

    def _now(self, place: int) -> int:
        return self._sizes[place][self._level[place]]

    def _next(self, place: int) -> float:
        """GPUs of the next step; infinite if there is none."""
        sizes, level = self._sizes[place], self._level[place] + 1
        if level == len(sizes):
            return math.inf
        ask = self._asks[place]
        is_all = (ask.stays and sizes[level - 1] >= ask.held) or sizes[level] > self._most.get(
            ask.row, math.inf
        )
        return math.inf if is_all else float(sizes[level])

    def _return(self, place: int) -> float:
        """GPU-slots saved by the next step for each GPU of it; minus infinity if there is none."""
        level = self._level[place]
        if not self._next(place) < math.inf:
            return -math.inf
        if not level:
            return math.inf
        raised = self._raised(place)
        if raised is None:
            return -math.inf
        saved = self._use(place, level, self._plans[place]) - self._use(place, level + 1, raised)
        return saved / float(self._sizes[place][level + 1] - self._sizes[place][level])

    def _use(self, place: int, level: int, plan: Plan) -> float:
        """GPU-slots that the job takes to its end; without a promise it keeps what it has."""
        ask = self._asks[place]
        if self._is_free(ask):
            return float(self._sizes[place][level] * ask.work / ask.levels.rates[level])
        return plan.gpu_slots

    def _is_free(self, ask: ShareAsk) -> bool:
        """True if the job has no promise to keep."""
        return ask.due == math.inf or ask.row in self._broken

    def _is_left(self, place: int) -> bool:
        """True if the next step takes no more than is left, and than limits leave to its job."""
        more = self._next(place) - self._now(place)
        return more <= self.left and (self._caps is None or self._caps.admits(place, more))

    def _without(self, place: int) -> FreeRoom:
        return self._room.more(self._plans[place], self._asks[place])

    def _raised(self, place: int) -> Plan | None:
        """The plan with one more step in the present slot; None if its promise would be broken by it."""
        ask, level = self._asks[place], self._level[place] + 1
        if self._is_free(ask):
            return self._plans[place]
        room, plan = self._seen.get(place, (None, None))
        if room is not self._room:
            curve = self._without(place).seen_by(ask)
            plan = self._planner.fill(curve, ask, self._planner.margin, level)
            self._seen[place] = self._room, plan
        return plan

    def _step(self, place: int) -> bool:
        """Raise by one step if there is room and no promise is broken; False if not."""
        more = self._next(place) - self._now(place)
        raised = self._raised(place) if self._is_left(place) else None
        if raised is None:
            return False
        if not self._is_free(self._asks[place]):
            self._room = self._without(place).less(raised, self._asks[place])
            self._plans[place] = raised
            self._seen.pop(place, None)
        self._level[place] += 1
        self.left -= int(more)
        if self._caps is not None:
            self._caps.take(place, more)
        return True
