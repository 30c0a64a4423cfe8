"""Holds policies to the contract: every property in many scenes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from rota.errors import InputError
from rota.scheduler.policy import Policy, PolicySpec
from rota.testing.onlooking import watch
from rota.testing.properties import PROPERTIES
from rota.testing.scenes import Scene, make_scene
from rota.testing.sentences import Property
from rota.testing.subject import ContractError, Subject, subject_of

SEEDS = range(6)
"""Scenes of a quick check; half plain, half rich."""

Named = str | PolicySpec | Callable[[], Policy] | Subject


def check_policy(policy: Named, *, seeds: Iterable[int] = SEEDS, only: str = "", **facts: Any) -> None:
    """Raise ContractError at the first scene in which `policy` breaks a property.

    `policy` is a name with parameters, a class or a factory.  `only` checks the one property with that
    sentence; `facts` (`rotates`, `work_conserving`, `providers`) describe a policy that is not registered.
    """
    subject = subject_of(policy, **facts)
    properties = [property_named(only)] if only else PROPERTIES
    for seed in seeds:
        _check_scene(subject, properties, make_scene(seed))


def check_property(subject: Subject, prop: Property, seeds: Iterable[int] = SEEDS) -> None:
    """Raise ContractError at the first scene of `seeds` in which `subject` breaks `prop`."""
    for seed in seeds:
        _check_alone(subject, prop, make_scene(seed))


def _check_scene(subject: Subject, properties: Sequence[Property], scene: Scene) -> None:
    """Checks that can share one run do; after a failure each check runs by itself."""
    together = [prop for prop in properties if prop.seen_by is not None]
    try:
        _look(subject, together, scene)
    except ContractError:
        for prop in together:
            _check_alone(subject, prop, scene)
        raise  # alone it does not happen again: the policy depends on chance
    for prop in properties:
        if prop.seen_by is None:
            _check_alone(subject, prop, scene)


def _look(subject: Subject, together: Sequence[Property], scene: Scene) -> None:
    """One run before all onlookers; ContractError at the first offence."""
    named = {prop.together: prop for prop in reversed(together)}
    kinds = [kind for kind in dict.fromkeys(prop.together for prop in together) if kind is not None]
    try:
        first = next(watch(subject, scene, kinds), None) if kinds else None
    except Exception as error:
        raise _stopped(subject, together[0], scene, error) from error
    if first is not None:
        number, line = first
        raise _broken(subject, named[kinds[number]], scene, [line])


def _check_alone(subject: Subject, prop: Property, scene: Scene) -> None:
    try:
        offences = list(islice(prop.check(subject, scene), 5))
    except Exception as error:
        raise _stopped(subject, prop, scene, error) from error
    if offences:
        raise _broken(subject, prop, scene, offences)


def _stopped(subject: Subject, prop: Property, scene: Scene, error: Exception) -> ContractError:
    """Whatever stops the run breaks the contract; its traceback is kept."""
    return _broken(subject, prop, scene, [f"it stops the run: {type(error).__name__}: {error}"])


def _broken(subject: Subject, prop: Property, scene: Scene, offences: list[str]) -> ContractError:
    lines = "\n  ".join(offences)
    return ContractError(
        f"{subject.name} breaks the contract: {prop.sentence}\n  {lines}\n"
        f"in {scene.describe()}\nrepeat with: {subject.repeat(scene.seed, prop.sentence)}"
    )


def property_named(sentence: str) -> Property:
    """The property whose sentence is `sentence`, or begins with it."""
    for prop in PROPERTIES:
        if prop.sentence.startswith(sentence):
            return prop
    known = "\n  ".join(str(prop) for prop in PROPERTIES)
    raise InputError(f"the contract has no sentence {sentence!r}; it has\n  {known}")


def policy_contract(policy: Named, *, seeds: Iterable[int] = SEEDS, **facts: Any) -> Callable[..., None]:
    """A pytest test that holds `policy` to the contract, one case per property.

    `test_mine = policy_contract(MyPolicy)` in a test module is all it takes.
    """
    import pytest

    subject, scenes = subject_of(policy, **facts), tuple(seeds)

    @pytest.mark.parametrize("prop", PROPERTIES, ids=str)
    def test_contract(prop: Property) -> None:
        check_property(subject, prop, scenes)

    return test_contract
