"""The suite catches what it is there for: one misbehaving policy per sentence."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from rota.knowledge.needs import Knowledge
from rota.model.grants import Grant, Reservation
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Lever, systems
from rota.scheduler.snapshot import Snapshot, table_of
from rota.scheduler.targets import Targets
from rota.stages.priority import ByPriority
from rota.systems.fifo.system import Fifo, FifoParameters
from rota.testing import PROPERTIES, ContractError, check_policy, make_scene, policy_contract, variants
from rota.testing.__main__ import main

test_a_policy_that_behaves_gets_the_contract_in_one_line = policy_contract(Fifo, seeds=range(2))


class Skips(Fifo):
    """First in, first out, passing by what does not fit: well behaved, to be spoilt below."""

    levers = frozenset(Lever)

    def __init__(self) -> None:
        super().__init__(FifoParameters(skip=True))


class Moody(Skips):
    """Does something else whenever it is asked."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        decision.grants = [grant for grant in decision.grants if random.random() < 0.5]
        return decision


class Meddler(Skips):
    """Writes into what it is shown."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        table_of(snapshot).failures[0] += 1
        return super().decide(snapshot, memory)


class Pedant(Skips):
    """Remembers what cannot be stored."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        memory["seen"] = set(snapshot.waiting.tolist())
        return super().decide(snapshot, memory)


class Secretive(Skips):
    """Remembers where nobody else can look."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.calls += 1
        decision = super().decide(snapshot, memory)
        if self.calls == 3:
            decision.grants = []
        return decision


class Nosy(Skips):
    """Reads what it does not declare."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        snapshot.know(Knowledge.DURATION)
        return super().decide(snapshot, memory)


class Greedy(Skips):
    """Gives every waiting job the first GPUs of the cluster."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        rows = snapshot.waiting.tolist()
        return Decision(memory, [Grant(row, tuple(range(snapshot.jobs.gpus[row]))) for row in rows])


class Splitter(Skips):
    """Starts gangs with one GPU less."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        decision.grants = [g._replace(devices=g.devices[:-1] or g.devices) for g in decision.grants]
        return decision


class Keeper(Skips):
    """Keeps devices for the first job, for ever."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        if "kept" not in memory and 0 in snapshot.waiting:
            memory["kept"] = True
            decision.grants = []
            decision.reservations = [Reservation(0, (0,), 1e9)]
        return decision


class Needless:
    """Forgets to say what it must be told."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return Decision(memory=memory)


class Undecided:
    """Only says that it must be told nothing."""

    needs: frozenset[Knowledge] = frozenset()


class Queuer(Skips):
    """Starts a job only once all submitted before it have run, refused ones included."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        never_ran = np.flatnonzero(snapshot.jobs.starts == 0)
        decision.grants = [grant for grant in decision.grants if grant.job <= never_ran[0]]
        return decision


class Lazy(Skips):
    """Lets the second job wait for ever."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        decision.grants = [grant for grant in decision.grants if grant.job != 1]
        return decision


class Restless(Skips):
    """Moves the first running job whenever there is a free device."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        scratch = snapshot.occupancy.free.copy()
        for grant in decision.grants:
            scratch.remove_all(grant.devices)
        for grant in snapshot.grants.values():
            if len(grant.devices) == 1 and scratch.total and not snapshot.cluster.tenants:
                moved = Grant(grant.job, scratch.take(scratch.emptiest(), 1))
                return Decision(memory, [*decision.grants, moved])
        return decision


class Upstart(Skips):
    """Without memory, clears the table first."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if memory:
            return super().decide(snapshot, memory)
        wake = Wake(at_s=snapshot.now + 1.0)
        return Decision({"known": True}, preempt=snapshot.running.tolist(), wake=wake)


class Seesaw(Skips):
    """Lets the first two jobs that want one GPU take it from each other four times a second."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        wake = Wake(at_s=snapshot.now + 0.25, if_waiting=True)
        waiting = [row for row in snapshot.waiting.tolist() if snapshot.jobs.gpus[row] == 1]
        running = [row for row in snapshot.running.tolist() if snapshot.jobs.gpus[row] == 1]
        free = snapshot.occupancy.free.total
        if waiting and running and not free:
            place = snapshot.grants[running[0]].devices
            return Decision(memory, [Grant(waiting[0], place)], [running[0]], wake=wake)
        decision = super().decide(snapshot, memory)
        decision.wake = wake
        return decision


class Undeclared(Skips):
    """Preempts, and has not said that it may."""

    levers = frozenset()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return Decision(memory, super().decide(snapshot, memory).grants, snapshot.running.tolist()[:1])


class Silent(Skips):
    """Starts nobody but the first job, and does not say why."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        return Decision(memory, [grant for grant in decision.grants if grant.job == 0])


class Deaf(Skips):
    """Is asked when a job ends, and says nothing to jobs that come in between."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        decision.wake = Wake(on=Event.END)
        return decision


class Ageing(Skips):
    """Serves by waiting time, read when nobody has waited yet."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = ByPriority(lambda snapshot, row: -snapshot.jobs.waited_s(row))


class Stubborn(Skips):
    """Wants the last GPU of whoever has more than it needs, every second."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        least = snapshot.jobs.gpus_min
        rich = [g for row, g in snapshot.grants.items() if len(g.devices) > max(least[row], 1)]
        fewer = [Grant(grant.job, grant.devices[:-1]) for grant in rich]
        return Decision(memory, [*fewer, *decision.grants], wake=Wake(snapshot.now + 1.0, if_waiting=True))


class Boundless(Skips):
    """Means to give everybody more than there is."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        waiting = snapshot.waiting.tolist()
        decision.targets = Targets(lambda: dict.fromkeys(waiting, np.inf))
        return decision


BAD = [
    # policy, sentence it breaks, words of the report
    (Moody, "the same snapshot", "asked again it grants"),
    (Meddler, "a snapshot is never changed", "snapshot.state.failures changed"),
    (Pedant, "a memory survives", "['seen'] holds a set, which cannot be stored"),
    (Secretive, "caches can be dropped", "with fresh instances in between"),
    (Nosy, "what a policy needs", "reads duration, which it does not list"),
    (Ageing, "the key of a waiting job", "is not the one that it waits by"),
    (Silent, "each job that waits", "waits, and no reason is known"),
    (Deaf, "each job that waits", "waits, and no reason is known"),
    (Boundless, "what a policy means to give", "it means to give inf to j"),
    (
        Undeclared,
        "a policy pulls no lever",
        "is preempted, and the policy does not declare",
    ),
    (Greedy, "no device is claimed", "shares would sum to 2"),
    (Splitter, "a gang is whole", "GPUs in a gang and is granted"),
    (Keeper, "a finished job", "devices are reserved for j0, which ended"),
    (Lazy, "every job that could end alone", "never ends"),
    (Queuer, "who can never run", "never ends because of jobs that could never run"),
    (Restless, "when nothing happens", "asked again (1) it moves"),
    (Upstart, "an empty memory", "a newcomer preempts"),
    (Stubborn, "a resize that is refused", "which was refused often"),
    (Seesaw, "nobody swaps", "swap there and back without news"),
]


@pytest.mark.parametrize(("policy", "sentence", "words"), BAD, ids=[row[0].__name__ for row in BAD])
def test_a_misbehaving_policy_is_caught(policy: Any, sentence: str, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_policy(policy, only=sentence, seeds=range(12))
    report = str(caught.value)
    assert words in report
    assert f"contract: {sentence}" in report
    assert f"repeat with: python -m rota.testing test_suite:{policy.__name__} --seed" in report


def test_every_sentence_catches_somebody() -> None:
    """The quota is the guard's: its bad decision stands in tests/scheduler/test_guard.py."""
    sentences = [str(prop) for prop in PROPERTIES]
    unused = [s for s in sentences if not any(s.startswith(row[1]) for row in BAD)]
    assert unused == ["a hard quota is kept"]


def test_the_policy_that_the_bad_ones_spoil_is_good() -> None:
    check_policy(Skips, seeds=range(4))


def test_the_same_seed_gives_the_same_scene() -> None:
    first, again, other = make_scene(3), make_scene(3), make_scene(4)
    assert first.trace.jobs.submit_s.tolist() == again.trace.jobs.submit_s.tolist()
    assert first.trace.truth.duration_s.tolist() == again.trace.truth.duration_s.tolist()
    assert first.cluster.describe() == again.cluster.describe()
    assert first.trace.jobs.submit_s.tolist() != other.trace.jobs.submit_s.tolist()


def test_scenes_have_everything() -> None:
    """Each feature occurs in some scene, so that no property holds for want of an occasion."""
    scenes = [make_scene(seed) for seed in range(60)]
    jobs = [scene.trace.jobs for scene in scenes]
    clusters = [scene.cluster for scene in scenes]
    occurs = {
        "parts of a GPU": any((j.gpu_share < 1).any() for j in jobs),
        "CPU jobs": any((j.gpus == 0).any() for j in jobs),
        "elastic jobs": any((j.gpus_min < j.gpus).any() for j in jobs),
        "dependencies": any(j.after for j in jobs),
        "two types": any(len(c.type_names) == 2 for c in clusters),
        "hard quotas": any(t.hard for c in clusters for t in c.tenants.by_path.values()),
        "host limits": any(c.node_cpus.any() for c in clusters),
        "device memory": any((j.gpu_memory_gib > 0).any() for j in jobs),
        "failing attempts": any(scene.trace.truth.failures for scene in scenes),
        "lost nodes": any(scene.setting.faults for scene in scenes),
        "costs": any(not scene.setting.costs.free for scene in scenes),
        "zero durations": any((scene.trace.truth.duration_s == 0).any() for scene in scenes),
        "ties": any(len(set(j.submit_s.tolist())) < len(j) for j in jobs),
        "more jobs than GPUs": any(j.gpus.sum() > c.gpus for j, c in zip(jobs, clusters, strict=True)),
    }
    assert [what for what, found in occurs.items() if not found] == []


def test_variants_turn_each_switch() -> None:
    assert variants("fifo")[:2] == ["fifo", "fifo:skip=yes"]
    assert "fifo:placement=one_node" in variants("fifo")


def test_registered_classes_bring_their_facts() -> None:
    from rota.testing import subject_of

    entry = next(iter(systems().values()))
    assert subject_of(entry.make).name == entry.name


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fifo", "--seeds", "2"], 0, "fifo keeps the contract in 2 scenes"),
        (["test_suite:Lazy", "--seed", "0", "--only", "every job"], 1, "never ends"),
        (["fifo", "--only", "pigs fly"], 1, "the contract has no sentence 'pigs fly'"),
        (["fifa"], 1, "did you mean 'fifo'?"),
        (
            ["test_suite:Needless", "--seeds", "1"],
            1,
            "policy 'test_suite:Needless' has no `needs`; expected",
        ),
        (["test_suite:Undecided", "--seeds", "1"], 1, "'test_suite:Undecided' has no method `decide`"),
        (
            ["test_suite:Absent"],
            1,
            "test_suite:Absent: module 'test_suite' has no attribute 'Absent'; expected",
        ),
        (["nowhere_at_all:Policy"], 1, "No module named 'nowhere_at_all'"),
    ],
)
def test_command(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert words in printed.out + printed.err
