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
FOLLOWS_NO_CLOSING = {"gandiva"}
"""What it keeps of jobs that run on on a closed node is not what a fresh instance makes out."""
SEEDS = seed_ranges(2, 6, 100, at_once=20)


@pytest.mark.slow
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
    subject = commanded(subject_of(policy), closes=policy not in FOLLOWS_NO_CLOSING)
    for seed in seeds:
        assert list(islice(watch(subject, harder_scene(seed), AMONG_PEOPLE), 3)) == [], seed


# -- what the scenes have found --------------------------------------------------------------------


@pytest.mark.slow
def test_an_auction_beside_closed_devices_ends() -> None:
    """A job on a closed device has grown in the auction, and gives back: it has its own device again.

    It was taken for given to others, and the auction was undone for ever.
    """
    assert list(watch(commanded(subject_of("themis")), harder_scene(11), AMONG_PEOPLE)) == []
