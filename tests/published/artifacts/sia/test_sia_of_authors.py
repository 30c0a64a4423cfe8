"""Sia as the authors' simulator carries it out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rota.scheduler.policy import parse_policy


@pytest.mark.parametrize(("policy", "seconds"), [("sia@authors", 120.0), ("sia@fixed", 30.0), ("sia", 30.0)])
def test_only_the_authors_list_restarts_by_workload(policy: str, seconds: float) -> None:
    names = ("bert", "other")
    table = SimpleNamespace(name_of=lambda column, row: names[row])
    rounds = parse_policy(policy).make()
    asked = rounds.restart_s(SimpleNamespace(jobs=SimpleNamespace(table=table)), np.arange(2))
    assert asked.tolist() == [seconds, 30.0]
