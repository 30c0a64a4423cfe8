"""`rota policy`: what is said of the policy that decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rota.server.answers.policy import policy_view


def test_why_the_last_decision_failed_is_said_where_one_asks_about_the_policy() -> None:
    """Not only `rota why` of a job that waits: "late or failed 29" leaves its author alone."""
    why = "policy mine failed: Mine.decide raised KeyError: 'x' (mine.py, line 17), at 5 s"
    scheduler: Any = SimpleNamespace(
        clock=SimpleNamespace(epoch_unix_s=1000.0),
        settings=SimpleNamespace(knowledge={}),
        view=SimpleNamespace(decisions=30, last_s=0.001, late=29),
        host=SimpleNamespace(shadow=None),
        policy_trouble=why,
        failing=SimpleNamespace(replaced="policy fifo decides in place of mine"),
    )
    row = SimpleNamespace(spec="mine", since_s=5.0, by="root")
    store: Any = SimpleNamespace(policies=lambda: {"real": row})
    assert policy_view(scheduler, store).trouble == why
    scheduler.policy_trouble = ""
    assert policy_view(scheduler, store).trouble == "policy fifo decides in place of mine"
