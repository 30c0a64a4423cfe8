"""Use of the cluster's GPU-hours: holdings of every job on record, running jobs included."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rota.model.columns import Array, Bools, Floats
from rota.reports.usage.gpu_hours import Held, months_between, usage_of
from rota.reports.usage.prices import Prices
from rota.reports.wording import size_name
from rota.server.export import OUTCOMES
from rota.server.scheduler_view import SchedulerView
from rota.server.store.past_columns import PastColumns, PastIntervalColumns, PastJobColumns
from rota.server.store.rows import CAME_TO_NOTHING, AttemptRow, NodeRow
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.wire.usage import UNKNOWN, UsageView


def cluster_usage(
    store: Store,
    shown: SchedulerView,
    now: float,
    epoch_s: float,
    by: Sequence[str],
    since_s: float | None,
    until_s: float | None,
    prices: Prices | None,
) -> UsageView:
    """What jobs have used between two Unix times; `now` counts from `epoch_s`, a Unix time.

    Raises InputError for an unknown `by`, and for a GPU type without a price.
    """
    low_s = 0.0 if since_s is None else since_s - epoch_s
    high_s = now if until_s is None else until_s - epoch_s
    epoch = datetime.fromtimestamp(epoch_s, UTC)
    past = store.past_columns(low_s, high_s)
    months = months_between(epoch, low_s, high_s) if "month" in by else []
    cuts = [low_s, *(at_s for at_s in months if low_s < at_s < high_s), high_s]
    types = device_types(store.nodes(), by_node="node" in by)
    stretches = joined([_past(past, types), _running(past.jobs, shown.holding.copy(), types, now)])
    pieces, places = cut(stretches, cuts)
    busy = _busy(store, past.jobs.row, cuts)[places, pieces.job]
    held = _held(past.jobs, pieces, busy, epoch)
    since, until = _moment(since_s), _moment(until_s)
    return usage_of(held, by, prices=prices, since=since, until=until)


def _moment(unix_s: float | None) -> datetime | None:
    return None if unix_s is None else datetime.fromtimestamp(unix_s, UTC)


def device_types(nodes: Iterable[NodeRow], *, by_node: bool = False) -> Mapping[int, DeviceKind]:
    """Type of each device, by its number, and its node where that is asked for."""
    return {
        node.first_device + place: DeviceKind(device.type, node.name if by_node else UNKNOWN)
        for node in nodes
        for place, device in enumerate(node.info.devices)
    }


class DeviceKind(NamedTuple):
    """What distinguishes devices."""

    gpu_type: str = UNKNOWN
    node: str = UNKNOWN


# -- past and present holdings -----------------------------------------------------------------------


@dataclass(frozen=True)
class HeldStretches:
    """Devices of one kind that jobs held for a time: columns of one length."""

    job: Array
    """Place of the job among those on record."""
    start_s: Floats
    end_s: Floats
    gpus: Floats
    gpu_type: Array
    """Names, as objects."""
    node: Array
    """Names, as objects; UNKNOWN if they are not asked for."""
    failed: Bools
    lost_part: Floats
    """Seconds of work lost at its end; times the GPUs that the job asked for, the lost GPU-seconds."""

    def at(self, places: Array) -> HeldStretches:
        """The stretches at `places`."""
        return HeldStretches(*(getattr(self, field.name)[places] for field in fields(self)))


def joined(parts: Sequence[HeldStretches]) -> HeldStretches:
    """All of them, in their order."""
    names = [field.name for field in fields(HeldStretches)]
    return HeldStretches(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def cut(stretches: HeldStretches, cuts: Sequence[float]) -> tuple[HeldStretches, Array]:
    """Parts of stretches between neighbouring moments, and the places of these; time outside is left out.

    Parts of a stretch stand together.
    """
    inside, last = [], len(cuts) - 2
    for place, (low_s, high_s) in enumerate(pairwise(cuts)):
        starts_here = (low_s <= stretches.start_s) & (stretches.start_s < high_s)
        if place == last:
            starts_here |= stretches.start_s == high_s
        reaches_in = (stretches.start_s < low_s) & (low_s < stretches.end_s)
        inside.append(np.flatnonzero(starts_here | reaches_in))
    of, places = np.concatenate(inside), np.repeat(np.arange(len(inside)), [len(one) for one in inside])
    order = np.lexsort((places, of))
    of, places = of[order], places[order]
    whole, lows, highs = stretches.at(of), np.array(cuts[:-1])[places], np.array(cuts[1:])[places]
    parts = HeldStretches(
        job=whole.job,
        start_s=np.maximum(whole.start_s, lows),
        end_s=np.minimum(whole.end_s, highs),
        gpus=whole.gpus,
        gpu_type=whole.gpu_type,
        node=whole.node,
        failed=whole.failed,
        lost_part=np.where(whole.end_s <= highs, whole.lost_part, 0.0),
    )
    return parts, places


def _past(past: PastColumns, types: Mapping[int, DeviceKind]) -> HeldStretches:
    """Holdings that have ended."""
    held = past.intervals
    kinds = {text: _by_type(json.loads(text), types) for text in dict.fromkeys(held.devices)}
    parts = [kinds[text] for text in held.devices]
    counts = np.array([len(part) for part in parts], dtype=np.int64)
    flat = [one for part in parts for one in part]
    of = np.repeat(np.arange(len(parts)), counts)
    part = np.array([one.part for one in flat], dtype=np.float64)
    number = np.array([one.of for one in flat], dtype=np.int64)
    return HeldStretches(
        job=np.searchsorted(past.jobs.row, held.row)[of],
        start_s=held.start_s[of],
        end_s=held.end_s[of],
        gpus=part * number * held.share[of],
        gpu_type=_objects(one.kind.gpu_type for one in flat),
        node=_objects(one.kind.node for one in flat),
        failed=_came_to_nothing(held)[of],
        lost_part=part * held.lost_work_s[of],
    )


def _came_to_nothing(held: PastIntervalColumns) -> Bools:
    """Whether the attempt of each failed, in this stretch of it or in a later one."""
    attempts = held.row * (int(held.attempt.max(initial=0)) + 1) + held.attempt
    failed = np.array([how in CAME_TO_NOTHING for how in held.how], dtype=np.bool_)
    return np.isin(attempts, attempts[failed])


def _running(
    jobs: PastJobColumns, holding: Mapping[int, AttemptRow], types: Mapping[int, DeviceKind], now: float
) -> HeldStretches:
    """Present holdings, since they were last given or adjusted."""
    held = []
    for place in np.flatnonzero(jobs.phase == Phase.RUNNING).tolist():
        attempt = holding.get(int(jobs.row[place]))
        if attempt is not None and attempt.grant is not None:
            parts = _by_type(attempt.grant[1], types)
            held += [(place, one, one.part * one.of * float(attempt.grant[2])) for one in parts]
    job = np.array([place for place, _, _ in held], dtype=np.int64)
    return HeldStretches(
        job=job,
        start_s=np.minimum(np.maximum(jobs.since_s[job], jobs.adjusted_s[job]), now),
        end_s=np.full(len(held), now),
        gpus=np.array([gpus for _, _, gpus in held], dtype=np.float64),
        gpu_type=_objects(one.kind.gpu_type for _, one, _ in held),
        node=_objects(one.kind.node for _, one, _ in held),
        failed=np.zeros(len(held), dtype=np.bool_),
        lost_part=np.zeros(len(held)),
    )


@dataclass(frozen=True, slots=True)
class _TypePart:
    """The part of a job's `of` devices that are of one kind."""

    kind: DeviceKind
    part: float
    of: int


def _by_type(devices: Sequence[int], types: Mapping[int, DeviceKind]) -> list[_TypePart]:
    """One entry of no GPUs for a job without devices."""
    if not devices:
        return [_TypePart(DeviceKind(), 1.0, 0)]
    kinds = [types.get(device, DeviceKind()) for device in devices]
    return [_TypePart(kind, kinds.count(kind) / len(kinds), len(kinds)) for kind in dict.fromkeys(kinds)]


# -- as it is counted --------------------------------------------------------------------------------


def _busy(store: Store, rows: Array, cuts: Sequence[float]) -> Floats:
    """Mean busy part of each job's devices between each two moments; NaN where not measured."""
    busy = np.full((len(cuts) - 1, len(rows)), np.nan)
    for place, (begins_s, ends_s) in enumerate(pairwise(cuts)):
        said = store.busy(begins_s, ends_s)
        known = np.array(list(said), dtype=np.int64)
        at = np.minimum(np.searchsorted(rows, known), max(len(rows) - 1, 0))
        is_there = rows[at] == known if len(rows) else np.zeros(len(known), dtype=np.bool_)
        busy[place, at[is_there]] = np.array(list(said.values()), dtype=np.float64)[is_there]
    return busy


def _held(jobs: PastJobColumns, pieces: HeldStretches, busy: Floats, epoch: datetime) -> Held:
    """The columns that usage is counted from."""
    of, outcomes = pieces.job, _outcomes(jobs)
    sizes = {gpus: size_name(gpus) for gpus in np.unique(jobs.gpus).tolist()}
    waited_s = np.maximum(jobs.first_start_s - jobs.submit_s, 0.0)
    names = {
        "tenant": [(tenant or UNKNOWN).partition("/")[0] for tenant in jobs.tenant],
        "subtenant": [tenant or UNKNOWN for tenant in jobs.tenant],
        "user": [user or UNKNOWN for user in jobs.user],
        "group": [group or UNKNOWN for group in jobs.group],
        "workload": [workload or UNKNOWN for workload in jobs.workload],
        "partition": [nodes or UNKNOWN for nodes in jobs.node_set],
        "qos": [UNKNOWN] * len(jobs.row),
        "size": [sizes[gpus] for gpus in jobs.gpus.tolist()],
        "outcome": outcomes,
    }
    places = of.tolist()
    return Held(
        source="the cluster",
        epoch=epoch,
        job=jobs.row[of],
        start_s=pieces.start_s,
        end_s=np.maximum(pieces.end_s, pieces.start_s),
        gpus=pieces.gpus,
        failed=(pieces.failed | _is(outcomes, "failed")[of]).astype(np.float64),
        cancelled=_is(outcomes, "cancelled")[of].astype(np.float64),
        lost_gpu_s=pieces.lost_part * jobs.gpus[of] * jobs.gpu_share[of],
        busy=busy,
        wait_s=waited_s[of],
        is_known=np.ones(len(of), dtype=np.bool_),
        has_starts=True,
        names={name: [column[place] for place in places] for name, column in names.items()}
        | {"type": pieces.gpu_type.tolist(), "node": pieces.node.tolist()},
    )


def _outcomes(jobs: PastJobColumns) -> list[str]:
    ended = np.isfinite(jobs.finish_s).tolist()
    living = ["running" if phase == Phase.RUNNING else "waiting" for phase in jobs.phase.tolist()]
    return [
        OUTCOMES.get(state, "FAILED").lower() if is_over else alive
        for state, is_over, alive in zip(jobs.state, ended, living, strict=True)
    ]


def _is(names: Sequence[str], name: str) -> Bools:
    return np.array([one == name for one in names], dtype=np.bool_)


def _objects(values: Iterable[str]) -> Array:
    listed = list(values)
    column = np.empty(len(listed), dtype=object)
    column[:] = listed
    return column
