"""One run of a scene with all its onlookers: most properties are checked in an ordinary run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Snapshot
from rota.testing.scenes import Scene
from rota.testing.subject import Subject, moments
from rota.worlds.simulated.recorder import RunRecorder


class Onlooker:
    """Looks on while `scene` is played and yields each offence as a line; this base class accepts all.

    It changes nothing that others see: neither the run nor what the next onlooker is shown.
    """

    def __init__(self, subject: Subject, scene: Scene) -> None:
        self.subject, self.scene = subject, scene

    def asked(self, snapshot: Snapshot, memory: Memory) -> None:
        """The policy is about to decide."""

    def decided(self, snapshot: Snapshot, decision: Decision) -> Iterable[str]:
        """The policy has decided; nothing of it has been carried out."""
        return ()

    def moment(self, loop: Loop, recorder: RunRecorder) -> Iterable[str]:
        """A moment is over: what was decided is in force."""
        return ()

    def over(self, loop: Loop, recorder: RunRecorder) -> Iterable[str]:
        """Nothing happens any more."""
        return ()


def watch(subject: Subject, scene: Scene, kinds: Sequence[type[Onlooker]]) -> Iterator[tuple[int, str]]:
    """Play `scene` once before onlookers of these kinds; the number of each offended one and its words."""
    onlookers = [kind(subject, scene) for kind in kinds]
    offences: list[tuple[int, str]] = []

    def heard(said: Iterable[Iterable[str]]) -> None:
        offences.extend((number, line) for number, lines in enumerate(said) for line in lines)

    def ask_before_all(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        for onlooker in onlookers:
            onlooker.asked(snapshot, memory)
        decision = asked(policy, snapshot, memory)
        heard(onlooker.decided(snapshot, decision) for onlooker in onlookers)
        return decision

    loop, recorder = subject.loop(scene, ask_before_all)
    for _ in moments(loop):
        heard(onlooker.moment(loop, recorder) for onlooker in onlookers)
        yield from offences
        offences.clear()
    loop.close()
    heard(onlooker.over(loop, recorder) for onlooker in onlookers)
    yield from offences
