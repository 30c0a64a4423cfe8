"""What registering a policy makes of its class."""

from __future__ import annotations

import pickle
from copy import deepcopy

import pytest

from rota.scheduler.policy import parse_policy, systems


@pytest.mark.parametrize("name", sorted(systems()))
def test_a_copy_of_a_policy_of_ours_begins_anew(name: str) -> None:
    """Where its parts are compiled it could not be copied as it is, nor one of one's own that holds it."""
    policy = parse_policy(name).make()
    vars(policy)["seen"] = True
    for copied in (deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert type(copied) is type(policy)
        assert repr(vars(copied)["parameters"]) == repr(vars(policy)["parameters"])
        assert "seen" not in vars(copied)


def test_what_somebody_has_added_to_one_is_copied() -> None:
    class Tuned(type(parse_policy("fifo").make())):  # type: ignore[misc]
        seen = 0

    policy = Tuned()
    policy.seen = 3
    assert deepcopy(policy).seen == 3
