"""Properties of decisions in a row: rest, take-over, no thrashing."""

from __future__ import annotations

from collections.abc import Iterator

from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision
from rota.scheduler.loop import Loop
from rota.scheduler.moments.values import copied, digest
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.testing.holding import left, unfinished
from rota.testing.onlooking import Onlooker
from rota.testing.scenes import Scene
from rota.testing.sentences import ids, moment, moves
from rota.testing.subject import Subject, moments
from rota.worlds.simulated.recorder import RunRecorder

SWAP_S = 1.0
"""Two jobs that swap places there and back, without news, in less than this thrash; quanta are longer."""


class Rest(Onlooker):
    """Calls the policy five more times at the moment of a decision, with no event; rotating ones are excused.

    If two calls agree and the policy remembers what it did, a third one would only repeat the question.
    """

    decided_before = 0

    def moment(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        if self.subject.rotates or loop.counts.decisions == self.decided_before:
            return
        self.decided_before = loop.counts.decisions
        policy, memory = self.subject.make(), copied(loop.memory)
        before = digest(memory)
        for again in range(5):
            decision = asked(policy, loop.snapshot(), memory)
            memory = decision.memory
            moved = moves(loop, decision)
            if moved:
                yield f"{moment(loop)} asked again ({again + 1}) it moves {ids(loop, moved)}"
                return
            before, last = digest(memory), before
            if again and before == last:
                return


def empty_memory(subject: Subject, scene: Scene) -> Iterator[str]:
    """A new instance takes over in the middle: no job is lost, and it preempts no more at first than next."""
    loop, recorder = subject.loop(scene)
    middle = loop.world.jobs.submit_s[len(scene.trace) // 2]
    for _ in moments(loop):
        if loop.state.now >= middle:
            break
    first, second = _newcomer(subject, loop)
    if not subject.rotates and len(first.preempt) > len(second.preempt):
        yield (
            f"{moment(loop)} a newcomer preempts {ids(loop, list(first.preempt))} at once, "
            f"then {ids(loop, list(second.preempt)) or 'nobody'}"
        )
    loop.policy, loop.memory = subject.make(), {}
    for _ in moments(loop):
        pass
    loop.close()
    stuck = left(loop, recorder)
    if subject.work_conserving and stuck and not unfinished(subject, scene):
        yield f"after the change {ids(loop, stuck)} never end"


def _newcomer(subject: Subject, loop: Loop) -> tuple[Decision, Decision]:
    """Two decisions in a row of a fresh instance with an empty memory, at a moment without events."""
    policy = subject.make()
    first = asked(policy, loop.snapshot(), {})
    return first, asked(policy, loop.snapshot(), copied(first.memory))


class NoThrashing(Onlooker):
    """Between two events no job starts in vain, and no two jobs swap places there and back."""

    def __init__(self, subject: Subject, scene: Scene) -> None:
        super().__init__(subject, scene)
        self.seen = self.news = 0
        self.gave_to: dict[int, set[int]] = {}

    def moment(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        news, before = _news(loop), self.news
        if news != before:
            self.gave_to.clear()
        for grant, start_s, end_s, how, _ in recorder.intervals[self.seen :]:
            if how is not How.PREEMPTED:
                continue
            if start_s == end_s and news == before:
                yield f"{moment(loop)} {ids(loop, [grant.job])} is preempted as soon as it has started"
            heirs = [g.job for g in loop.state.grants.values() if set(g.devices) & set(grant.devices)]
            back = [heir for heir in heirs if grant.job in self.gave_to.get(heir, ())]
            if back and end_s - start_s < SWAP_S:
                yield f"{moment(loop)} {ids(loop, [grant.job, *back])} swap there and back without news"
            self.gave_to.setdefault(grant.job, set()).update(heirs)
        self.seen, self.news = len(recorder.intervals), news


def _news(loop: Loop) -> int:
    """A number that grows when a job arrives or ends, an attempt fails, or capacity changes."""
    state = loop.state
    ended = int((state.phase >= Phase.COMPLETED).sum())
    return state.submitted + ended + int(state.failures.sum()) + len(state.occupancy.down)
