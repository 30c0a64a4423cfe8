"""The order in which a policy serves waiting jobs, if it has one, and what it means to give each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from rota.scheduler.decision import Ranking
from rota.scheduler.snapshot import Snapshot

MOST_ASKED = 48
"""Rows for which a ranking is queried about the jobs ahead: an answer takes longer with more waiting jobs."""


@dataclass(frozen=True)
class Precedence:
    """The order in which a policy serves jobs, and what it means to give them."""

    order: list[int] | None = None
    """The waiting rows, the next to be served first; None if the policy has no order."""
    targets: Mapping[int, float] = field(default_factory=dict)
    """What it means to give jobs, by row; empty if it does not report that."""
    target: str = ""
    """The name of that amount: `part of its time`, `GPUs`."""


@runtime_checkable
class KnowsOrder(Protocol):
    """A ranking that knows the whole order at once."""

    def in_turn(self, snapshot: Snapshot) -> list[int]:
        """All waiting rows, the next to be served first."""
        ...


def waiting_order(snapshot: Snapshot, ranking: Ranking | None) -> list[int] | None:
    """All waiting rows, the next to be served first; None if the policy has no order among them.

    Where a ranking is slow to answer, the first rows are in order, and the rest is as near to it as
    `MOST_ASKED` answers allow.
    """
    waiting: list[int] = snapshot.waiting.tolist()
    if ranking is None:
        return None
    if isinstance(ranking, KnowsOrder):
        return ranking.in_turn(snapshot)
    if len(waiting) > 1 and not any(ranking.ahead(snapshot, row) for row in (waiting[-1], waiting[0])):
        return None
    return _sorted(snapshot, ranking, waiting)


def _sorted(snapshot: Snapshot, ranking: Ranking, waiting: list[int]) -> list[int]:
    """Sort by parts: divide the foremost part first, each by one of its rows and the jobs ahead of that."""
    done: list[int] = []
    parts, asked = [waiting], 0
    while parts:
        part = parts.pop()
        if len(part) < 2 or asked == MOST_ASKED:
            done += part
            continue
        pivot, asked = part[len(part) // 2], asked + 1
        ahead = set(ranking.ahead(snapshot, pivot))
        parts.append([row for row in part if row != pivot and row not in ahead])
        parts.append([pivot])
        parts.append([row for row in part if row in ahead and row != pivot])
    return done
