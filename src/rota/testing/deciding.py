"""Properties of single decisions: repeatable, without side effects, remembering what can be stored."""

from __future__ import annotations

import math
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np

from rota.errors import PolicyError
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.moments.packing import pack
from rota.scheduler.moments.values import copied, digest
from rota.scheduler.policy import Policy, levers_of
from rota.scheduler.reasons.unsaid import UNSAID
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import Snapshot
from rota.testing.onlooking import Onlooker
from rota.testing.scenes import Scene
from rota.testing.sentences import at, print_of, show
from rota.testing.subject import Around, Subject
from rota.worlds.simulated.recorder import RunRecorder


class SameDecision(Onlooker):
    """A second, fresh instance gets the same question and a copy of the memory."""

    def asked(self, snapshot: Snapshot, memory: Memory) -> None:
        self.told = copied(memory)

    def decided(self, snapshot: Snapshot, decision: Decision) -> Iterator[str]:
        twin = asked(self.subject.make(), snapshot, self.told)
        if print_of(decision) != print_of(twin):
            yield f"{at(snapshot)} {show(decision)}, and asked again {show(twin)}"


class SnapshotUnchanged(Onlooker):
    """Compares pickles, which are quick to make; values are looked at only where those differ."""

    def asked(self, snapshot: Snapshot, memory: Memory) -> None:
        self.before = pickle.dumps(pack(snapshot), pickle.HIGHEST_PROTOCOL)

    def decided(self, snapshot: Snapshot, decision: Decision) -> Iterator[str]:
        after = pack(snapshot)
        if pickle.dumps(after, pickle.HIGHEST_PROTOCOL) != self.before:
            before = pickle.loads(self.before)
            yield from (f"{at(snapshot)} {what} changed" for what in _changed(before, after))


class KeysInOrder(Onlooker):
    """Checks policies that order jobs by a key."""

    def decided(self, snapshot: Snapshot, decision: Decision) -> Iterator[str]:
        stale = getattr(decision.ranking, "stale", None)
        for row in stale(snapshot) if stale is not None else ():
            name = snapshot.jobs.table.ids[row]
            yield (
                f"{at(snapshot)} the key of {name}, which waits, is not the one that it waits by; "
                "a key that changes with time has to say so: drifts=Drift.ALWAYS"
            )


class WaitsExplained(Onlooker):
    """Each job that waits has a reason with a code: at each decision, between two, and in the run's record.

    A missing reason counts as none.
    """

    def __init__(self, subject: Subject, scene: Scene) -> None:
        super().__init__(subject, scene)
        self.last = Decision({})
        """What the policy decided last."""
        self.seen: set[int] = set()
        """Rows that the last decision saw wait, or stopped."""

    def decided(self, snapshot: Snapshot, decision: Decision) -> Iterator[str]:
        named = {
            *decision.reject,
            *decision.offers,
            *decision.cancel,
            *(grant.job for grant in decision.grants),
        }
        self.last, self.seen = decision, {*snapshot.waiting.tolist(), *decision.preempt}
        yield from _unexplained(snapshot, decision, self.seen - named)

    def moment(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        """Jobs that came after the last decision wait for the next."""
        fresh = set(loop.state.waiting.sorted().tolist()) - self.seen
        if fresh:
            last = self.last
            in_force = Decision(
                {}, wake=loop.wake, reasons=loop.said, ranking=last.ranking, otherwise=last.otherwise
            )
            yield from _unexplained(loop.snapshot(), in_force, fresh)

    def over(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        """Each first wait is on record with its code, except for held jobs."""
        state, jobs, truth = loop.state, loop.state.jobs, self.scene.trace.truth
        ends = dict(recorder.ends)
        for row in range(len(jobs)):
            start_s = state.first_start_s.item(row)
            until_s = ends.get(row, state.now) if math.isnan(start_s) else start_s
            waited = until_s > jobs.submit_s.item(row) and not (truth.held_s[row] or jobs.after.get(row))
            if waited and row not in recorder.reasons:
                yield f"{jobs.ids[row]} waited until {until_s:g} s, and no reason is on record"


def _unexplained(snapshot: Snapshot, decision: Decision, rows: Iterable[int]) -> Iterator[str]:
    for row in sorted(rows):
        reasons = explain(snapshot, decision, row)
        if not reasons or reasons == (UNSAID,):
            yield f"{at(snapshot)} {snapshot.jobs.table.ids[row]} waits, and no reason is known"


class TargetsTold(Onlooker):
    """Targets are shown to users: rows of the table, numbers that can be written, under a name."""

    def decided(self, snapshot: Snapshot, decision: Decision) -> Iterator[str]:
        if decision.targets is None:
            return
        if not decision.target.strip():
            yield f"{at(snapshot)} it says what it means to give, and not what that is"
        jobs = len(snapshot.by_row.phase)
        for row, value in decision.targets.items():
            if not 0 <= row < jobs:
                yield f"{at(snapshot)} it means to give {value!r} to row {row}, which is no job"
            elif not math.isfinite(value):
                yield f"{at(snapshot)} it means to give {value!r} to {snapshot.jobs.table.ids[row]}"


class LeversDeclared(Onlooker):
    """The loop stops at a lever that is not declared; the registration lists the declared ones."""

    def over(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        beyond = sorted(levers_of(self.subject.make()) - self.subject.may_pull)
        if beyond:
            yield f"it declares {', '.join(beyond)}, which its registration does not list"


class NeedsEnforced(Onlooker):
    """Reading undeclared knowledge stops the run; declared knowledge is registered, and missed if absent."""

    def over(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        needs = loop.policy.needs
        beyond = sorted(kind.value for kind in needs - self.subject.may_need)
        if beyond:
            yield f"it needs {', '.join(beyond)}, which its registration does not list"
        if not needs:
            return
        fresh, _ = self.subject.loop(self.scene)
        try:
            Loop(fresh.world, self.subject.make(), RunRecorder())
        except PolicyError:
            return
        yield f"it is run although nobody provides {', '.join(sorted(kind.value for kind in needs))}"


def _changed(before: object, after: object, path: str = "snapshot") -> Iterator[str]:
    """Paths of the parts of a packed snapshot that differ."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from _changed(before[key], after[key], f"{path}.{key}")
    elif digest(before) != digest(after):
        yield path


class _Diverging(Onlooker, ABC):
    """Compares the decisions that it sees with those of another run, in which `ask` calls the policy."""

    how: str
    """How the other run differs."""

    def __init__(self, subject: Subject, scene: Scene) -> None:
        super().__init__(subject, scene)
        self.seen: list[tuple[float, str]] = []

    def decided(self, snapshot: Snapshot, decision: Decision) -> tuple[()]:
        self.seen.append((snapshot.now, print_of(decision)))
        return ()

    def over(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        """The first decision that differs."""
        other = _decisions(self.subject, self.scene, self.ask)
        for (now, decision), (_, twin) in zip(self.seen, other, strict=False):
            if decision != twin:
                yield f"at {now:g} s it decides otherwise {self.how}"
                return
        if len(self.seen) != len(other):
            yield f"it takes {len(self.seen)} decisions, and {len(other)} {self.how}"

    @abstractmethod
    def ask(self, policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        """The decision of `policy`, asked in this other way."""


class MemoryStored(_Diverging):
    """A run that writes and reads the memory before each call decides as one that keeps it."""

    how = "with a stored memory"

    def ask(self, policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        return asked(policy, snapshot, copied(memory))


class CachesDroppable(_Diverging):
    """A run that calls a fresh instance every now and then decides as one that keeps the instance."""

    how = "with fresh instances in between"

    def __init__(self, subject: Subject, scene: Scene) -> None:
        super().__init__(subject, scene)
        self.rng = np.random.default_rng([7, scene.seed])
        self.kept: Policy | None = None

    def ask(self, policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        if self.kept is None or self.rng.random() < 0.3:
            self.kept = self.subject.make()
        return asked(self.kept, snapshot, memory)


class StoredAndDropped(CachesDroppable):
    """A run with both differences decides alike: one other run instead of two."""

    how = "with a stored memory and fresh instances in between"

    def ask(self, policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        return super().ask(policy, snapshot, copied(memory))


def _decisions(subject: Subject, scene: Scene, around: Around) -> list[tuple[float, str]]:
    """Moment and digest of each decision of a run."""
    taken: list[tuple[float, str]] = []

    def note(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = around(policy, snapshot, memory)
        taken.append((snapshot.now, print_of(decision)))
        return decision

    for _ in subject.play(scene, note):
        pass
    return taken
