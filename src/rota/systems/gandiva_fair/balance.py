"""Migration: jobs move until every server has as many tickets per GPU, and every tenant's jobs are on the
types it is due.

Inside a server turns are in proportion to tickets; with equal tickets per GPU everywhere they are so across
the cluster (Gandiva_fair, EuroSys 2020, section 3).  No job moves again before `spacing` seconds are over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rota.model.columns import Floats
from rota.systems.gandiva_fair.servers import Servers
from rota.table.occupancy import EPSILON

_GAIN = 0.5
"""A change of type pays if it brings a tenant nearer to what it is due by this part of the job's GPUs."""


@dataclass
class Movable:
    """Jobs that may move, and the rules for it."""

    accepts: dict[int, dict[int, int]]
    """Per job and type, the mask of the servers it could run on."""
    gpus: Sequence[int]
    demand: dict[int, float]
    """GPUs that each job asks for; less than one for a share of one."""
    since_s: dict[int, float]
    """When each job last moved."""
    spacing_s: float
    now: float
    is_busy: Callable[[int], bool] = lambda row: False
    """Whether a job must not move before its turn is over."""
    again_s: float = field(default=math.inf)
    """The first moment at which a job may move that would have moved now."""

    def rested(self, row: int) -> bool:
        """True if `row` has not moved for long enough, and may be stopped."""
        may_s = self.since_s.get(row, -math.inf) + self.spacing_s
        if may_s > self.now:
            self.again_s = min(self.again_s, may_s)
        return may_s <= self.now and not self.is_busy(row)

    def may_be_on(self, row: int, node: int, servers: Servers) -> bool:
        """True if `row` could run on `node` alone."""
        mask = self.accepts[row].get(servers.type_of[node], 0)
        return bool(mask >> node & 1) and servers.gpus[node] >= self.gpus[row]


def to_idle(servers: Servers, kind: int, movable: Movable) -> Iterator[tuple[int, int]]:
    """Moves (job, server) off servers where jobs take turns to GPUs that no job asks for.

    The server with the most tickets per GPU first; of its jobs the largest that finds room, there the
    server with the least to spare.  The caller carries out each move before it reads the next.
    """
    nodes = servers.of_type(kind)
    crowded = sorted((node for node in nodes if servers.has_turns(node)), key=lambda n: (-servers.load(n), n))
    for source in crowded:
        most = max((servers.room(node) for node in nodes), default=0.0)
        if most <= EPSILON:
            return
        rows = sorted(servers.small(source), key=lambda row: (-movable.demand[row], row))
        for row in rows:
            if not servers.has_turns(source):
                break
            least = movable.demand[row] - EPSILON
            roomy = [n for n in nodes if servers.room(n) >= least and movable.may_be_on(row, n, servers)]
            if roomy and movable.rested(row):
                yield row, min(roomy, key=lambda node: (servers.room(node), node))


def to_fewer_tickets(
    servers: Servers, kind: int, movable: Movable, theta: float
) -> Iterator[tuple[int, int]]:
    """Moves (job, server) from the server with the most tickets per GPU to that with the fewest.

    Only where jobs take turns, and as long as the one has more than 1 + `theta` times the other's: the job
    that makes their difference smallest, the smaller one of two alike.
    """
    while True:
        nodes = servers.of_type(kind)
        crowded = [node for node in nodes if servers.has_turns(node)]
        if not crowded:
            return
        source = max(crowded, key=lambda node: (_rounded(servers.load(node)), -node))
        target = min(nodes, key=lambda node: (_rounded(servers.load(node)), node))
        if servers.load(source) <= (1.0 + theta) * servers.load(target) + EPSILON:
            return
        row = _best_move(servers, source, target, movable)
        if row < 0:
            return
        yield row, target


def _best_move(servers: Servers, source: int, target: int, movable: Movable) -> int:
    """The small job that makes the difference smallest by going there; -1 if none makes it smaller."""
    most, fewest = servers.load(source), servers.load(target)
    best = (most - fewest - EPSILON, math.inf, -1)
    for row in servers.small(source):
        due = servers.due(row)
        gap = _rounded(abs(most - due / servers.gpus[source] - fewest - due / servers.gpus[target]))
        choice = (gap, movable.demand[row], row)
        if choice < best and movable.may_be_on(row, target, servers) and movable.rested(row):
            best = choice
    return best[2]


def _rounded(load: float) -> float:
    """Rounds `load`, so that the order of a sum does not decide between two equal candidates."""
    return round(load, 9)


def to_other_type(
    servers: Servers, rows: Sequence[int], due: Floats, rates: dict[int, Floats], movable: Movable
) -> Iterator[tuple[int, int]]:
    """Moves (job, type) of one tenant's jobs `rows` that bring what they ask of each type to what is due.

    `due` are GPUs of each type; a tenant that asks for more than it is due wants its jobs spread over the
    types in the same proportion.  The job that gains most by the move goes.
    """
    asked = [0.0] * len(due)
    for row in rows:
        asked[kind_of(servers, row)] += movable.demand[row]
    total, all_due = sum(asked), float(due.sum())
    if not all_due:
        return
    over = [have - total * part / all_due for have, part in zip(asked, due.tolist(), strict=True)]
    left = list(rows)
    while (move := _best_change(servers, left, over, rates, movable)) is not None:
        row, kind = move
        left.remove(row)
        over[kind_of(servers, row)] -= movable.demand[row]
        over[kind] += movable.demand[row]
        yield move


def _best_change(
    servers: Servers, rows: Sequence[int], over: list[float], rates: dict[int, Floats], movable: Movable
) -> tuple[int, int] | None:
    """The change of type that leaves the least imbalance; ties go to the job that gains most."""
    best: tuple[float, float, int] | None = None
    change = None
    for row in rows:
        before, gpus = kind_of(servers, row), movable.demand[row]
        for kind in movable.accepts[row]:
            if kind == before or rates[row][kind] <= 0.0 or over[before] <= EPSILON:
                continue
            amiss = abs(over[before] - gpus) + abs(over[kind] + gpus) - abs(over[before]) - abs(over[kind])
            choice = (amiss, -float(rates[row][kind] / rates[row][before]), row)
            if amiss < -_GAIN * gpus and (best is None or choice < best) and movable.rested(row):
                best, change = choice, (row, kind)
    return change


def kind_of(servers: Servers, row: int) -> int:
    """The type of the servers that `row` belongs to."""
    return servers.type_of[next(iter(servers.parts_of[row]))]
