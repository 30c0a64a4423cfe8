"""Properties of single decisions: repeatable, without side effects, remembering what can be stored."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rota.errors import PolicyError
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.moments.packing import pack
from rota.scheduler.moments.values import copied, digest
from rota.scheduler.policy import Policy, levers_of
from rota.scheduler.reasons.waiting import UNSAID, explain
from rota.scheduler.snapshot import Snapshot
from rota.testing.scenes import Scene
from rota.testing.sentences import ask, at, played, print_of, show
from rota.testing.subject import Around, Subject
from rota.worlds.simulated.recorder import RunRecorder


def same_decision(subject: Subject, scene: Scene) -> Iterator[str]:
    """A second, fresh instance is asked the same; it gets a copy of the memory."""
    offences: list[str] = []

    def ask_twice(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        told = copied(memory)
        decision = policy.decide(snapshot, memory)
        twin = subject.make().decide(snapshot, told)
        if print_of(decision) != print_of(twin):
            offences.append(f"{at(snapshot)} {show(decision)}, and asked again {show(twin)}")
        return decision

    yield from played(subject, scene, ask_twice, offences)


def snapshot_unchanged(subject: Subject, scene: Scene) -> Iterator[str]:
    offences: list[str] = []

    def look_before_and_after(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        before = copied(pack(snapshot), "the snapshot")
        decision = policy.decide(snapshot, memory)
        after = pack(snapshot)
        if digest(before) != digest(after):
            offences.extend(f"{at(snapshot)} {what} changed" for what in _changed(before, after))
        return decision

    yield from played(subject, scene, look_before_and_after, offences)


def keys_in_order(subject: Subject, scene: Scene) -> Iterator[str]:
    """Asked of policies that say who is ahead by the key of a job."""
    offences: list[str] = []

    def look_at_keys(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = policy.decide(snapshot, memory)
        stale = getattr(decision.ranking, "stale", None)
        for row in stale(snapshot) if stale is not None else ():
            name = snapshot.jobs.table.ids[row]
            offences.append(
                f"{at(snapshot)} the key of {name}, which waits, is not the one that it waits by; "
                "a key that changes with time has to say so: drifts=Drift.ALWAYS"
            )
        return decision

    yield from played(subject, scene, look_at_keys, offences)


def levers_declared(subject: Subject, scene: Scene) -> Iterator[str]:
    """The loop stops at a lever that is not declared; what is declared, its registration lists."""
    for _ in subject.play(scene):
        pass
    beyond = sorted(levers_of(subject.make()) - subject.may_pull)
    if beyond:
        yield f"it declares {', '.join(beyond)}, which its registration does not list"


def waits_explained(subject: Subject, scene: Scene) -> Iterator[str]:
    """The policy, the cluster or the queue says why; that nobody knows is no reason."""
    offences: list[str] = []

    def ask_why(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = policy.decide(snapshot, memory)
        named = {*decision.reject, *decision.cancel, *(grant.job for grant in decision.grants)}
        offences.extend(
            f"{at(snapshot)} {snapshot.jobs.table.ids[row]} waits, and nobody knows why"
            for row in snapshot.waiting.tolist()
            if row not in named and explain(snapshot, decision, row) == (UNSAID,)
        )
        return decision

    yield from played(subject, scene, ask_why, offences)


def _changed(before: object, after: object, path: str = "snapshot") -> Iterator[str]:
    """Paths of the parts of a packed snapshot that differ."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from _changed(before[key], after[key], f"{path}.{key}")
    elif digest(before) != digest(after):
        yield path


def memory_stored(subject: Subject, scene: Scene) -> Iterator[str]:
    """A run whose memory is written and read before each call decides as one whose memory is kept."""

    def through_storage(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        return policy.decide(snapshot, copied(memory))

    yield from _diverges(subject, scene, through_storage, "with a stored memory")


def caches_droppable(subject: Subject, scene: Scene) -> Iterator[str]:
    rng = np.random.default_rng([7, scene.seed])
    kept: list[Policy] = []

    def now_and_then_a_fresh_one(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        if not kept or rng.random() < 0.3:
            kept[:] = [subject.make()]
        return kept[0].decide(snapshot, memory)

    yield from _diverges(subject, scene, now_and_then_a_fresh_one, "with fresh instances in between")


def _diverges(subject: Subject, scene: Scene, around: Around, how: str) -> Iterator[str]:
    """The first decision in which a run asked by `around` differs from an ordinary one."""
    plain, other = _decisions(subject, scene, ask), _decisions(subject, scene, around)
    for (now, decision), (_, twin) in zip(plain, other, strict=False):
        if decision != twin:
            yield f"at {now:g} s it decides otherwise {how}"
            return
    if len(plain) != len(other):
        yield f"it takes {len(plain)} decisions, and {len(other)} {how}"


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


def needs_enforced(subject: Subject, scene: Scene) -> Iterator[str]:
    """Reading what is not declared stops the run; what is declared is registered, and missed if missing."""
    for _ in subject.play(scene):
        pass
    loop, _ = subject.loop(scene)
    needs = loop.policy.needs
    beyond = sorted(kind.value for kind in needs - subject.may_need)
    if beyond:
        yield f"it needs {', '.join(beyond)}, which its registration does not list"
    if not needs:
        return
    try:
        Loop(loop.world, subject.make(), RunRecorder())
    except PolicyError:
        return
    yield f"it is run although nobody provides {', '.join(sorted(kind.value for kind in needs))}"
