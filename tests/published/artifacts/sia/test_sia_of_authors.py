"""Sia as the authors' simulator carries it out."""

from __future__ import annotations

import pytest

from rota.scheduler.policy import parse_policy


@pytest.mark.parametrize(("policy", "seconds"), [("sia@authors", 120.0), ("sia@fixed", 30.0), ("sia", 30.0)])
def test_only_the_authors_list_restarts_by_workload(policy: str, seconds: float) -> None:
    rounds = parse_policy(policy).make()
    assert [rounds.restart_s(name) for name in ("bert", "other")] == [seconds, 30.0]
