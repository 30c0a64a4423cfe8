"""Joins the decisions of several policies, each for its part of the cluster, and their answers to questions.

A part is a view: its rows are those of the whole, but its devices are numbered from 0.  `together` joins the
decisions.  A policy also answers questions (which jobs are ahead, what it means to give, how it keeps a
deadline) as part of a decision, but not of each one: `LastSaid` keeps the last answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from rota.errors import PolicyError
from rota.model.grants import Reservation
from rota.model.promises import DeadlinePlan
from rota.scheduler.decision import Decision, Memory, Ranking, Wake
from rota.scheduler.targets import Targets
from rota.stages.shown_ranking import Shown, shown_ranking
from rota.table.view import View


def together(
    memory: Memory,
    decisions: list[tuple[View, Decision]],
    reject: dict[int, str],
    wake: Wake,
    in_force: tuple[Reservation, ...],
) -> Decision:
    """One decision that says what all of them say, in the numbers of the whole cluster."""
    joined = Decision(memory, reject=reject, wake=wake)
    leaves = {decision.leave for _, decision in decisions if decision.preempt}
    if len(leaves) > 1:
        raise PolicyError("the parts of a cluster preempt in different ways; expected one way at a time")
    joined.leave = leaves.pop() if leaves else joined.leave
    joined.grants = [part.outward(grant) for part, decision in decisions for grant in decision.grants]
    joined.preempt = [row for _, decision in decisions for row in decision.preempt]
    joined.is_cut = any(decision.is_cut for _, decision in decisions)
    for name in ("reject", "offers", "promises", "cancel", "reasons"):
        said = [getattr(decision, name) for _, decision in decisions]
        if any(said):
            setattr(joined, name, {k: v for d in (getattr(joined, name), *said) for k, v in d.items()})
    joined.reservations = _reserved(decisions, in_force)
    return joined


def _reserved(
    decisions: list[tuple[View, Decision]], in_force: tuple[Reservation, ...]
) -> list[Reservation] | None:
    """Reservations of the parts that changed theirs, and the present ones of the others."""
    changed = [(part, d.reservations) for part, d in decisions if d.reservations is not None]
    if not changed:
        return None
    touched = {device for part, _ in changed for device in part.outer}
    kept = [r for r in in_force if touched.isdisjoint(r.devices)]
    new = [
        r._replace(devices=tuple(part.outer[d] for d in r.devices))
        for part, reservations in changed
        for r in reservations
    ]
    return kept + new


# -- answers to questions ----------------------------------------------------------------------------


class LastSaid:
    """What the policy of each part said last; a cache, which changes no decision when it is dropped."""

    def __init__(self) -> None:
        self._decisions: dict[str, tuple[View, Decision]] = {}
        self._targets: dict[str, tuple[Mapping[int, float], str]] = {}

    def note(self, name: str, part: View, decision: Decision) -> None:
        """The policy of the part `name` has decided."""
        before = self._decisions.get(name)
        if decision.plan_of is None and before is not None:
            decision.plan_of = before[1].plan_of
        self._decisions[name] = part, decision
        if decision.targets is not None:
            self._targets[name] = decision.targets, decision.target

    def tell(self, joined: Decision) -> None:
        """Let `joined`, the decision for the whole, answer what the policies of its parts can."""
        said = list(self._decisions.values())
        ranked = [(part, one.ranking) for part, one in said if one.ranking is not None]
        joined.ranking = shown_ranking([_shown(*one) for one in ranked]) if ranked else None
        joined.plan_of = self._plan_of if any(one.plan_of is not None for _, one in said) else None
        planned = [one.ends for _, one in said if one.ends is not None]
        joined.ends = {row: at_s for ends in planned for row, at_s in ends.items()} if planned else None
        known = [one.guaranteed for _, one in said if one.guaranteed is not None]
        joined.guaranteed = joined.guaranteed if not known else frozenset().union(*known)
        if self._targets:
            values = [targets for targets, _ in self._targets.values()]
            joined.targets = Targets(lambda: {row: value for part in values for row, value in part.items()})
            joined.target = next(iter(self._targets.values()))[1]

    def _plan_of(self, row: int) -> DeadlinePlan | None:
        """How the policy that serves `row` means to keep its deadline."""
        for _, decision in self._decisions.values():
            plan = None if decision.plan_of is None else decision.plan_of(row)
            if plan is not None:
                return plan
        return None


def _shown(part: View, ranking: Ranking) -> Shown:
    """The answers of `ranking` about the jobs of its part."""
    return Shown(ranking, lambda moment: moment.seen_as(part), lambda row: _is_in(part, row))


def _is_in(part: View, row: int) -> bool:
    """True if `row` was in `part` when it was last shown; the policy may since have made it leave."""
    return row in part.waiting or row in part.running
