"""Priorities and deadlines that the policy does not look at: said to whoever gives one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rota.errors import InputError
from rota.scheduler.policy import parse_policy

NAMED = 5
"""So many jobs are named."""


def of_a_job(policy: str, priority: int) -> list[str]:
    """What to tell who gives a job this priority under `policy`, as typed; nothing if it counts, or is 0."""
    if not priority or _heeds(policy):
        return []
    return [f"{_ignores(policy)}: priority {priority} has no effect under it"]


def of_a_deadline(policy: str, deadlines: bool) -> list[str]:
    """What to tell who gives a job a deadline under `policy`, as typed; nothing if it counts."""
    if not deadlines or _heeds_deadlines(policy):
        return []
    name = parse_policy(policy).name
    return [f"{name} orders jobs without looking at deadlines: this one has no effect under it"]


def of_waiting_jobs(policy: str, ids: Sequence[str]) -> list[str]:
    """What to tell who lets `policy` decide while the jobs `ids`, which have priorities, wait."""
    if not ids or _heeds(policy):
        return []
    those = "that of 1 waiting job has" if len(ids) == 1 else f"those of {len(ids):,} waiting jobs have"
    named = ", ".join(ids[:NAMED]) + (", …" if len(ids) > NAMED else "")
    return [f"{_ignores(policy)}: {those} no effect under it ({named})"]


@lru_cache(maxsize=64)
def _heeds(policy: str) -> bool:
    """Also true of one that is unknown here: nobody can say that it does not, and `rota policy` says more."""
    try:
        return parse_policy(policy).heeds_priority
    except InputError:
        return True


@lru_cache(maxsize=64)
def _heeds_deadlines(policy: str) -> bool:
    """Also true of one that is unknown here, as above."""
    try:
        return parse_policy(policy).heeds_deadlines
    except InputError:
        return True


@lru_cache(maxsize=64)
def answers_deadlines(policy: str) -> bool:
    """True if `policy` says which deadlines it will keep."""
    try:
        return parse_policy(policy).promises
    except InputError:
        return False


def _ignores(policy: str) -> str:
    return f"{parse_policy(policy).name} orders jobs without looking at priorities"
