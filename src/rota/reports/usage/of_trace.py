"""GPUs held by the jobs of a trace.

A job holds GPUs from its start, or from its submission if no start is recorded, for the total run time of its
attempts.  It holds the number it asked for, evenly on the nodes that it ran on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rota.model.calendar import epoch_of
from rota.model.columns import Bools, Floats
from rota.model.jobs import PREEMPTED, Outcome
from rota.model.trace import Trace
from rota.model.whole_gpus import types_held
from rota.reports.usage.busy import utilisation_of
from rota.reports.usage.gpu_hours import Held
from rota.reports.wording import size_name
from rota.wire.usage import UNKNOWN


def held_of(trace: Trace, *, by_node: bool = False) -> Held:
    """One stretch for each job; with `by_node` one for each of its nodes."""
    whole = _held(trace)
    return _on_nodes(whole, trace) if by_node else whole


def _held(trace: Trace) -> Held:
    truth, jobs, seen = trace.truth, trace.jobs, trace.observed
    has_starts = seen is not None and bool(np.isfinite(seen.start_s).any())
    start_s = seen.start_s if seen is not None and has_starts else jobs.submit_s
    wait_s = np.maximum(start_s - jobs.submit_s, 0.0) if has_starts else np.full(len(trace), np.nan)
    ran_s = trace.ran_s()
    run_s = np.nan_to_num(ran_s)
    start_s = np.where(np.isfinite(start_s), start_s, jobs.submit_s)
    return Held(
        source=trace.source,
        epoch=epoch_of(trace.calendar),
        job=np.arange(len(trace)),
        start_s=start_s,
        end_s=start_s + run_s,
        gpus=jobs.gpus * jobs.gpu_share,
        failed=_failed(trace, run_s),
        cancelled=(truth.outcome == Outcome.CANCELLED).astype(np.float64),
        lost_gpu_s=_lost_gpu_s(trace),
        busy=utilisation_of(trace)[0],
        wait_s=wait_s,
        is_known=np.isfinite(ran_s),
        has_starts=has_starts,
        remarks=trace.remarks,
        names=_names(trace),
    )


def _on_nodes(held: Held, trace: Trace) -> Held:
    """Each stretch cut into equal parts, one for each node that the trace names."""
    nodes = {} if trace.observed is None else trace.observed.nodes
    names = [nodes.get(row) or (UNKNOWN,) for row in range(len(trace))]
    count = np.array([len(of) for of in names], dtype=np.int64)
    of = np.repeat(np.arange(len(trace)), count)
    columns = {
        name: getattr(held, name)[of]
        for name in ("job", "start_s", "end_s", "failed", "cancelled", "busy", "wait_s", "is_known")
    }
    said = {name: [values[row] for row in of.tolist()] for name, values in held.names.items()}
    return replace(
        held,
        **columns,
        gpus=held.gpus[of] / count[of],
        lost_gpu_s=None if held.lost_gpu_s is None else held.lost_gpu_s[of] / count[of],
        names=said | {"node": [node for of_job in names for node in of_job]},
    )


def _failed(trace: Trace, run_s: Floats) -> Floats:
    """The part of each job's time that failed: if the job did, all but the attempts that were interrupted."""
    lost_s = np.zeros(len(trace))
    for row, runs in trace.truth.failures.items():
        lost_s[row] = sum(runs)
    in_all_s = np.nan_to_num(trace.truth.run_s())
    lost_s = np.minimum(np.where(trace.truth.outcome == Outcome.FAILED, in_all_s, lost_s), run_s)
    part: Floats = np.divide(lost_s, run_s, out=np.zeros(len(trace)), where=run_s > 0.0)
    return part


def _lost_gpu_s(trace: Trace) -> Floats | None:
    """GPU-seconds in preempted attempts; None if there were none."""
    lost_s = np.zeros(len(trace)) if trace.observed is None else trace.observed.interrupted_s(PREEMPTED)
    lost_s = np.where(trace.truth.outcome == Outcome.PREEMPTED, np.nan_to_num(trace.ran_s()), lost_s)
    return lost_s * trace.jobs.gpus * trace.jobs.gpu_share if lost_s.any() else None


def _names(trace: Trace) -> dict[str, Sequence[str]]:
    jobs, rows = trace.jobs, range(len(trace))
    users = [jobs.name_of("tenant", row) or UNKNOWN for row in rows]
    qos = {} if trace.observed is None else trace.observed.qos
    running = _running(trace)
    outcomes = trace.truth.outcome.tolist()
    return {
        "tenant": [name.partition("/")[0] for name in users],
        "subtenant": users,
        "user": users,
        "group": [jobs.name_of("group", row) or UNKNOWN for row in rows],
        "workload": [jobs.name_of("workload", row) or UNKNOWN for row in rows],
        "partition": [jobs.name_of("node_set", row) or UNKNOWN for row in rows],
        "qos": [qos.get(row) or UNKNOWN for row in rows],
        "node": [UNKNOWN] * len(trace),
        "type": [name or UNKNOWN for name in types_held(trace)],
        "size": [size_name(gpus) for gpus in jobs.gpus.tolist()],
        "outcome": ["running" if running[row] else Outcome(outcomes[row]).name.lower() for row in rows],
    }


def _running(trace: Trace) -> Bools:
    """Jobs that began and have no end, where others have one."""
    if trace.observed is None or not np.isfinite(trace.observed.end_s).any():
        return np.zeros(len(trace), dtype=np.bool_)
    going: Bools = np.isfinite(trace.observed.start_s) & np.isnan(trace.observed.end_s)
    return going
