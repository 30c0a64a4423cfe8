"""ElasticFlow — admit a job only if its deadline can be kept, and keep it with as few GPUs as will do.

Paper     Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning",
          ASPLOS 2023
Decides   admission, number of GPUs over time, preemption, placement
Needs     speed of each job by number of GPUs; durations
Idea      1. The least share of a job: the smallest level of GPUs that is done by its deadline, in each slot
             as many of that level as jobs with earlier deadlines leave free.
          2. A job is admitted if all promised jobs and it have least shares, by deadline; else it is refused,
             or offered the earliest deadline that could be promised (ours).
          3. GPUs that no promise needs now go, step by step, to the job that loses least GPU time by them;
             jobs without GPUs come first, jobs without a deadline among them.
          4. Numbers of GPUs are powers of two and so are nodes: whatever was promised can be placed, if
             need be by moving small jobs together.
Departs   Of jobs that come at once, those due first are tried first (in the paper, one by one).  A change of
          GPUs is planned as a stop of `restart_s`, in addition to the margin of a slot (ours).  A job that
          has just moved to other GPUs keeps their number for a slot (ours).  Return is GPU time saved, as the
          paper says; the published code prefers the opposite (`elasticflow@authors`).  A job with several
          deadlines is promised the first that can be kept, and never refused.  Nor is a job refused that was
          admitted once: back from a pause it is promised what can be kept beside the others.  A job whose
          deadline is moved keeps its promise until the new one can be kept beside the others (ours).  A job
          without a promise has what is left, until its deadline can be promised after all (ours).  A job that
          cannot be in time any more, by faults, pauses or because it was longer than known, comes after all
          that can.  The cluster is assumed to have one type: on several a job gets the first type where its
          share fits, and GPUs that some jobs cannot use there go to others.  Plans and promises respect hard
          quotas (ours).  Slots are those of the clock, so that a plan can be made again inside one (ours).
Checked   systems/elasticflow.md, worked examples 1 to 4; that no admitted job is late while nothing fails;
          naive code, 1,500 scenes
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Code, Constraint, Grant
from rota.model.promises import TOLERANCE_S, Offer, Promise
from rota.model.units import format_duration
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import GPUS
from rota.stages.buddy import buddy, carry_out_whole
from rota.stages.fit import FitterWithin
from rota.stages.plenty import Plenty, start_beside
from rota.stages.quota_caps import caps_of
from rota.stages.resize import MAKES_PLACE, Settled
from rota.stages.sizes import TRIES, on_closed, remember_nothing_new, short_of, sizes_now
from rota.systems.elasticflow.admitted import admitted_before, not_promised, promised_anew, promised_before
from rota.systems.elasticflow.asks import KnownLevels, ShareAsk, asks_of, powers_of
from rota.systems.elasticflow.parameters import ElasticFlowParameters
from rota.systems.elasticflow.promises import Planner, Promised, aimed
from rota.systems.elasticflow.surplus import Surplus
from rota.systems.elasticflow.unpromised import Unpromised

_LEFT_OVER = Constraint(
    Code.POLICY, detail="promised deadlines, and others who make more of them, take all GPUs for now"
)
_PLANNED = Constraint(Code.POLICY, detail="its deadline is kept by starting later")


@register(
    "elasticflow",
    "Deadlines promised or refused, kept with the least GPUs that keep them",
    paper="ElasticFlow, ASPLOS 2023",
    needs={Knowledge.SCALING, Knowledge.DURATION},
    levers={
        Lever.PREEMPT: True,
        Lever.RESIZE: True,
        Lever.MIGRATE: True,
        Lever.REJECT: lambda p: p.refuse,
    },
    parameters=ElasticFlowParameters,
    heeds_deadlines=True,
    promises=True,
    work_conserving=False,
)
class ElasticFlow:
    """Minimum satisfactory shares, admission, elastic surplus, buddies.

    Memory    `rows`     live rows that were tried for admission
              `due_s`    the deadline each of them was promised; infinite if none
              `at_risk`  rows whose promise was reported as not expected to be kept
              `late`     rows whose promise was broken, and has not been made again
              `no_place` the moment, rows that find no place for more than a number of GPUs, and their
                         share, if there are any
              `paused`   rows that were admitted and are held now, if there are any
    """

    def __init__(self, parameters: ElasticFlowParameters | None = None) -> None:
        self.parameters = parameters or ElasticFlowParameters()
        self._known = KnownLevels()
        self._plenty = Plenty(self._most_of)
        self._unpromised = Unpromised()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if (decision := self._at_most(snapshot, memory)) is not None:
            return decision
        sizes = sizes_now(snapshot, memory, 0.0)
        slot_s = self.parameters.slot_s
        origin_s = math.floor(snapshot.now / slot_s) * slot_s
        closed = set(on_closed(snapshot))
        min_run_s = self.parameters.min_run_s
        every = asks_of(snapshot, sizes, self._known, origin_s, slot_s, min_run_s=min_run_s)
        asks = [ask for ask in every if ask.row not in closed]
        stay = sum(ask.held for ask in asks if not ask.bears_stops)
        caps = caps_of(snapshot, np.array([ask.row for ask in asks], dtype=np.int64))
        planner = Planner(sizes.gpus + stay, (snapshot.now - origin_s) / slot_s, self.parameters, asks, caps)
        begun_s = min((origin_s + ask.stays * slot_s for ask in asks if ask.stays), default=math.inf)
        before = dict(zip(memory.get("rows", ()), memory.get("due_s", ()), strict=True))
        admitted_once = admitted_before(snapshot, memory)
        apart = self._apart(memory, [ask for ask in every if ask.row in closed], origin_s)
        admitted, refused = self._sort(memory, planner, asks, origin_s, admitted_once)
        promised = planner.plan([ask for ask in admitted if ask.due < math.inf])
        memory["late"] = sorted(promised.broken)
        others = [ask.as_it_is() if ask.stays else ask for ask in admitted if ask.due == math.inf]
        every_promise = promised.beside(planner.alone([ask for ask in apart if ask.due < math.inf]))
        memory["rows"] += [ask.row for ask in apart]
        memory["due_s"] += [origin_s + ask.due * slot_s for ask in apart]
        shares, grants, preempt = self._settled(snapshot, memory, planner, promised, others, apart)
        offers = self._offers(snapshot.now, origin_s, planner, promised, refused)
        reject = {ask.row: self._refusal(planner, promised, ask) for ask in refused if ask.row not in offers}
        planned = {ask.row for ask in promised.asks if ask.row not in promised.broken}
        reasons = {
            row: _PLANNED if row in planned else _LEFT_OVER for row, gpus in shares.items() if not gpus
        }
        return Decision(
            memory,
            grants,
            preempt,
            reject=reject,
            reasons=reasons,
            offers=offers,
            promises=self._promises(memory, before, every_promise, origin_s),
            wake=self._wake(origin_s, promised, min(sizes.again_s, begun_s)),
            plan_of=lambda row: every_promise.plan_of(row, origin_s, slot_s),
            targets=shares,
            target=GPUS,
        )

    def _at_most(self, snapshot: Snapshot, memory: Memory) -> Decision | None:
        """The decision where no job has a promise and each can have all that it can use; None elsewhere.

        It equals the result of planning for all jobs: all steps are taken, in whatever order.
        """
        p, plenty = self.parameters, self._plenty
        if not p.surplus or p.min_run_s or memory.get("refused") or not plenty.holds(snapshot):
            return None
        tried = self._unpromised.tried(snapshot, memory, plenty.most, plenty.changed)
        if tried is None:
            return None
        grants: list[Grant] | None = []
        if snapshot.waiting_count:
            shares = {row: plenty.most[row] for row in snapshot.waiting.tolist()}
            grants = start_beside(FitterWithin(snapshot, buddy), snapshot, shares)
        if grants is None:
            return None
        remember_nothing_new(snapshot, memory)
        memory.pop("no_place", None)
        self._unpromised.write(memory, *tried)
        targets, wake = plenty.targets(), Wake(math.inf, Event.ANY)
        return Decision(
            memory, sorted(grants), [], wake=wake, plan_of=lambda row: None, targets=targets, target=GPUS
        )

    def _most_of(self, snapshot: Snapshot, row: int) -> int:
        """GPUs of `row` at its highest level."""
        counts = powers_of(feasible_counts(snapshot.jobs.table, row))
        scaling = snapshot.know(Knowledge.SCALING)
        (levels,) = self._known.of(scaling, np.array([row]), [counts], self.parameters.slot_s)
        return levels.most

    def _apart(self, memory: Memory, asks: list[ShareAsk], origin_s: float) -> list[ShareAsk]:
        """Jobs that run on a drained node go on there to their end, outside the plan."""
        slot_s = self.parameters.slot_s
        known = dict(zip(memory.get("rows", ()), memory.get("due_s", ()), strict=True))
        return [
            promised_before(ask, (known[ask.row] - origin_s) / slot_s, slot_s)
            if ask.row in known
            else aimed(ask, 0)
            for ask in asks
        ]

    def _sort(
        self, memory: Memory, planner: Planner, asks: list[ShareAsk], origin_s: float, stays: set[int]
    ) -> tuple[list[ShareAsk], list[ShareAsk]]:
        """Live jobs with the deadline each is planned for, and the refused jobs, none of `stays`."""
        known = dict(zip(memory.get("rows", ()), memory.get("due_s", ()), strict=True))
        slot_s, late = self.parameters.slot_s, memory.get("late", ())
        standing = [
            promised_before(ask, (known[ask.row] - origin_s) / slot_s, slot_s, is_late=ask.row in late)
            for ask in asks
            if ask.row in known
        ]
        admitted = promised_anew(planner, standing)
        fresh = sorted((ask for ask in asks if ask.row not in known), key=lambda ask: (ask.submit_s, ask.row))
        # A job that runs when this policy takes over cannot be sent away for it.
        admitted += [aimed(ask, 0) for ask in fresh if ask.held or not ask.dues]
        new = [ask for ask in fresh if ask.dues and not ask.held]
        accepted, failed = planner.admit([ask for ask in admitted if ask.due < math.inf], new)
        refused = [ask for ask in failed if self.parameters.refuse and not ask.is_soft]
        refused = [ask for ask in refused if ask.row not in stays]
        gone = {ask.row for ask in refused}
        staying = [ask for ask in failed if ask.row not in gone]
        admitted += accepted + [not_promised(ask, was_promised=ask.row in stays) for ask in staying]
        memory["rows"] = [ask.row for ask in admitted]
        memory["due_s"] = [origin_s + ask.due * slot_s for ask in admitted]
        return admitted, refused

    def _settled(
        self,
        snapshot: Snapshot,
        memory: Memory,
        planner: Planner,
        promised: Promised,
        others: list[ShareAsk],
        apart: list[ShareAsk],
    ) -> Settled:
        """Shares; on several types or unlike nodes, GPUs on which some jobs find no place go to others.

        For reports, the jobs without a place keep the share that they were meant to have.
        """
        stays = {ask.row for ask in [*promised.asks, *others] if ask.stays}
        at_s, known = memory.pop("no_place", (-math.inf, ()))
        is_asked_again = at_s == snapshot.now and not snapshot.cause & MAKES_PLACE
        most = {row: has for row, has, _ in known if is_asked_again}
        meant = {row: share for row, _, share in known if is_asked_again}
        for _ in range(TRIES):
            shares = self._shares(snapshot, planner, promised, others, most)
            shares |= {ask.row: ask.held for ask in apart}
            grants, preempt = carry_out_whole(snapshot, shares, stays)
            short = short_of(snapshot, shares, grants)
            if not short:
                break
            most |= short
            meant = {row: shares[row] for row in short} | meant
        if most:
            memory["no_place"] = [snapshot.now, [[row, most[row], meant[row]] for row in sorted(most)]]
        return shares | meant, grants, preempt

    def _shares(
        self,
        snapshot: Snapshot,
        planner: Planner,
        promised: Promised,
        others: list[ShareAsk],
        most: Mapping[int, int],
    ) -> dict[int, int]:
        """GPUs of each row from now on."""
        surplus = Surplus(planner, promised, others, most)
        fixed = [ask for ask in [*promised.asks, *others] if ask.stays or not ask.bears_stops]
        surplus.keep({ask.row: ask.held for ask in fixed})
        if self.parameters.surplus:
            since_s = snapshot.jobs.placed_s
            fresh = [ask for ask in [*promised.asks, *others] if ask.held]
            young = [ask for ask in fresh if snapshot.now < since_s[ask.row] + self.parameters.slot_s]
            surplus.keep({ask.row: ask.held for ask in young})
            surplus.hand_out()
        else:
            surplus.begin()
        return surplus.shares()

    def _wake(self, origin_s: float, promised: Promised, again_s: float) -> Wake:
        """At any event, when a plan changes the number of GPUs of a job, or one may be changed again."""
        change = min((plan.change for plan in promised.plans), default=math.inf)
        return Wake(min(origin_s + change * self.parameters.slot_s, again_s), Event.ANY)

    def _offers(
        self, now: float, origin_s: float, planner: Planner, promised: Promised, refused: list[ShareAsk]
    ) -> dict[int, Offer]:
        """A later deadline for each of `refused` that has one, such that it can be taken for `offer_s`."""
        offer_s, slot_s = self.parameters.offer_s, self.parameters.slot_s
        offers: dict[int, Offer] = {}
        for ask in refused if offer_s else ():
            end = planner.earliest(promised, ask, offer_s / slot_s)
            if ask.dues[-1] < end < math.inf:
                why = self._refusal(planner, promised, ask)
                offers[ask.row] = Offer(origin_s + math.ceil(end) * slot_s, now + offer_s, why)
        return offers

    def _promises(
        self, memory: Memory, before: dict[int, float], promised: Promised, origin_s: float
    ) -> dict[int, Promise]:
        """New promises, compared with `before`, and promises at risk now, or until now."""
        slot_s, were_at_risk = self.parameters.slot_s, set(memory.get("at_risk", ()))
        made: dict[int, Promise] = {}
        at_risk = []
        for ask, plan in zip(promised.asks, promised.plans, strict=True):
            promise = Promise(origin_s + ask.due * slot_s, origin_s + plan.end * slot_s)
            if promise.is_at_risk:
                at_risk.append(ask.row)
            is_new = abs(promise.due_s - before.get(ask.row, -math.inf)) > TOLERANCE_S
            if is_new or promise.is_at_risk is not (ask.row in were_at_risk):
                made[ask.row] = promise
        memory["at_risk"] = sorted(at_risk)
        return made

    def _refusal(self, planner: Planner, promised: Promised, ask: ShareAsk) -> str:
        """Why `ask` cannot be promised its deadline, and which one could be."""
        end = planner.earliest(promised, ask)
        if end == math.inf:
            return "its deadline cannot be kept: all GPUs it could use are promised to others"
        late_s = (end - ask.dues[-1]) * self.parameters.slot_s
        if late_s <= 0.0:
            return "its deadline cannot be kept without breaking one that was promised before"
        in_s = (end - planner.now) * self.parameters.slot_s
        return (
            f"its deadline cannot be kept beside those that were promised: it could be done in "
            f"{format_duration(in_s)}, {format_duration(late_s)} too late"
        )
