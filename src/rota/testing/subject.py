"""What is tested: a policy by name, by class or by factory, and how it fares in a scene."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, get_type_hints

from rota.errors import InputError
from rota.knowledge.needs import Knowledge, Provider
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.policy import (
    Lever,
    Policy,
    PolicySpec,
    levers_of,
    parse_policy,
    published,
    system,
    systems,
    whole_policy,
)
from rota.scheduler.snapshot import Snapshot
from rota.testing.scenes import Scene
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.run import prepare

Around = Callable[[Policy, Snapshot, Memory], Decision]
"""Calls a policy on behalf of the loop: the place where a property looks on."""

MOMENTS = 20_000
"""A scene has some hundred moments; a run beyond this many never ends."""


class ContractError(AssertionError):
    """A policy broke its contract; the message says which sentence, where, and how to repeat it."""


@dataclass(frozen=True)
class Subject:
    """A policy under test."""

    name: str
    make: Callable[[], Policy]
    rotates: bool = False
    work_conserving: bool = True
    may_need: frozenset[Knowledge] = frozenset(Knowledge)
    """The knowledge that its registration lists; any, if it is not registered."""
    may_pull: frozenset[Lever] = frozenset(Lever)
    """The levers that its registration lists; any, if it is not registered."""
    providers: Callable[[Scene, frozenset[Knowledge]], Iterable[Provider]] = lambda scene, needs: ()
    """Providers of what it needs; kinds left out are provided as in any simulation."""

    def repeat(self, seed: int, sentence: str) -> str:
        """The command that shows one failure again."""
        only = shlex.quote(sentence)
        return f"python -m rota.testing {shlex.quote(self.name)} --seed {seed} --only {only}"

    def loop(self, scene: Scene, around: Around | None = None) -> tuple[Loop, RunRecorder]:
        """A loop that is about to play `scene`."""
        policy = self.make()
        watched = Watched(policy, around) if around else policy
        setting = replace(scene.setting, providers=tuple(self.providers(scene, policy.needs)))
        return prepare(watched, scene.trace, scene.cluster, setting)

    def play(self, scene: Scene, around: Around | None = None) -> Iterator[Loop]:
        """Plays `scene`; hands over the loop after each moment."""
        loop, _ = self.loop(scene, around)
        yield from moments(loop)


def moments(loop: Loop) -> Iterator[Loop]:
    """`loop` after each of its moments, until nothing more happens."""
    for _ in range(MOMENTS):
        more = loop.step()
        yield loop
        if not more:
            return
    raise ContractError(f"the run does not end: {MOMENTS} moments, and it is {loop.state.now:g} s")


class Watched:
    """A policy under observation; the loop sees no difference."""

    def __init__(self, inner: Policy, around: Around) -> None:
        self.inner = inner
        self.around = around
        self.needs = inner.needs
        self.levers = levers_of(inner)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.around(self.inner, snapshot, memory)


def subject_of(policy: str | PolicySpec | Callable[[], Policy] | Subject, **facts: Any) -> Subject:
    """The subject that a name, a class or a factory stands for.

    A registered policy brings its own facts; `facts` (`rotates`, `work_conserving`, `providers`) override.
    """
    if isinstance(policy, Subject):
        return policy
    if isinstance(policy, str | PolicySpec):
        spec = parse_policy(policy) if isinstance(policy, str) else policy
        entry = system(spec.name)
        known: dict[str, Any] = {
            "rotates": entry.rotates,
            "work_conserving": entry.work_conserving,
            "may_need": entry.needs,
            "may_pull": entry.levers,
        }
        return Subject(str(spec), spec.make, **(known | facts))
    registered = next((e for e in systems().values() if e.make is policy), None)
    if registered is not None:
        return subject_of(registered.name, **facts)
    name = f"{policy.__module__}:{getattr(policy, '__qualname__', type(policy).__qualname__)}"
    return Subject(name, lambda: whole_policy(policy(), name), **facts)


def variants(name: str) -> list[str]:
    """The registered policy with its defaults, then with each switch or choice turned, one at a time."""
    entry = system(name)
    texts = [name]
    kinds = get_type_hints(entry.parameters)
    for field in fields(entry.parameters):
        for text in _other_values(kinds[field.name], field.default):
            texts += _if_allowed(f"{name}:{field.name}={text}")
    return texts


def all_variants() -> list[str]:
    """Every registered policy with one switch or choice turned, and each that reproduces published code."""
    return [text for name in systems() for text in variants(name)[1:]] + list(published())


def _other_values(kind: Any, default: Any) -> list[str]:
    if kind is bool:
        return ["no" if default else "yes"]
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [member.value for member in kind if member != default]
    return []


def _if_allowed(text: str) -> list[str]:
    """The variant, unless the policy refuses it as meaningless."""
    try:
        parse_policy(text).make()
    except InputError:
        return []
    return [text]
