"""The cluster's usage counted one object at a time: what `rota.server.usage` has to agree with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from rota.reports.usage.counting import months_between, usage_of
from rota.reports.usage.held import Held, size_name
from rota.reports.usage.prices import Prices
from rota.server.export import OUTCOMES
from rota.server.scheduler_view import SchedulerView
from rota.server.store.past_columns import HistoryWindow
from rota.server.store.rows import AttemptRow, IntervalRow, JobRow, NodeRow
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.wire.usage import UNKNOWN, UsageView

FAILED = frozenset({"failed", "lost"})
"""How intervals end whose attempt came to nothing."""


def naive_usage(
    store: Store,
    shown: SchedulerView,
    now: float,
    epoch_s: float,
    by: Sequence[str],
    since_s: float | None,
    until_s: float | None,
    prices: Prices | None,
) -> UsageView:
    """As `cluster_usage`."""
    low_s = 0.0 if since_s is None else since_s - epoch_s
    high_s = now if until_s is None else until_s - epoch_s
    epoch = datetime.fromtimestamp(epoch_s, UTC)
    window = naive_window(store, low_s, high_s)
    months = months_between(epoch, low_s, high_s) if "month" in by else []
    cuts = [low_s, *(at_s for at_s in months if low_s < at_s < high_s), high_s]
    busy = {
        (row, place): part
        for place, (begins_s, ends_s) in enumerate(pairwise(cuts))
        for row, part in store.busy(begins_s, ends_s).items()
    }
    types = device_types(store.nodes(), "node" in by)
    stretches = [*_past(window, types), *_running(window.jobs, shown.holding.copy(), types, now)]
    pieces = [piece for one in stretches for piece in _cut(one, cuts)]
    held = held_of(window.jobs, pieces, busy, epoch)
    since, until = _moment(since_s), _moment(until_s)
    return usage_of(held, by, prices=prices, since=since, until=until)


def naive_window(store: Store, low_s: float, high_s: float) -> HistoryWindow:
    """All jobs that lived in that time, and all that they held."""
    jobs = [
        row
        for row in store.jobs()
        if row.submit_s < high_s and (row.now.finish_s is None or row.now.finish_s >= low_s)
    ]
    return HistoryWindow(jobs, [one for row in jobs for one in store.intervals(row.row)], {})


def _moment(unix_s: float | None) -> datetime | None:
    return None if unix_s is None else datetime.fromtimestamp(unix_s, UTC)


Kind = tuple[str, str]
"""Type of a device, and its node where that is asked for."""


def device_types(nodes: Iterable[NodeRow], by_node: bool) -> Mapping[int, Kind]:
    """Kind of each device, by its number."""
    return {
        node.first_device + place: (device.type, node.name if by_node else UNKNOWN)
        for node in nodes
        for place, device in enumerate(node.info.devices)
    }


@dataclass(frozen=True, slots=True)
class HeldStretch:
    """Devices of one kind that a job held for a time."""

    row: int
    attempt: int
    start_s: float
    end_s: float
    gpus: float
    kind: Kind
    failed: bool = False
    lost_part: float = 0.0
    """Of the GPU-seconds that the job's work was worth at what it asked for, seconds lost at its end."""
    place: int = 0
    """Between which of the moments at which all are cut it lies."""


def _cut(one: HeldStretch, cuts: Sequence[float]) -> Iterator[HeldStretch]:
    """Its parts between the moments; what lies before the first and after the last is left out."""
    last = len(cuts) - 2
    for place, (low_s, high_s) in enumerate(pairwise(cuts)):
        starts_here = low_s <= one.start_s < high_s or (place == last and one.start_s == high_s)
        if starts_here or one.start_s < low_s < one.end_s:
            ends_here = one.end_s <= high_s
            yield replace(
                one,
                start_s=max(one.start_s, low_s),
                end_s=min(one.end_s, high_s),
                lost_part=one.lost_part if ends_here else 0.0,
                place=place,
            )


def _past(window: HistoryWindow, types: Mapping[int, Kind]) -> Iterator[HeldStretch]:
    """What was held and is held no more."""
    came_to_nothing = {(one.row, one.attempt) for one in window.intervals if one.how in FAILED}
    for one in window.intervals:
        failed = (one.row, one.attempt) in came_to_nothing
        for kind, part in _by_type(one.devices, types):
            yield _stretch(one, kind, part, failed)


def _stretch(one: IntervalRow, kind: Kind, part: float, failed: bool) -> HeldStretch:
    gpus = part * len(one.devices) * one.share
    return HeldStretch(
        one.row, one.attempt, one.start_s, one.end_s, gpus, kind, failed, part * one.lost_work_s
    )


def _running(
    jobs: Sequence[JobRow], holding: Mapping[int, AttemptRow], types: Mapping[int, Kind], now: float
) -> Iterator[HeldStretch]:
    """What is held now, since it was last given or adjusted."""
    for job in jobs:
        attempt = holding.get(job.row)
        if attempt is None or attempt.grant is None or job.now.phase != Phase.RUNNING:
            continue
        devices, share = attempt.grant[1], float(attempt.grant[2])
        since_s = min(max(job.now.since_s, job.now.adjusted_s), now)
        for kind, part in _by_type(devices, types):
            yield HeldStretch(job.row, attempt.number, since_s, now, part * len(devices) * share, kind)


def _by_type(devices: Sequence[int], types: Mapping[int, Kind]) -> list[tuple[Kind, float]]:
    """Which part of the devices is of which type; one entry of no GPUs for a job without devices."""
    if not devices:
        return [((UNKNOWN, UNKNOWN), 1.0)]
    kinds = [types.get(device, (UNKNOWN, UNKNOWN)) for device in devices]
    return [(kind, kinds.count(kind) / len(kinds)) for kind in dict.fromkeys(kinds)]


def held_of(
    jobs: Sequence[JobRow],
    stretches: Sequence[HeldStretch],
    busy: Mapping[tuple[int, int], float],
    epoch: datetime,
) -> Held:
    """The columns that usage is counted from; `busy` is the mean busy part of a row's devices by place."""
    job_of = {job.row: job for job in jobs}
    asked = [job_of[one.row].asked for one in stretches]
    states = [job_of[one.row].now for one in stretches]
    outcomes = [_outcome(job_of[one.row]) for one in stretches]
    first_s = [state.first_start_s for state in states]
    tenants = [one.tenant or UNKNOWN for one in asked]
    return Held(
        source="the cluster",
        epoch=epoch,
        job=np.array([one.row for one in stretches], dtype=np.int64),
        start_s=_floats(one.start_s for one in stretches),
        end_s=_floats(max(one.end_s, one.start_s) for one in stretches),
        gpus=_floats(one.gpus for one in stretches),
        failed=_floats(
            one.failed or outcome == "failed" for one, outcome in zip(stretches, outcomes, strict=True)
        ),
        cancelled=_floats(outcome == "cancelled" for outcome in outcomes),
        lost_gpu_s=_floats(
            one.lost_part * what.gpus * what.gpu_share for one, what in zip(stretches, asked, strict=True)
        ),
        busy=_floats(busy.get((one.row, one.place), np.nan) for one in stretches),
        wait_s=_floats(
            np.nan if at_s is None else max(at_s - job_of[one.row].submit_s, 0.0)
            for one, at_s in zip(stretches, first_s, strict=True)
        ),
        is_known=np.ones(len(stretches), dtype=np.bool_),
        has_starts=True,
        names={
            "tenant": [name.partition("/")[0] for name in tenants],
            "subtenant": tenants,
            "user": [job_of[one.row].user or UNKNOWN for one in stretches],
            "partition": [one.node_set or UNKNOWN for one in asked],
            "group": [one.group or UNKNOWN for one in asked],
            "workload": [one.workload or UNKNOWN for one in asked],
            "qos": [UNKNOWN] * len(stretches),
            "type": [one.kind[0] for one in stretches],
            "node": [one.kind[1] for one in stretches],
            "size": [size_name(one.gpus) for one in asked],
            "outcome": outcomes,
        },
    )


def _outcome(job: JobRow) -> str:
    if job.now.finish_s is None:
        return "running" if job.now.phase == Phase.RUNNING else "waiting"
    return OUTCOMES.get(job.now.state, "FAILED").lower()


def _floats(values: Iterable[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(value) for value in values], dtype=np.float64)
