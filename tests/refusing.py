"""A world that refuses: stale state, a lost node, no memory left.  Any world can be wrapped in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rota.knowledge.needs import Observation
from rota.model.cluster import Cluster
from rota.model.grants import Leave
from rota.model.promises import Offer
from rota.scheduler.guard.host_memory import Resident
from rota.scheduler.world import Batch, Change, How, Lost, Refusal, World
from rota.table.state import State

Refuse = Callable[[Change], str]
"""Why a start or a move is refused; an empty string lets it pass."""


class RefusingWorld:
    """`inner`, except that some starts and moves fail; stops always succeed."""

    def __init__(self, inner: World, refuse: Refuse) -> None:
        self.inner = inner
        self.refuse = refuse
        self.cluster, self.jobs, self.progress = inner.cluster, inner.jobs, inner.progress
        self.refused: list[Refusal] = []

    def attach(self, state: State) -> None:
        self.inner.attach(state)

    def next(self, until_s: float) -> Batch | None:
        return self.inner.next(until_s)

    def apply(self, changes: Sequence[Change]) -> Sequence[Refusal]:
        passed: list[Change] = []
        refusals: list[Refusal] = []
        for change in changes:
            why = self.refuse(change) if change.new is not None else ""
            if why:
                refusals.append(Refusal(change.row, why))
            else:
                passed.append(change)
        self.refused += refusals
        return [*refusals, *self.inner.apply(passed)]

    def offer(self, offers: Mapping[int, Offer]) -> None:
        self.inner.offer(offers)

    def stopped(self, row: int, how: How) -> Lost:
        return self.inner.stopped(row, how)

    def observed(self) -> Sequence[Observation]:
        return self.inner.observed()

    def suspended(self) -> Iterable[Resident]:
        return self.inner.suspended()

    def would_keep(self, row: int, leave: Leave) -> Resident | None:
        return self.inner.would_keep(row, leave)


def stale_state(times: int) -> Refuse:
    """Refuses the first `times` changes: somebody else was faster."""
    return _first(times, lambda change: True, "the state it was decided on is stale")


def lost_node(cluster: Cluster, node: int, times: int) -> Refuse:
    """Refuses the first `times` grants on `node`, which is gone before anybody has noticed."""

    def touches(change: Change) -> bool:
        return change.new is not None and any(
            cluster.device_node[device] == node for device in change.new.devices
        )

    return _first(times, touches, f"node {cluster.node_names[node]} does not answer")


def out_of_memory(row: int, times: int) -> Refuse:
    """Refuses `row` the first `times`: what runs beside it takes more memory than it said."""
    return _first(times, lambda change: change.row == row, "the device is out of memory")


def _first(times: int, concerns: Callable[[Change], bool], why: str) -> Refuse:
    left = times

    def refuse(change: Change) -> str:
        nonlocal left
        if left and concerns(change):
            left -= 1
            return why
        return ""

    return refuse
