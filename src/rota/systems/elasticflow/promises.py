"""Which deadlines can be promised, and the least GPUs that keep them: sections 4.1 and 4.2 of the paper."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.promises import DeadlinePlan, PlannedSlot
from rota.solvers.future import FreeCurve, Plan, least_share, soonest
from rota.solvers.shared_caps import SharedCaps
from rota.systems.elasticflow.asks import ShareAsk
from rota.systems.elasticflow.free_room import FreeRoom
from rota.systems.elasticflow.parameters import ElasticFlowParameters

_MOST_PIECES = 2_000_000
"""Most pieces of curves kept within a decision: some 32 MB."""
_Taken = tuple[Plan, FreeRoom]
"""What a job has, and what it leaves free."""


@dataclass(frozen=True)
class Promised:
    """A plan that keeps the deadlines of some jobs."""

    asks: list[ShareAsk]
    """Asks by deadline."""
    plans: list[Plan]
    """What each of `asks` has."""
    room: FreeRoom
    """What they leave free."""
    broken: frozenset[int]
    """Rows whose deadline is not kept: they have what is left as soon as there is some."""

    def beside(self, other: Promised) -> Promised:
        """Both together; they share nothing but the free GPUs."""
        both = self.asks + other.asks, self.plans + other.plans
        return Promised(*both, self.room, self.broken | other.broken)

    def plan_of(self, row: int, origin_s: float, slot_s: float) -> DeadlinePlan | None:
        """The plan of `row` in seconds, slots counted from `origin_s`; None for a job without a promise."""
        for ask, plan in zip(self.asks, self.plans, strict=True):
            if ask.row == row:
                return DeadlinePlan(origin_s + ask.due * slot_s, _slots(plan, origin_s, slot_s))
        return None


def _slots(plan: Plan, origin_s: float, slot_s: float) -> tuple[PlannedSlot, ...]:
    """The pieces in which a job has GPUs, until its work is done."""
    starts, gpus = plan.starts.tolist(), plan.gpus.tolist()
    pieces = zip(starts, [*starts[1:], math.inf], gpus, strict=True)
    return tuple(
        PlannedSlot(origin_s + max(begin, plan.made) * slot_s, origin_s + min(end, plan.end) * slot_s, count)
        for begin, end, count in pieces
        if count and min(end, plan.end) > max(begin, plan.made)
    )


class Planner:
    """Plans by progressive filling, in order of deadlines."""

    def __init__(
        self,
        gpus: int,
        now: float,
        parameters: ElasticFlowParameters,
        asks: Sequence[ShareAsk] = (),
        caps: SharedCaps | None = None,
    ) -> None:
        """`now` is the moment inside the present slot, in slots; some of `asks` keep what they have.

        `caps`, numbered by the places of `asks`, say what some of them may have together.
        """
        self.free = FreeRoom.of(gpus, [ask.row for ask in asks], caps)
        for ask in asks:
            if ask.stays:
                self.free = self.free.less(ask.pin(), ask)
        self._caps, self._place = caps, {ask.row: place for place, ask in enumerate(asks)}
        self.gpus, self.now = gpus, now
        self.margin = parameters.margin_slots
        self.pause = parameters.restart_s / parameters.slot_s
        self._taken: dict[tuple[int, int, float, float], tuple[FreeRoom, _Taken | None]] = {}
        """Result of `take` by the identity of the curve, which is kept for it; row, deadline, margin."""
        self._pieces = 0
        """Number of pieces of the curves kept."""

    def caps_of(self, asks: Sequence[ShareAsk]) -> SharedCaps | None:
        """What some of `asks` may have together, numbered by place; None if there is no limit."""
        return None if self._caps is None else self._caps.among([self._place[ask.row] for ask in asks])

    def take(self, free: FreeRoom, ask: ShareAsk, margin: float) -> _Taken | None:
        """The least share of `ask` in `free`, as `fill` computes it, and what it leaves; None if none.

        Jobs are gone through several times for each decision, and mostly find the same curves.
        """
        key = (id(free), ask.row, ask.due, margin)
        known = self._taken.get(key)
        if known is not None:
            return known[1]
        room = self.room(free, ask)
        plan = self.fill(room.seen_by(ask), ask, margin)
        taken = None if plan is None else (plan, room.less(plan, ask))
        self._pieces += len(free.curve.starts)
        if self._pieces < _MOST_PIECES:
            self._taken[key] = free, taken
        return taken

    def fill(self, curve: FreeCurve, ask: ShareAsk, margin: float, first: int | None = None) -> Plan | None:
        """The least share that is done `margin` slots before the deadline of `ask`; None if there is none.

        `curve` is what `ask` could have, and has what it keeps in any case.
        """
        due = ask.due - margin
        if ask.stays:
            if first is not None and ask.levels.gpus[first] != ask.held:
                return None
            return self._after_pin(curve, ask, due)
        return least_share(
            curve, ask.levels, ask.work, due, now=self.now, first=first, pause=self.pause, held=ask.held
        )

    def _after_pin(self, curve: FreeCurve, ask: ShareAsk, due: float) -> Plan | None:
        """What the job has for as long as it keeps that, then the least share that is done by `due`.

        The earliest possible if `due` is infinite.
        """
        stays, levels, held = ask.stays, ask.levels, ask.held
        rate = float(levels.rates[levels.within(np.array([held]))[0]])
        left = ask.work - rate * (stays - self.now)
        if left <= 0.0:
            end = self.now + ask.work / rate
            kept = Plan(np.array([0, math.ceil(end - 1e-6)]), np.array([held, 0]), end, self.now)
            return kept if end <= due else None
        after = curve.since(stays)
        if due < math.inf:
            plan = least_share(after, levels, left, due - stays, pause=self.pause, held=held)
        else:
            plan = soonest(after, levels, left, pause=self.pause, held=held)
        if plan is None or plan.end == math.inf:
            return None
        starts, gpus = np.append(0, plan.starts + stays), np.append(held, plan.gpus)
        keep = np.append(True, gpus[1:] != gpus[:-1])
        return Plan(starts[keep], gpus[keep], plan.end + stays, self.now)

    def room(self, free: FreeRoom, ask: ShareAsk) -> FreeRoom:
        """`free` with what `ask` keeps in any case."""
        return free.more(ask.pin(), ask) if ask.stays else free

    def soonest(self, curve: FreeCurve, ask: ShareAsk) -> Plan:
        """The plan with which `ask` is done as soon as what is free allows; `curve` as for `fill`."""
        if ask.stays:
            return self._after_pin(curve, ask, math.inf) or ask.pin()
        return soonest(curve, ask.levels, ask.work, now=self.now, pause=self.pause, held=ask.held)

    def alone(self, asks: Sequence[ShareAsk]) -> Promised:
        """Plans of jobs that keep what they hold to their end, and nothing else."""
        plans = [self.soonest(FreeCurve.of(ask.held), ask) for ask in asks]
        return Promised(list(asks), plans, FreeRoom.of(0), frozenset())

    def plan(self, asks: Sequence[ShareAsk]) -> Promised:
        """Plans of jobs that were promised their deadlines.

        A job that cannot be done in time any more, or only at the cost of a later promise, comes
        after those that can.  One that has lost its margin by then is planned without.
        """
        free = self.free
        kept: list[tuple[ShareAsk, Plan]] = []
        late: list[ShareAsk] = []
        for ask in sorted(asks, key=lambda ask: ask.rank):
            taken = None if ask.is_late else self.take(free, ask, self.margin) or self.take(free, ask, 0.0)
            if taken is None:
                late.append(ask)
            else:
                plan, free = taken
                kept.append((ask, plan))
        for ask in late:
            room = self.room(free, ask)
            plan = self.soonest(room.seen_by(ask), ask)
            kept.append((ask, plan))
            free = room.less(plan, ask)
        asked, plans = [ask for ask, _ in kept], [plan for _, plan in kept]
        return Promised(asked, plans, free, frozenset(ask.row for ask in late))

    def could_keep(self, ask: ShareAsk) -> bool:
        """True if `ask` could be promised its last deadline if it were alone."""
        return self.take(self.free, aimed(ask, len(ask.dues) - 1), self.margin) is not None

    def admit(
        self, promised: Sequence[ShareAsk], new: Sequence[ShareAsk]
    ) -> tuple[list[ShareAsk], list[ShareAsk]]:
        """Splits `new`, in order of arrival: jobs that can be promised a deadline, with it, and the others.

        No job is admitted that would break the promise of another.  Of jobs that come at once, those that
        are due first are tried first; where one of them breaks an older promise, the last to come gives way.
        """
        broken = set(self.plan(promised).broken)
        trying = {ask.row: aimed(ask, 0) for ask in new}
        refused: list[ShareAsk] = []
        while (breaks := self._walk(promised, trying, refused, broken)) is not None:
            before = [ask for ask in trying.values() if ask.rank < breaks.rank]
            if not before:
                broken.add(breaks.row)  # no newcomer is to blame
                continue
            last = max(before, key=lambda ask: (ask.submit_s, ask.row))
            later = _aimed_later(last)
            if later is None:
                refused.append(trying.pop(last.row))
            else:
                trying[last.row] = later
        return list(trying.values()), refused

    def _walk(
        self,
        promised: Sequence[ShareAsk],
        trying: dict[int, ShareAsk],
        refused: list[ShareAsk],
        broken: set[int],
    ) -> ShareAsk | None:
        """Fill all in order of deadlines; returns the first promised job that the tried ones break.

        A tried job that does not fit goes for its next deadline, or to `refused`.
        """
        free = self.free
        queue = sorted((ask.rank, ask) for ask in (*promised, *trying.values()) if ask.row not in broken)
        place = 0
        while place < len(queue):
            _, ask = queue[place]
            place += 1
            taken = self.take(free, ask, self.margin)
            if taken is None and ask.row not in trying:
                taken = self.take(free, ask, 0.0)
            if taken is not None:
                _, free = taken
            elif ask.row not in trying:
                return ask
            elif (later := _aimed_later(ask)) is not None:
                trying[ask.row] = later
                insort(queue, (later.rank, later), lo=place)
            else:
                refused.append(trying.pop(ask.row))
        return None

    def earliest(self, promised: Promised, ask: ShareAsk, wait: float = 0.0) -> float:
        """When `ask` could be promised to be done without touching another job's promise, in slots.

        It is admitted in `wait` slots.
        """
        levels, held, now = ask.levels, ask.held, self.now + wait
        plan = soonest(promised.room.seen_by(ask), levels, ask.work, now=now, pause=self.pause, held=held)
        return plan.end + self.margin


def _aimed_later(ask: ShareAsk) -> ShareAsk | None:
    """`ask`, planned for the deadline after the one it is planned for; None if there is none."""
    place = ask.dues.index(ask.due) + 1
    return aimed(ask, place) if place < len(ask.dues) else None


def aimed(ask: ShareAsk, place: int) -> ShareAsk:
    """`ask`, planned for one of its deadlines."""
    return ask._replace(due=ask.dues[place] if place < len(ask.dues) else math.inf)
