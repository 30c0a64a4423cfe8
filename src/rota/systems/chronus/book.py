"""What Chronus remembers: the deadline each job was promised, and the leases by which it is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rota.model.columns import Ints
from rota.model.promises import DeadlinePlan, PlannedSlot
from rota.systems.chronus.asks import LeaseAsk, LiveAsks


@dataclass
class Book:
    """Promises and plans; leases are counted from the world's epoch."""

    next_s: float = -1.0
    """When there is something to decide next; -1 with an empty memory."""
    lease: int = -1
    """The lease whose plan is in force; -1 before the first."""
    plans: dict[int, list[int]] = field(default_factory=dict)
    """By accepted row, its leases, ascending, the present one included."""
    aims: dict[int, float] = field(default_factory=dict)
    """By accepted row, the deadline used for its plan."""
    fresh: list[int] = field(default_factory=list)
    """Rows accepted since the present lease began, in order: they may still be planned again."""
    refused: list[int] = field(default_factory=list)
    """Rows whose deadline could not be promised."""
    overrun: list[int] = field(default_factory=list)
    """Rows that have outrun their estimate."""
    sure: list[int] = field(default_factory=list)
    """Rows without a promise that have their GPUs to the end of the present lease, ascending."""
    anew: list[int] = field(default_factory=list)
    """Rows that had come before they paused, or lost work: they are made no offer, which would end them."""
    dues: dict[int, float] = field(default_factory=dict)
    """The last deadline of each row in these collections when it was looked at."""
    done: dict[int, float] = field(default_factory=dict)
    """Work that each accepted row had done."""
    told: dict[int, list[float]] = field(default_factory=dict)
    """By row, the promise last reported to users: the deadline, and 1 if it is at risk."""
    doubted: list[int] = field(default_factory=list)
    """Accepted rows whose promise is at risk as long as the cluster is as small as it is."""
    capacity: int = 0
    """GPUs with which the present plan of leases was made."""
    short: bool = False
    """True if some job was without a promise since the lease began."""

    @property
    def leaves_out(self) -> bool:
        """True if a job that has a deadline is without a promise."""
        return bool(self.refused or self.overrun)

    def holds_lease(self, row: int) -> bool:
        """True if `row` has the present lease."""
        plan = self.plans.get(row)
        return bool(plan) and plan[0] == self.lease if plan else False

    def plan_of(self, row: int, gpus_of: Ints, lease_s: float) -> DeadlinePlan | None:
        """The leases of `row` on its GPUs, neighbours as one slot; None without a plan.

        Empty if its promise is at risk: what was planned for it does not hold any more.
        """
        plan = self.plans.get(row)
        if not plan:
            return None
        if row in self.doubted:
            return DeadlinePlan(self.aims[row], ())
        slots: list[PlannedSlot] = []
        for lease in plan:
            begin_s, end_s = lease * lease_s, (lease + 1) * lease_s
            if slots and slots[-1].to_s == begin_s:
                begin_s = slots.pop().from_s
            slots.append(PlannedSlot(begin_s, end_s, gpus_of.item(row)))
        return DeadlinePlan(self.aims[row], tuple(slots))

    def drop(self, row: int) -> None:
        """Remove the plan of `row`, without a report."""
        self.plans.pop(row, None)
        self.aims.pop(row, None)
        self.dues.pop(row, None)
        self.done.pop(row, None)
        for rows in (self.fresh, self.refused, self.overrun, self.sure):
            if row in rows:
                rows.remove(row)

    def accept(self, ask: LeaseAsk, leases: list[int], aim_s: float) -> None:
        self.plans[ask.row], self.aims[ask.row] = leases, aim_s
        self.dues[ask.row], self.done[ask.row] = ask.due_s, ask.work

    def refuse(self, ask: LeaseAsk) -> None:
        """Note that the deadline of `ask` is not promised, or no longer."""
        self.drop(ask.row)
        self.refused.append(ask.row)
        self.dues[ask.row] = ask.due_s

    def outrun(self, ask: LeaseAsk) -> None:
        """The job has taken longer than estimated: it has no plan, but is first on spare GPUs.

        A job that was sure of its GPUs to the end of the lease still is.
        """
        is_sure = ask.row in self.sure
        self.drop(ask.row)
        self.sure += [ask.row] * is_sure
        self.overrun.append(ask.row)
        self.dues[ask.row] = ask.due_s

    def bring_up(self, asks: LiveAsks, lease: int) -> None:
        """Forget jobs that are gone, ask for something else now or have lost work: these come again."""
        gone = [row for row in self.dues if row not in asks]
        self.anew = [row for row in [*self.anew, *gone] if row in asks or asks.is_held(row)]
        for row in gone:
            self.drop(row)
        for row in [row for row in self.told if row not in asks]:
            del self.told[row]
        for row, due_s in list(self.dues.items()):
            ask = asks[row]
            changed = not ask.dues or ask.due_s != due_s
            has_lost = ask.work < self.done.get(row, ask.work) * (1.0 - 1e-9)
            if changed or has_lost:
                self.drop(row)
                self.anew += [row] * has_lost
            elif row in self.plans:
                self.done[row] = ask.work
                self.plans[row] = [one for one in self.plans[row] if one >= lease]

    def shorten(self, asks: LiveAsks, now: float, lease_s: float, *, begins: bool) -> None:
        """Give back leases that progress beside the plan has made unnecessary, the earliest first.

        A lease that is under way stays; one that `begins` may be given back.  Jobs that have outrun their
        estimate are noted, with a promise or without, except jobs whose lease is under way.
        """
        for row in [row for row in self.refused if asks[row].left_s <= 0.0]:
            self.outrun(asks[row])
        for row, plan in list(self.plans.items()):
            ask = asks[row]
            held = [] if begins or plan[:1] != [self.lease] else plan[:1]
            if ask.left_s <= 0.0 and not held:
                self.outrun(ask)
                continue
            sure_s = (self.lease + 1) * lease_s - now if held else 0.0
            need = max(0, math.ceil((ask.left_s - sure_s) / lease_s - 1e-9))
            ahead = plan[len(held) :]
            self.plans[row] = held + ahead[max(0, len(ahead) - need) :]
            if not self.plans[row]:
                self.outrun(ask)
