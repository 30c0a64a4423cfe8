"""The one loop that drives every world: events → state → snapshot → decide → guard → apply → record."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rota.errors import GuardError, PolicyError
from rota.knowledge.needs import Knowledge, Known, Provider
from rota.model.columns import Row
from rota.model.grants import Grant, Purpose, are_idle, is_adjustment, is_same_claim, with_one_nan
from rota.model.promises import Offer
from rota.model.reasons import Code, Constraint
from rota.scheduler.asking import asked, check_memory, is_ours
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.guard.check import Breach, check, is_plainly_sound
from rota.scheduler.guard.host_memory import put_out
from rota.scheduler.guard.levers import check_levers
from rota.scheduler.guard.partial import sound_part
from rota.scheduler.policy import Lever, Policy
from rota.scheduler.reasons.first import next_round
from rota.scheduler.recorder import Recorder
from rota.scheduler.snapshot import RunSeed, Snapshot
from rota.scheduler.snapshot_jobs import SnapshotJobs
from rota.scheduler.world import Batch, Change, Ended, How, LoopCounts, Lost, Refusal, World
from rota.table.attempt_ends import note_failure, phase_of_refused
from rota.table.state import Phase, State

# Looking a member up on its class costs more than the comparison it is for.
_PENDING: Final = Phase.PENDING
_COMPLETED: Final = Phase.COMPLETED
_FAILED: Final = How.FAILED
_PREEMPTED: Final = How.PREEMPTED
_MIGRATED: Final = How.MIGRATED
_PROFILED: Final = int(Event.PROFILE)
_NOT_A_RUN: Final = Purpose.PROFILE
_END: Final = int(Event.END)
_IDLE: Final = int(Event.IDLE)
_HASTE: Final = 50.0
"""Most calls of the policy within `retry_s` after a refusal, besides those that events cause."""

Rules = Callable[[State, Decision], Sequence[Breach]]
"""What a world forbids beyond the guard's rules."""


class Loop:
    """Drives `world` with `policy` until nothing more happens, or until `until_s`."""

    def __init__(
        self,
        world: World,
        policy: Policy,
        recorder: Recorder,
        *,
        providers: Mapping[Knowledge, Provider] | None = None,
        memory: Memory | None = None,
        seed: int = 0,
        strict: bool = True,
        retry_s: float = 30.0,
        rules: Rules | None = None,
        state: State | None = None,
        wake: Wake | None = None,
    ) -> None:
        self.world = world
        self.policy = policy
        self.recorder = recorder
        self.memory: Memory = memory if memory is not None else {}
        self.seed = RunSeed(seed)
        self.strict = strict
        """True if a breach of a rule is an error, as in a simulation; False to carry out the sound part."""
        self.retry_s = retry_s
        """Seconds after which the policy is called again when part of its decision was refused."""
        self.rules = rules
        """Further rules of a live world: a breach is refused as one of the guard's rules is."""
        self.state = state if state is not None else State(world.jobs, world.cluster, world.progress)
        self._is_plain = False
        """True if the present decision only starts, preempts and moves jobs that ask for GPUs alone."""
        self.counts = LoopCounts()
        self.wake = wake or Wake()
        self._wake_on = int(self.wake.on)
        self.said: Mapping[int, Constraint] = {}  # why jobs wait, by the policy's last decision
        self._levers: frozenset[Lever] | None = getattr(policy, "levers", None)
        """The levers that the policy declares; None if it declares none and may use any."""
        self._may_preempt = self._levers is None or Lever.PREEMPT in self._levers
        self._noted = len(self.state.log)
        """Position up to which the state's log has been read for jobs that begin to wait."""
        self.providers = {k: p for k, p in (providers or {}).items() if k in policy.needs}
        _refuse_missing(policy, self.providers)
        for provider in self.providers.values():
            provider.attach(self.state)
        self._known: dict[Knowledge, Known] | None = None
        self._learning = any(provider.learns for provider in self.providers.values())
        self._listeners = [provider for provider in self.providers.values() if provider.listens]
        self._jobs = SnapshotJobs(self.state)
        self._may_be_unstorable = strict and not is_ours(policy)
        self._adjusted: dict[int, tuple[Grant, float, Lost]] = {}
        """Jobs that the present decision adjusts in place: what they held, since when, and the cost."""
        self._profiled = False
        """True if a grant to measure has ended since the policy was last asked."""
        world.attach(self.state)
        if self._listeners:
            self._listen()

    # -- one pass --------------------------------------------------------------------------------

    def run(self, until_s: float = math.inf, most: int = 1 << 62) -> bool:
        """Run until no event is left, until `until_s`, or for `most` moments; true if there is more."""
        while most and self.step(until_s):
            most -= 1
        return not most

    def step(self, until_s: float = math.inf) -> bool:
        """Process one moment: what happened, and the decision if the policy is due to be called."""
        batch = self.world.next(min(self._alarm(), until_s))
        if batch is None or batch.now > until_s:
            return False
        self.counts.events += 1
        self._absorb(batch)
        if self._listeners:
            self._listen()
        if self._profiled and batch.cause:
            batch.cause |= _PROFILED
        if self._is_due(batch.cause):
            self._decide(batch)
        return batch.now < until_s

    def _alarm(self) -> float:
        """When the policy wants to be woken, whatever happens."""
        wake = self.wake
        return math.inf if wake.if_waiting and not self.state.waiting.n else wake.at_s

    def _is_due(self, cause: int) -> bool:
        wake = self.wake
        if not cause or (wake.if_waiting and not self.state.waiting.n):
            return False  # a batch without a cause brings the state up to date, nothing more
        is_called = bool(cause & self._wake_on) or self.state.now >= wake.at_s
        return is_called or bool(self._wake_on & _IDLE and are_idle(self.state.grants))

    # -- events ----------------------------------------------------------------------------------

    def _absorb(self, batch: Batch) -> None:
        """Apply completions, then losses, then what came back, then withdrawals and arrivals."""
        self.state.now = batch.now
        for ended in batch.ended:
            self._end(ended)
        if batch.lost or batch.back or batch.drained or batch.closed or batch.opened:
            self._change_capacity(batch)
        if batch.withdrawn or batch.settled:
            self._withdraw(batch)
        if batch.held:
            self._hold(batch)
        else:
            for row in batch.arrived:
                self._arrive(row, None)
        if batch.released or batch.accepted:
            self._release(batch)

    def _change_capacity(self, batch: Batch) -> None:
        """Apply lost nodes, then returned ones; then nodes and devices that close or open to new jobs."""
        for node in batch.lost:
            self._lose(node)
        for node in batch.back:
            self.state.regain(node)
        for node in batch.drained:
            self.state.lose(node)
        if batch.closed:
            self.state.close(batch.closed)
        if batch.opened:
            self.state.open(batch.opened)

    def _withdraw(self, batch: Batch) -> None:
        """End jobs that are waiting or held."""
        state = self.state
        self._note_unseen((*batch.withdrawn, *[row for row, _ in batch.settled]))
        for row in batch.withdrawn:
            state.withdraw(row, Phase.CANCELLED)
            self.recorder.left(row, Phase.CANCELLED, state.now)
        for row, phase in batch.settled:
            state.withdraw(row, phase)
            self.recorder.left(row, phase, state.now)

    def _release(self, batch: Batch) -> None:
        """Held jobs that wait for devices from now on."""
        for row in batch.released:
            self.state.release(row)
        for row, deadline_s in batch.accepted:
            self.state.accept(row, deadline_s)

    def _hold(self, batch: Batch) -> None:
        """Hold some of the arriving or waiting jobs."""
        held = dict(batch.held)
        for row in batch.arrived:
            self._arrive(row, held.pop(row, None))
        for row, why in held.items():
            self.state.hold(row, why)

    def _arrive(self, row: int, why_held: str | None) -> None:
        if why_held is not None:
            self.state.submit_held(row, why_held)
        elif not self.state.submit(row):
            self.recorder.left(row, Phase.REJECTED, self.state.now)
        if self._learning:
            for provider in self.providers.values():
                provider.submitted(row)

    def _end(self, ended: Ended) -> None:
        row, state = ended.row, self.state
        if ended.how is _FAILED:
            note_failure(state, row)
        self._stop(row, ended.how, ended.phase, ended.at_s)
        if self._learning and ended.phase is _COMPLETED:
            for provider in self.providers.values():
                provider.ended(row, state.run_s.item(row))

    def _stop(
        self,
        row: Row,
        how: How,
        phase: Phase,
        at_s: float | None = None,
        why: str = "",
    ) -> Grant:
        """The job gives everything back; its interval, which ended at `at_s` or now, is recorded."""
        state = self.state
        start = state.held_since_s(row)
        end = state.now if at_s is None else min(state.now, max(start, at_s))
        lost = self.world.stopped(row, how)
        state.free(row)
        grant = state.stop(row, phase, end)
        if grant[7] is _NOT_A_RUN:
            self._profiled = True
        self.recorder.interval(grant, start, end, how, lost)
        if phase is not _PENDING:
            self.recorder.left(row, phase, state.now, why)
        return grant

    def _lose(self, node: int) -> None:
        """Requeue the jobs on the node, then remove the node."""
        occupancy = self.state.occupancy
        for row in self.state.running.sorted().tolist():
            if any(part == node for part, _ in occupancy.parts(self.state.grants[row])):
                self._stop(row, How.LOST, Phase.PENDING)
        self.state.lose(node)

    # -- decisions -------------------------------------------------------------------------------

    def snapshot(self, cause: int = 0) -> Snapshot:
        """What the policy sees now."""
        if self._known is None or self._learning:
            self._known = {k: Known(p.known(), p.provenance) for k, p in self.providers.items()}
        if self._jobs.table is not self.state.jobs:
            self._jobs = SnapshotJobs(self.state)
        return Snapshot(self.state, cause, self._known, self.policy.needs, self.seed, self._jobs)

    def _listen(self) -> None:
        """Pass observations of running jobs to the providers; a world records them from the first call on."""
        seen = self.world.observed()
        if seen:
            for provider in self._listeners:
                provider.observed(seen)

    def _decide(self, batch: Batch) -> None:
        snapshot = self.snapshot(batch.cause)
        self._profiled = False
        self.state.occupancy.take_back()
        decision = asked(self.policy, snapshot, self.memory)
        self.counts.decisions += 1
        if self._may_be_unstorable:
            check_memory(decision.memory, self.counts.decisions)
        if self.state.refused:
            self.state.refused = {}
        if self.rules is not None or not decision.names_nobody:
            breaches = self._breaches(decision)
            if breaches:
                decision = self._handle(breaches, decision)
        self._note_waits(snapshot, decision, batch)
        if decision.wake.at_s <= self.state.now:
            decision = self._handle_late_wake(decision)
        self.memory, self.said = decision.memory, decision.reasons
        self.wake, self.state.ends = decision.wake, decision.ends
        self._wake_on = int(decision.wake.on)
        if decision.promises:
            for row, promise in decision.promises.items():
                self.recorder.promised(row, promise)
        if decision.names_nobody and decision.wanted_nodes is None:
            return
        held = len(self.state.held)
        self._adopt(decision)
        if decision.wanted_nodes is not None:
            self.world.scale(decision.wanted_nodes)
        self._follow_up(_END * (len(self.state.held) < held) | _PROFILED * self._profiled)

    def _follow_up(self, cause: int) -> None:
        """Effects of a decision are events too: jobs released by ending others, measurements."""
        if not cause:
            return
        if cause & _PROFILED and self._listeners:
            self._listen()
        if self._is_due(cause):
            self._decide(Batch(self.state.now, cause))

    def _breaches(self, decision: Decision) -> Sequence[Breach]:
        """The breaches of `decision`; most decisions are sound and take a single check."""
        self._is_plain = is_plainly_sound(self.state, decision)
        if not self._is_plain:
            decision.grants = [with_one_nan(grant) for grant in decision.grants]
            return self._check(self.state, decision)
        held = self.state.grants
        moves = any(grant[0] in held for grant in decision.grants)
        if moves or decision.preempt or self.rules is not None:
            return self._check_further(self.state, decision)
        return ()

    def _handle(self, breaches: Sequence[Breach], decision: Decision) -> Decision:
        """In a simulation a breach is an error; live, refuse the offending parts and what depends on them."""
        if self.strict:
            first = breaches[0]
            more = f" (and {len(breaches) - 1} more)" if len(breaches) > 1 else ""
            raise GuardError(first.rule, f"at {self.state.now:,.12g} s, {first.message}{more}")
        self._is_plain = False
        decision, refused = sound_part(self.state, decision, self._check)
        for breach in refused:
            self._note_refusal(breach.job, breach.message, breach.rule)
        return replace(decision, wake=self._again(decision.wake, refused))

    def _again(self, wake: Wake, refused: Sequence[Breach]) -> Wake:
        """`wake`, but not later than what was refused may be asked for again."""
        cured = [breach.until_s for breach in refused if breach.until_s > self.state.now]
        return Wake(min(self._unhurried(wake), *cured), wake.on) if cured else self._soon(wake)

    def _check(self, state: State, decision: Decision) -> list[Breach]:
        """The guard's breaches of `decision` or, if there are none, those of further rules."""
        return check(state, decision) or self._check_further(state, decision)

    def _check_further(self, state: State, decision: Decision) -> list[Breach]:
        """Breaches of the policy's declared levers, then of the world's rules."""
        breaches = [] if self._levers is None else check_levers(state, decision, self._levers)
        if breaches or self.rules is None:
            return breaches
        return list(self.rules(state, decision))

    def _handle_late_wake(self, decision: Decision) -> Decision:
        """In a simulation a wake-up in the past is an error; live, the next try comes soon."""
        asked = decision.wake.at_s
        if self.strict:
            raise PolicyError(
                f"{type(self.policy).__name__} asks to be woken at {asked:,.12g} s, "
                f"which is not after now ({self.state.now:,.12g} s)"
            )
        return replace(decision, wake=Wake(self.state.now + self.retry_s, decision.wake.on))

    def _note_refusal(self, row: int, why: str, rule: str) -> None:
        """The next snapshot says what became of the decision."""
        self.state.refused[row] = why
        self.counts.refused += 1
        self.counts.by_rule[rule] = self.counts.by_rule.get(rule, 0) + 1

    def _soon(self, wake: Wake) -> Wake:
        """`wake`, but not later than the next try."""
        return Wake(min(self._unhurried(wake), self.state.now + self.retry_s), wake.on)

    def _unhurried(self, wake: Wake) -> float:
        """The moment of `wake`, but not at once.

        The policy counted on what was refused.  One that means to let a job run for a millisecond would be
        called every millisecond, for the same answer, until something happens.
        """
        now = self.state.now
        return max(wake.at_s, now + self.retry_s / _HASTE) if wake.at_s > now else wake.at_s

    def _note_waits(self, snapshot: Snapshot, decision: Decision, batch: Batch) -> None:
        """Record why jobs wait, at the first decision that sees each wait and leaves it waiting.

        A job that this decision starts, and that came before this moment, has waited for the round that
        begins now.
        """
        state, begin = self.state, self._noted
        self._noted = len(state.log)
        if begin == self._noted or not state.waiting.n:
            return
        waiting, log = state.waiting, state.log
        fresh = [row for row in log[begin:] if row in waiting and not state.has_started(row)]
        if fresh:
            started = {grant[0] for grant in decision.grants}
            for row in fresh:
                if row not in started:
                    self.recorder.waits(snapshot, decision, row)
                elif state.jobs.submit_s.item(row) < state.now and not _comes_free(
                    batch, row, state.jobs.after.get(row, ())
                ):
                    self.recorder.awaits_round(row, self._round(row, state.now))

    def _note_unseen(self, rows: Iterable[int]) -> None:
        """Record that the `rows` that no decision has seen were waiting for the next round."""
        state = self.state
        unseen = set(state.log[self._noted :]) if rows else ()
        for row in rows:
            if row in unseen and row in state.waiting and not state.has_started(row):
                self.recorder.awaits_round(row, self._round(row, self._alarm()))

    def _round(self, row: int, begins_s: float) -> Constraint:
        return next_round(begins_s, begins_s - self.state.jobs.submit_s.item(row))

    def _adopt(self, decision: Decision) -> None:
        """Make the state what the decision says: release first, then acquire."""
        state = self.state
        if decision.reservations is not None:
            state.reservations = tuple(decision.reservations)
        changes: list[Change] = []
        limited = state.special and decision.grants and not self._is_plain  # else no job asks for memory
        out = put_out(state, decision, self.world) if limited else ()
        changes += [Change(row, None, None, stays=False) for row in out if row not in state.running]
        for row in decision.preempt:
            state.count_preemption(row)
            grant = self._stop(row, _PREEMPTED, _PENDING)
            changes.append(Change(row, grant, None, decision.leave, row not in out))
        if decision.reject or decision.cancel:
            for row, why in (*decision.reject.items(), *decision.cancel.items()):
                phase = phase_of_refused(state, row) if row in decision.reject else Phase.CANCELLED
                self._remove(row, phase, why, changes)
        if decision.offers:
            self._offer(decision.offers)
        if decision.grants:
            self._acquire(decision.grants, changes)
        if changes:
            refusals = self.world.apply(changes)
            if refusals:
                self._take_back(refusals, changes)
            if self._adjusted:
                self._record_adjustments()

    def _take_back(self, refusals: Sequence[Refusal], changes: Sequence[Change]) -> None:
        """Undo what the world refused: the jobs wait, and the policy is called again soon."""
        before = {change.row: change.old for change in changes if change.new is not None}
        for row, why in refusals:
            self._note_refusal(row, why, "world")
            old = before[row]
            if row in self._adjusted:
                old, since_s, _ = self._adjusted.pop(row)
                self.state.adjust(old, since_s)  # it goes on as it was
            else:
                self.state.take_back(row, has_run=old is not None)
        self.wake = self._soon(self.wake)

    def _remove(self, row: int, phase: Phase, why: str, changes: list[Change]) -> None:
        if row in self.state.running:
            changes.append(Change(row, self._stop(row, How.CANCELLED, phase, why=why), None))
        else:
            self.state.withdraw(row, phase)
            self.recorder.left(row, phase, self.state.now, why)

    def _offer(self, offers: Mapping[int, Offer]) -> None:
        """Hold jobs that are offered a later deadline until their users have answered."""
        for row, offer in offers.items():
            self.state.hold(row, Constraint(Code.OFFERED, offer.deadline_s, offer.until_s, offer.why).note())
            self.recorder.offered(row, offer)
        self.world.offer(offers)

    def _acquire(self, grants: Sequence[Grant], changes: list[Change]) -> None:
        """Moves release everything they hold before any of them, or any start, acquires."""
        state = self.state
        moves = [grant for grant in grants if grant[0] in state.grants]
        if moves:
            moves = [grant for grant in moves if state.grants[grant.job] != grant]
            moves = self._adjust(moves, changes)
            for grant in moves:
                self._record_change(grant)
                state.free(grant.job)
            changes += [Change(grant.job, state.change(grant), grant) for grant in moves]
        for grant in grants:
            if grant[0] not in state.grants:
                state.start(grant)
                changes.append(Change(grant[0], None, grant))

    def _adjust(self, grants: Sequence[Grant], changes: list[Change]) -> list[Grant]:
        """The `grants` that claim something else; the others affect no other job, and are adjusted."""
        state, moves = self.state, []
        for grant in grants:
            old = state.grants[grant.job]
            if is_same_claim(old, grant):
                self._note_profile(old, grant)
                lost = self.world.stopped(grant.job, How.ADJUSTED)
                self._adjusted[grant.job] = old, state.held_since_s(grant.job), lost
                state.adjust(grant, state.now)
                changes.append(Change(grant.job, old, grant))
            else:
                moves.append(grant)
        return moves

    def _record_adjustments(self) -> None:
        """Record what was held until the adjustments that the world has carried out."""
        for old, since_s, lost in self._adjusted.values():
            self.recorder.interval(old, since_s, self.state.now, How.ADJUSTED, lost)
        self._adjusted.clear()

    def _record_change(self, grant: Grant) -> None:
        """The job of `grant` holds something else from now on."""
        state, row = self.state, grant.job
        old = state.grants[row]
        if is_adjustment(old, grant):
            how = How.ADJUSTED
        else:
            how = How.RESIZED if len(old.devices) != len(grant.devices) else How.MIGRATED
        self._note_profile(old, grant)
        lost = self.world.stopped(row, how)
        self.recorder.interval(old, state.held_since_s(row), state.now, how, lost)

    def _note_profile(self, old: Grant, new: Grant) -> None:
        if old.purpose is _NOT_A_RUN and (new.purpose is not _NOT_A_RUN or old.devices != new.devices):
            self._profiled = True

    def close(self) -> None:
        """The run is over: record what is still held, and what no decision has seen."""
        self._note_unseen(self.state.waiting.sorted().tolist())
        for row in self.state.running.sorted().tolist():
            lost = self.world.stopped(row, How.RUNNING)
            grant, start = self.state.grants[row], self.state.held_since_s(row)
            self.recorder.interval(grant, start, self.state.now, How.RUNNING, lost)


def _comes_free(batch: Batch, row: int, after: Sequence[int]) -> bool:
    """True if `row`, which runs after the rows `after`, was held until this moment."""
    if row in batch.released or row in [accepted for accepted, _ in batch.accepted]:
        return True
    over = {
        *[ended.row for ended in batch.ended],
        *batch.withdrawn,
        *[settled for settled, _ in batch.settled],
    }
    return not over.isdisjoint(after)


def _refuse_missing(policy: Policy, providers: Mapping[Knowledge, Provider]) -> None:
    missing = sorted(kind.value for kind in policy.needs if kind not in providers)
    if missing:
        raise PolicyError(
            f"{type(policy).__name__} needs {', '.join(missing)}, which nobody provides; "
            "docs/knowledge.md lists who can, and --knowledge chooses"
        )
