"""Rows of the store as people see them: names and Unix times."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from rota.knowledge.seen import JobObservations
from rota.knowledge.speed_sizes import BatchesAsked, SizeSpeed, speeds_by_size
from rota.server.store.ended import EndedRow
from rota.server.store.rows import AttemptRow, CostRow, EventRow, JobRow, NodeRow
from rota.wire.job import JobSpec
from rota.wire.sync import ProgressReport, Usage
from rota.wire.views import AttemptView, CostView, DeviceView, EventView, JobView, NodeView, SizeView
from rota.worlds.live.holds import OFFERED

STOPPED = "its agent was stopped; jobs there run on, and no others start until it is back"
OVER = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "COMPLETING"})
"""States of jobs that will not run again."""
MOST_SIZES = 8
"""That are predicted: powers of two and the ends of the range, where there are more."""


def is_over(state: str) -> bool:
    """True for jobs that have ended and left nothing behind."""
    return state in OVER and state != "COMPLETING"


def job_view(row: JobRow, attempt: AttemptRow | None, epoch_s: float, now: float) -> JobView:
    """One job; `attempt` is its living attempt, if there is one, `now` the moment in the cluster's time."""
    state, asked = row.now, row.asked
    is_running = state.state == "RUNNING"
    run_s = state.run_s + (now - state.since_s if is_running else 0.0)
    end_s = now if state.finish_s is None else state.finish_s
    left_s = (state.measured or {}).get("leaving_s", 0.0)
    promise = (state.measured or {}).get("promise") or (None, None)
    offer = _offer(state.hold)
    places = _places(attempt) if attempt is not None and is_running else []
    return JobView(
        id=row.id,
        row=row.row,
        name=asked.name,
        user=row.user,
        tenant=asked.tenant,
        state=state.state,
        reason=state.reason,
        gpus=asked.gpus,
        gpus_now=sum(len(place["devices"]) for place in places),
        nodes=[place["name"] for place in places],
        devices=_devices(places),
        share=float(attempt.grant[2]) if attempt is not None else asked.gpu_share,
        priority=asked.priority,
        submit_s=epoch_s + row.submit_s,
        start_s=_unix(state.first_start_s, epoch_s),
        since_s=epoch_s + state.since_s if is_running else None,
        end_s=_unix(state.finish_s, epoch_s),
        run_s=run_s,
        gpu_s=state.service + (state.service_rate * (now - state.since_s) if is_running else 0.0),
        waiting_s=max(0.0, end_s - left_s - row.submit_s - run_s),
        time_s=asked.limit_s,
        deadline_s=_unix(asked.deadline_s, epoch_s),
        promised_s=_unix(promise[0], epoch_s),
        expected_s=_unix(promise[1], epoch_s),
        offered_s=_unix(offer.get("requested"), epoch_s),
        offered_until_s=_unix(offer.get("until_s"), epoch_s),
        attempt=state.attempt,
        preemptions=state.preemptions,
        failures=state.failures,
        exit_code=state.exit_code,
        signal=state.signal,
        cause=state.cause,
        group=asked.group,
        workload=asked.workload,
        idle_since_s=_unix((state.measured or {}).get("idle_since_s"), epoch_s) if is_running else None,
    )


def ended_view(row: EndedRow, share: float, epoch_s: float) -> JobView:
    """One job that is over, as `job_view` has it; `share` is that of each device."""
    measured = json.loads(row.measured) if row.measured and _SAID.search(row.measured) else {}
    promise = measured.get("promise") or (None, None)
    waited_s = row.finish_s - measured.get("leaving_s", 0.0) - row.submit_s - row.run_s
    offer = _offer(json.loads(row.hold) if row.hold != "[]" else ())
    return JobView(
        id=row.id,
        row=row.row,
        name=row.name,
        user=row.user,
        tenant=row.tenant,
        state=row.state,
        reason=row.reason,
        gpus=row.gpus,
        share=share,
        priority=row.priority,
        submit_s=epoch_s + row.submit_s,
        start_s=_unix(row.first_start_s, epoch_s),
        end_s=epoch_s + row.finish_s,
        run_s=row.run_s,
        gpu_s=row.service,
        waiting_s=max(0.0, waited_s),
        time_s=row.limit_s,
        deadline_s=_unix(row.deadline_s, epoch_s),
        promised_s=_unix(promise[0], epoch_s),
        expected_s=_unix(promise[1], epoch_s),
        offered_s=_unix(offer.get("requested"), epoch_s),
        offered_until_s=_unix(offer.get("until_s"), epoch_s),
        attempt=row.attempt,
        preemptions=row.preemptions,
        failures=row.failures,
        exit_code=row.exit_code,
        signal=row.signal,
        cause=row.cause,
        group=row.group,
        workload=row.workload,
    )


_SAID = re.compile('"(?:leaving_s|promise)":')
"""Of an ended job's measurements, all that lists show."""


def _offer(holds: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The later deadline that a job may have; empty if none was offered."""
    return next((hold for hold in holds if hold["kind"] == OFFERED), {})


def _unix(moment: float | None, epoch_s: float) -> float | None:
    return None if moment is None else epoch_s + moment


def _places(attempt: AttemptRow) -> list[dict[str, Any]]:
    places: list[dict[str, Any]] = attempt.parts["places"]
    return places


def _devices(places: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{place['name']}:{index}" for place in places for index in place["devices"]]


def attempt_view(row: AttemptRow, epoch_s: float) -> AttemptView:
    """One attempt."""
    places = _places(row)
    exit = row.exit or {}
    return AttemptView(
        number=row.number,
        state=row.state,
        nodes=[place["name"] for place in places],
        devices=_devices(places),
        share=float(row.grant[2]),
        wanted_s=epoch_s + row.wanted_s,
        start_s=_unix(row.start_s, epoch_s),
        end_s=_unix(row.end_s, epoch_s),
        end=row.how,
        exit_code=exit.get("code"),
        signal=exit.get("signal"),
        cause=row.cause,
        progress=None if row.progress is None else ProgressReport(**row.progress),
        usage=None if row.usage is None else Usage(**row.usage),
        cpu_s=_sum_of_ends(places, "cpu_s"),
        peak_gib=_sum_of_ends(places, "peak_gib"),
        costs=dict(row.costs or {}),
        lost_s=row.parts.get("lost_s", 0.0),
    )


def _sum_of_ends(places: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """What its parts said at their end; None if none did."""
    said = [value for place in places if (value := (place["end"] or {}).get(name)) is not None]
    return sum(said) if said else None


def event_view(row: EventRow, epoch_s: float) -> EventView:
    """One line of the audit."""
    return EventView(
        seq=row.seq, at_s=epoch_s + row.at_s, who=row.who, kind=row.kind, job=row.job, text=row.text
    )


def node_state(row: NodeRow, *, is_busy: bool) -> str:
    """`up`, `draining` while jobs are still there, `drained`, `away`, `lost`."""
    return "draining" if row.state == "drained" and is_busy else row.state


def node_view(
    row: NodeRow,
    jobs: Mapping[str, AttemptRow],
    held: Mapping[str, AttemptRow],
    seen_s: float | None,
    epoch_s: float,
) -> NodeView:
    """One machine; `jobs` are the attempts (by job id) with a grant there, `held` those suspended there."""
    devices = [DeviceView(device=f"{row.name}:{device.index}", info=device) for device in row.info.devices]
    suspended_gib = 0.0
    for job_id, attempt in jobs.items():
        for place in _places(attempt):
            for index in place["devices"] if place["name"] == row.name else ():
                view = devices[index]
                view.jobs.append(job_id)
                view.granted += float(attempt.grant[2])
                usage = attempt.usage or {}
                if (gib := usage.get("gpu_memory_gib")) is not None:  # its own, on all its devices there
                    view.memory_used_gib = (view.memory_used_gib or 0.0) + gib / len(place["devices"])
                if row.info.kind != "cpu":
                    view.utilisation = usage.get("gpu_utilisation", view.utilisation)
                elif usage:  # of a slot each job on it obtains its part
                    view.utilisation = (view.utilisation or 0.0) + usage["cpu_cores"] / len(place["devices"])
    for job_id, attempt in held.items():
        for place in _places(attempt):
            if place["name"] == row.name:
                suspended_gib += place["suspended_gib"]
                for index in place["devices"]:
                    devices[index].suspended.append(job_id)
    used = sum(view.granted for view in devices)
    return NodeView(
        name=row.name,
        state=node_state(row, is_busy=bool(jobs)),
        reason=STOPPED if row.state == "away" else row.reason or row.info.trouble,
        kind=row.info.kind,
        gpus=len(devices),
        gpus_used=used,
        cpus=row.info.cpus,
        memory_gib=row.info.memory_gib,
        suspended_gib=suspended_gib,
        seen_s=_unix(seen_s, epoch_s),
        version=row.info.version,
        devices=devices,
        capabilities=row.info.capabilities,
    )


def size_views(spec: JobSpec, measured: Mapping[str, Any], nodes: Sequence[NodeRow]) -> list[SizeView]:
    """Speeds by size of a job with this spec, from its record; empty if no speed was reported."""
    observed = JobObservations.of(measured.get("observed"))
    if not observed.speeds:
        return []
    asked = BatchesAsked(_number(spec.batch_size), _number(spec.batch_max), observed.noise)
    return [_size_view(one) for one in speeds_by_size(observed.speeds, _counts(spec), _largest(nodes), asked)]


def _counts(spec: JobSpec) -> list[int]:
    """Sizes that it can run on."""
    low, high = spec.range
    counts = [low, spec.gpus, *range(low, high + 1, spec.gpus_step), high]
    if spec.counts != "any" or len(set(counts)) > MOST_SIZES:
        counts = [count for count in counts if count in (low, high, spec.gpus) or not count & (count - 1)]
    return sorted(set(counts))


def _largest(nodes: Sequence[NodeRow]) -> dict[str, int]:
    """GPUs of the largest node of each type."""
    most: dict[str, int] = {}
    for node in nodes:
        for kind in {device.type for device in node.info.devices}:
            count = sum(device.type == kind for device in node.info.devices)
            most[kind] = max(most.get(kind, 0), count)
    return most


def _size_view(one: SizeSpeed) -> SizeView:
    kind, nodes, gpus, batch = one.shape
    return SizeView(
        gpu_type=kind,
        nodes=nodes,
        gpus=gpus,
        batch_size=batch or None,
        speed=one.speed,
        goodput=None if math.isnan(one.goodput) else one.goodput,
        provenance=one.provenance.value,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def cost_views(rows: Iterable[CostRow]) -> list[CostView]:
    """Medians of each kind: of all jobs first, then of each workload that has a name."""
    groups: dict[tuple[str, str], list[CostRow]] = {}
    every: dict[str, list[CostRow]] = {}
    for row in rows:
        every.setdefault(row.kind, []).append(row)
        if row.workload:
            groups.setdefault((row.kind, row.workload), []).append(row)
    views = [_view(kind, None, of_kind) for kind, of_kind in sorted(every.items())]
    return views + [_view(*group, of_group) for group, of_group in sorted(groups.items())]


def _view(kind: str, workload: str | None, rows: list[CostRow]) -> CostView:
    moved = [row.bytes for row in rows if row.bytes]
    return CostView(
        kind=kind,
        workload=workload,
        count=len(rows),
        seconds=median(row.seconds for row in rows),
        bytes=median(moved) if moved else 0.0,
    )
