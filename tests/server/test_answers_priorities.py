"""Who gives a priority that has no effect is told so; nobody else is."""

from __future__ import annotations

import pytest

from rota.server.answers.unused_fields import unread_priorities, unread_priority

IGNORED = "tiresias orders jobs without looking at priorities"


@pytest.mark.parametrize(
    ("policy", "priority", "said"),
    [
        ("tiresias", 5, [f"{IGNORED}: priority 5 has no effect under it"]),
        ("tiresias:promote=2", -1, [f"{IGNORED}: priority -1 has no effect under it"]),
        ("tiresias", 0, []),
        ("fifo:skip=yes", 5, []),
        ("partition:policy=fifo", 5, []),
        ("of another installation", 5, []),
    ],
)
def test_one_job(policy: str, priority: int, said: list[str]) -> None:
    assert unread_priority(policy, priority) == said


@pytest.mark.parametrize(
    ("policy", "ids", "said"),
    [
        ("tiresias", [], []),
        ("tiresias", ["4"], [f"{IGNORED}: that of 1 waiting job has no effect under it (4)"]),
        ("tiresias", ["4", "7"], [f"{IGNORED}: those of 2 waiting jobs have no effect under it (4, 7)"]),
        (
            "tiresias",
            [str(number) for number in range(2000)],
            [f"{IGNORED}: those of 2,000 waiting jobs have no effect under it (0, 1, 2, 3, 4, …)"],
        ),
        ("fifo", ["4"], []),
    ],
)
def test_waiting_jobs(policy: str, ids: list[str], said: list[str]) -> None:
    assert unread_priorities(policy, ids) == said
