"""Rebuilds a loop's table from what was stored of it: after a crash, or in another process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rota.model.cluster import Cluster
from rota.model.columns import Array
from rota.model.grants import Grant, Reservation, with_one_nan
from rota.model.growing import GrowingTable
from rota.scheduler.moments.packing import Packed, fill_occupancy, pack_occupancy
from rota.scheduler.moments.values import copied
from rota.table.progress import COLUMNS as PROGRESS
from rota.table.progress import Progress
from rota.table.state import COLUMNS, State


@dataclass
class Stored:
    """What has to be kept of a table besides the requests of its jobs."""

    now: float
    columns: Mapping[str, Array]
    """`COLUMNS`, as long as there are submitted jobs."""
    progress: Mapping[str, Array]
    """`PROGRESS`, or some of it, as long as there are submitted jobs."""
    waiting: Iterable[int]
    """Rows that wait, in the order in which the table holds them."""
    grants: Iterable[Grant]
    """What running jobs hold, in the order in which they got it."""
    running: Iterable[int] | None = None
    """Rows that run, in the order in which the table holds them; None for the order of `grants`."""
    held: Mapping[int, str] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)
    failed_start: Mapping[int, int] = field(default_factory=dict)
    """The `State.failed_start` of jobs that wait or are held."""
    reservations: tuple[Reservation, ...] = ()
    closed_nodes: Iterable[int] = ()
    closed_devices: Iterable[int] = ()
    steady: bool = False
    """The value of `Progress.steady`."""
    occupancy: Packed | None = None
    """The sums of all claims as stored; None to add up the grants, which may differ in the last bits."""


def stored(state: State) -> Stored:
    """What has to be kept of `state`; copies, valid for good."""
    seen, occupancy = slice(0, state.submitted), state.occupancy
    nodes = sorted(occupancy.down_nodes)
    on_nodes = {d for n in nodes for d in range(occupancy.free.first[n], occupancy.free.first[n + 1])}
    return Stored(
        now=state.now,
        columns={name: getattr(state, name)[seen].copy() for name in COLUMNS},
        progress={name: getattr(state.progress, name)[seen].copy() for name in PROGRESS},
        waiting=state.waiting.rows.tolist(),
        grants=list(state.grants.values()),
        running=state.running.rows.tolist(),
        held=dict(state.held),
        refused=dict(state.refused),
        failed_start=dict(state.failed_start),
        reservations=state.reservations,
        closed_nodes=nodes,
        closed_devices=sorted(occupancy.down - on_nodes),
        steady=state.progress.steady,
        occupancy=copied(pack_occupancy(occupancy), "the occupancy"),
    )


def refill(state: State, kept: Stored) -> None:
    """Bring the fresh `state`, whose requests are there, to where `kept` was."""
    for name in COLUMNS:
        column = kept.columns[name]
        getattr(state, name)[: len(column)] = column
        state.submitted = len(column)
    for name, column in kept.progress.items():
        getattr(state.progress, name)[: len(column)] = column
    state.progress.steady = kept.steady
    state.now = kept.now
    for row in kept.waiting:
        state.waiting.add(row)
        state.waiting_gpus += state.gpus_of[row]
    for grant in kept.grants:
        state.grants[grant.job] = with_one_nan(grant)
    for row in state.grants if kept.running is None else kept.running:
        state.running.add(row)
    state.held, state.refused = dict(kept.held), dict(kept.refused)
    state.failed_start = dict(kept.failed_start)
    state.reservations = kept.reservations
    state.count_special()
    if kept.occupancy is not None:
        fill_occupancy(state, copied(kept.occupancy, "the occupancy"))
        return
    for grant in state.grants.values():
        state.occupancy.hold(grant)
    for node in kept.closed_nodes:
        state.lose(node)
    state.close(list(kept.closed_devices))


def fresh_state(table: GrowingTable, cluster: Cluster, make: type[State] = State) -> State:
    """A state for the jobs in `table`, none of them submitted."""
    return make(table.jobs, cluster, Progress(table.capacity))
