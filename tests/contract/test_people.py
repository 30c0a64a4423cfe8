"""Policies among people: whoever steps in, and whatever is asked for, the contract holds."""

from __future__ import annotations

from itertools import islice

import pytest

from harder_scenes import commanded, harder_scene
from rota.scheduler.policy import systems
from rota.testing.moving import NoThrashing
from rota.testing.onlooking import watch
from rota.testing.properties import PROPERTIES
from rota.testing.subject import subject_of
from tiers import seed_ranges

LOOK_ON = list(dict.fromkeys(prop.together for prop in PROPERTIES if prop.together is not None))
AMONG_PEOPLE = [kind for kind in LOOK_ON if kind is not NoThrashing]
"""A job that people requeue at once has been moved without need: by them."""
SEEDS = seed_ranges(1, 6, 100, at_once=20)


@pytest.mark.soak
@pytest.mark.parametrize("policy", list(systems()))
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_harder_scenes(policy: str, seeds: range) -> None:
    for seed in seeds:
        offences = watch(subject_of(policy), harder_scene(seed), LOOK_ON)
        assert list(islice(offences, 3)) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(systems()))
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_people_step_in(policy: str, seeds: range) -> None:
    subject = commanded(subject_of(policy))
    for seed in seeds:
        assert list(islice(watch(subject, harder_scene(seed), AMONG_PEOPLE), 3)) == [], seed


# -- what the scenes have found --------------------------------------------------------------------


@pytest.mark.slow
def test_an_auction_beside_closed_devices_ends() -> None:
    """A job on a closed device has grown in the auction, and gives back: it has its own device again.

    It was taken for given to others, and the auction was undone for ever.
    """
    assert list(watch(commanded(subject_of("themis")), harder_scene(11), AMONG_PEOPLE)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 15, 25, 36])
def test_nobody_is_forgotten_on_a_node_that_is_emptied(seed: int) -> None:
    """Whoever ran on without a home, in a home too small, or had grown; and turns of homes that were gone."""
    assert list(watch(commanded(subject_of("gandiva")), harder_scene(seed), AMONG_PEOPLE)) == []
