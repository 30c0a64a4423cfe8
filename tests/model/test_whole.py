"""Grants of whole devices, made and told without looking at each field."""

from __future__ import annotations

import math

import pytest

from rota.model.grants import Grant, Purpose, Role, is_whole
from rota.model.whole import is_made_whole, is_plainly_whole, whole_grant

GRANTS = [
    # grant                                          made so   whole
    (whole_grant(3, (0, 1)), True, True),
    (Grant(3, (0, 1)), True, True),
    (Grant(3, (0, 1), 1.0, Role.ALONE), None, True),
    (Grant(3, (0, 1), float("1.0")), None, True),  # another object says the same
    (Grant(3, (0,), 0.5, Role.PACKED), False, False),
    (Grant(3, (0,), node=2), False, False),
    (Grant(3, (0,), role=Role.TURNS), False, False),
    (Grant(3, (0,), batch_size=64.0), False, False),
    (Grant(3, (0,), power_limit_w=200.0), False, False),
    (Grant(3, (0,), purpose=Purpose.PROFILE), False, False),
    (Grant(3, (0,), cpus=4.0), False, False),
    (Grant(3, (0,), memory_gib=8.0), False, False),
    (Grant(3, (0,), gpu_memory_gib=8.0), False, False),
]


@pytest.mark.parametrize(("grant", "made", "whole"), GRANTS)
def test_whole_grants_are_told(grant: Grant, made: bool | None, whole: bool) -> None:
    assert is_plainly_whole(grant) == is_whole(grant) == whole
    assert made in (None, is_made_whole(grant))


def test_a_whole_grant_is_one_made_with_the_defaults() -> None:
    grant = whole_grant(3, (0, 1))
    assert type(grant) is Grant
    assert grant == Grant(3, (0, 1))
    assert all(mine is its for mine, its in zip(grant[2:], Grant(3, (0, 1))[2:], strict=True))
    assert math.isnan(grant.cpus)
