"""Policies inside policies: one around another, or one for each part of the cluster.

`Nested` is a wrapper: it edits what the inner policy sees, and then what it decides.  Wrappers that ask
several policies keep an entry for each (`entry_of`), call those that are due and are woken when any is
(`joined`).

An inner policy knows nothing of what its wrapper sets on a grant (`KNOBS`: batch size, power limit).  So
where its grant leaves such a thing open, the job keeps what it has: leaving it open does not clear it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from rota.knowledge.needs import Knowledge
from rota.model.grants import Grant, are_idle
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Lever, Policy, levers_of
from rota.scheduler.snapshot import Snapshot

View = Callable[[Snapshot, Memory], Snapshot]
"""What the inner policy sees, given the wrapper's own memory."""
Edit = Callable[[Snapshot, Decision, Memory], Decision]
"""What becomes of the inner policy's decision; the memory, the wrapper's own, may be changed in place."""

KNOBS = tuple(name for name, default in Grant._field_defaults.items() if default != default)
"""Fields of a grant that NaN leaves as they are."""


def as_seen(snapshot: Snapshot, memory: Memory) -> Snapshot:
    """The view of a wrapper that hides nothing."""
    return snapshot


class Nested:
    """`inner`, shown `view` and corrected by `edit`.

    Memory    `own`    what the wrapper remembers
              `inner`  what the inner policy does
    """

    def __init__(
        self,
        inner: Policy,
        view: View = as_seen,
        edit: Edit | None = None,
        *,
        needs: frozenset[Knowledge] = frozenset(),
        levers: frozenset[Lever] = frozenset(),
    ) -> None:
        """`needs` and `levers` are the wrapper's own; those of `inner` are added."""
        self.inner = inner
        self.view = view
        self.edit = edit
        self.needs = inner.needs | needs
        self.levers = levers_of(inner) | levers

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        own: Memory = memory.get("own", {})
        decision = asked(self.inner, self.view(snapshot, own), memory.get("inner", {}))
        within = decision.memory
        decision.grants = [_with_knobs(grant, snapshot.grants.get(grant.job)) for grant in decision.grants]
        if self.edit is not None:
            decision = self.edit(snapshot, decision, own)
        decision.memory = {"own": own, "inner": within}
        return decision


def _with_knobs(grant: Grant, held: Grant | None) -> Grant:
    """`grant` with what it leaves open as in `held`, the grant in force."""
    if held is None:
        return grant
    kept = {name: getattr(held, name) for name in KNOBS if math.isnan(getattr(grant, name))}
    return grant._replace(**kept)


# -- several policies, each asked when it is due -----------------------------------------------------


class WhenDue:
    """Calls `inner` only when it wants to be called; at other moments everything stays as it decided.

    For wrappers that have something to do more often.  The memory is an entry.
    """

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.needs = inner.needs
        self.levers = levers_of(inner)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if memory and not is_due(wake_of(memory), snapshot):
            return Decision(memory, wake=wake_of(memory))
        decision = asked(self.inner, snapshot, memory.get("memory", {}))
        decision.memory = entry_of(decision)
        return decision


def entry_of(decision: Decision) -> Memory:
    """The entry of one of several policies: its memory, and when it wants to be called."""
    wake = decision.wake
    return {
        "memory": decision.memory,
        "wake": {"at_s": float(wake.at_s), "on": int(wake.on), "if_waiting": bool(wake.if_waiting)},
    }


def wake_of(entry: Memory) -> Wake:
    """When the policy of `entry` wants to be called."""
    wake = entry["wake"]
    return Wake(wake["at_s"], Event(wake["on"]), wake["if_waiting"])


def is_due(wake: Wake, snapshot: Snapshot) -> bool:
    """True if a policy with this wake is to be called at the moment that `snapshot` shows it."""
    if wake.if_waiting and not snapshot.waiting_count:
        return False
    if int(snapshot.cause) & int(wake.on) or snapshot.now >= wake.at_s:
        return True
    return bool(snapshot.cause and wake.on & Event.IDLE) and are_idle(snapshot.grants)


def joined(wakes: Iterable[Wake]) -> Wake:
    """The earliest wake of several policies.

    The part that one of them sees may be idle while the whole is not: a policy that waits for that is called
    after any event.
    """
    wakes = list(wakes)
    on = Event.NONE
    for wake in wakes:
        on |= wake.on
    if on & Event.IDLE:
        on |= Event.ANY
    at_s = min((wake.at_s for wake in wakes), default=math.inf)
    return Wake(at_s, on, all(wake.if_waiting for wake in wakes))
