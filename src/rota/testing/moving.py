"""Properties of decisions in a row: rest, take-over, no thrashing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rota.scheduler.decision import Decision
from rota.scheduler.loop import Loop
from rota.scheduler.moments.values import copied
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.testing.holding import unfinished
from rota.testing.scenes import Scene
from rota.testing.sentences import ids, moment, moves
from rota.testing.subject import Subject, moments
from rota.worlds.simulated.checks import recount

SWAP_S = 1.0
"""Two jobs that swap places there and back, without news, in less than this thrash; quanta are longer."""


def rest(subject: Subject, scene: Scene) -> Iterator[str]:
    """Asked five more times at the moment of a decision, with no event; those that rotate are excused."""
    if subject.rotates:
        return
    decided = 0
    for loop in subject.play(scene):
        if loop.counts.decisions == decided:
            continue
        decided = loop.counts.decisions
        policy, memory = subject.make(), copied(loop.memory)
        for again in range(5):
            decision = policy.decide(loop.snapshot(), memory)
            memory = decision.memory
            moved = moves(loop, decision)
            if moved:
                yield f"{moment(loop)} asked again ({again + 1}) it moves {ids(loop, moved)}"
                return


def empty_memory(subject: Subject, scene: Scene) -> Iterator[str]:
    """A newcomer takes over in the middle: nobody is lost, and it preempts no more at first than at next."""
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
    recount(loop.state, recorder)
    left = np.flatnonzero(loop.state.phase < Phase.COMPLETED).tolist()
    if subject.work_conserving and left and not unfinished(subject, scene):
        yield f"after the change {ids(loop, left)} never end"


def _newcomer(subject: Subject, loop: Loop) -> tuple[Decision, Decision]:
    """Two decisions in a row of a fresh instance with an empty memory, at a moment without news."""
    policy = subject.make()
    first = policy.decide(loop.snapshot(), {})
    return first, policy.decide(loop.snapshot(), copied(first.memory))


def no_thrashing(subject: Subject, scene: Scene) -> Iterator[str]:
    """Between two pieces of news nobody starts in vain, and no two jobs swap places there and back."""
    loop, recorder = subject.loop(scene)
    seen, news = 0, 0
    gave_to: dict[int, set[int]] = {}
    for _ in moments(loop):
        news, before = _news(loop), news
        if news != before:
            gave_to.clear()
        for grant, start_s, end_s, how, _ in recorder.intervals[seen:]:
            if how is not How.PREEMPTED:
                continue
            if start_s == end_s and news == before:
                yield f"{moment(loop)} {ids(loop, [grant.job])} is preempted as soon as it has started"
            heirs = [g.job for g in loop.state.grants.values() if set(g.devices) & set(grant.devices)]
            back = [heir for heir in heirs if grant.job in gave_to.get(heir, ())]
            if back and end_s - start_s < SWAP_S:
                yield f"{moment(loop)} {ids(loop, [grant.job, *back])} swap there and back without news"
            gave_to.setdefault(grant.job, set()).update(heirs)
        seen = len(recorder.intervals)


def _news(loop: Loop) -> int:
    """A number that grows when a job arrives or ends, an attempt fails, or capacity changes."""
    state = loop.state
    ended = int((state.phase >= Phase.COMPLETED).sum())
    return state.submitted + ended + int(state.failures.sum()) + len(state.occupancy.down)
