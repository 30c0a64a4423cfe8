"""Remarks on a comparison: about jobs that did not run, and about a slow engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from rota.knowledge.needs import Knowledge, Provenance
from rota.model.cluster import Cluster
from rota.model.feasible import feasible_rows, need_of, never_fits
from rota.model.gpu_slices import gpu_part, slice_of
from rota.model.record import Record
from rota.model.trace import Trace
from rota.model.units import format_duration, plural
from rota.reports.occupancy import available_gpu_s, paid_nodes, whole_gpus_of, whole_run
from rota.scheduler.early_plans import plans_too_early
from rota.scheduler.guard.live_rules import MinimumRun
from rota.scheduler.world import How
from rota.table.compiled import is_compiled

MOST_KINDS = 3
"""Reasons that are spelled out."""
LONG_S = 30.0
"""Least CPU seconds of the engine for a remark that compiling it would help."""


def refused_remarks(trace: Trace, cluster: Cluster) -> Iterator[str]:
    """Jobs that this cluster could never run, and why, by kind of reason."""
    rows = np.flatnonzero(~feasible_rows(trace.jobs, cluster)).tolist()
    by_code: dict[str, list[int]] = {}
    for row in rows:
        by_code.setdefault(never_fits(cluster, need_of(trace.jobs, row))[0].code, []).append(row)
    for kind in list(by_code.values())[:MOST_KINDS]:
        why = never_fits(cluster, need_of(trace.jobs, kind[0]))[0].sentence()
        more = f" (and {plural(len(kind) - 1, 'job')} like it)" if len(kind) > 1 else ""
        yield f"Refused, since this cluster could never run it: job {trace.jobs.ids[kind[0]]}: {why}{more}."


def due_before_remarks(trace: Trace) -> Iterator[str]:
    """Jobs with deadlines before their submission: mostly lengths that were written as moments."""
    jobs = trace.jobs
    late = np.flatnonzero(jobs.deadline_s <= jobs.submit_s)
    if len(late):
        row, verb = int(late[0]), "is" if len(late) == 1 else "are"
        before = format_duration(jobs.submit_s.item(row) - jobs.deadline_s.item(row))
        yield (
            f"{plural(len(late), 'job')} {verb} due no later than submitted, first job {jobs.ids[row]} "
            f"({before} before): a deadline is a moment of the trace, not a length."
        )


def run_remarks(records: Sequence[Record], trace: Trace, cluster: Cluster) -> Iterator[str]:
    """All remarks about the runs of `trace` on `cluster`."""
    yield from slices_remarks(cluster)
    yield from limit_remarks(records, trace)
    yield from policy_refusal_remarks(records, trace, cluster)
    yield from stuck_remarks(records)
    yield from early_stops_remarks(records)
    yield from nodes_remarks(records)
    yield from slow_engine_remarks(records)


def slices_remarks(cluster: Cluster) -> Iterator[str]:
    """How MIG slices of the cluster count in GPU-seconds and utilisation."""
    of_type = np.bincount(cluster.device_type, minlength=len(cluster.type_names)).tolist()
    slices = {name: n for name, n in zip(cluster.type_names, of_type, strict=True) if n and slice_of(name)}
    if slices:
        counted, total = sum(n * gpu_part(name) for name, n in slices.items()), sum(slices.values())
        count = "counts" if total == 1 else "count"
        yield (
            f"{plural(total, 'MIG slice')} of this cluster {count} as {counted:.3g} GPUs in GPU-seconds and "
            "utilisation, each by its part of a GPU; jobs ask for slices."
        )


def limit_remarks(records: Sequence[Record], trace: Trace) -> Iterator[str]:
    """Policies that take durations from users, where some jobs have no time limit."""
    silent = int(np.isnan(trace.jobs.limit_s).sum())
    readers = [record.policy for record in records if _takes_limits(record)]
    if silent and readers:
        names, states = list(dict.fromkeys(readers)), "states" if silent == 1 else "state"
        receive = f"{', '.join(names)} {'receives' if len(names) == 1 else 'receive'}"
        yield (
            f"{silent:,} of {plural(len(trace), 'job')} {states} no time limit: in its place {receive} a "
            "prediction, from similar jobs that ended before."
        )


def _takes_limits(record: Record) -> bool:
    knowledge = record.provenance.get("knowledge")
    return isinstance(knowledge, Mapping) and knowledge.get(Knowledge.DURATION.value) == Provenance.USER.value


def policy_refusal_remarks(records: Sequence[Record], trace: Trace, cluster: Cluster) -> Iterator[str]:
    """The number of jobs that a policy refused although the cluster could run them, and why the first."""
    hopeless = np.flatnonzero(~feasible_rows(trace.jobs, cluster)).tolist()
    for record in records:
        is_refused = (pl.col("state") == "REJECTED") & (pl.col("why") != "") & ~pl.col("job").is_in(hopeless)
        refused = record.jobs.filter(is_refused) if record.ranked else None
        if refused is None or refused.is_empty():
            continue
        first = refused.row(0, named=True)
        yield (
            f"{record.policy} refused {plural(refused.height, 'job')}, first job {first['job_id']}: "
            f"{first['why']}."
        )


def stuck_remarks(records: Sequence[Record]) -> Iterator[str]:
    """Policies with jobs that never ran to their end, and what the first such job lacked."""
    for record in records:
        stuck = record.jobs.filter(pl.col("state").is_in(["PENDING", "RUNNING"])) if record.ranked else None
        if stuck is None or stuck.is_empty():
            continue
        first = stuck.row(0, named=True)
        verb = "is" if stuck.height == 1 else "are"
        yield (
            f"{record.policy}: {plural(stuck.height, 'job')} {verb} left for ever, first job "
            f"{first['job_id']}{': ' if first['why'] else ''}{first['why'] or ''}."
        )


def early_stops_remarks(records: Sequence[Record]) -> Iterator[str]:
    """Policies that promised deadlines by stopping jobs earlier than a live cluster does."""
    runs_s = MinimumRun().min_run_s
    for record in records:
        if not record.ranked or not plans_too_early(record.policy, runs_s):
            continue
        is_stop = pl.col("end").is_in([str(how) for how in (How.PREEMPTED, How.MIGRATED, How.RESIZED)])
        stops = record.intervals.filter(is_stop & (pl.col("end_s") - pl.col("start_s") < runs_s)).height
        if stops:
            yield (
                f"{record.policy} stopped, moved or resized jobs {plural(stops, 'time')} in their first "
                f"{format_duration(runs_s)}, which a live cluster does not (min_run): promises that are kept "
                f"here may break there; min_run_s={runs_s:g} of elasticflow plans without."
            )


def nodes_remarks(records: Sequence[Record]) -> Iterator[str]:
    """The number of nodes, and their cost in GPU-hours, where nodes came and went."""
    for record in records:
        paid = paid_nodes(record)
        if paid is not None:
            span = whole_run(record)
            hours = available_gpu_s(record, span) / 3600.0
            all_hours = whole_gpus_of(record) * span.length_s / 3600.0
            within = paid.within(span.start_s, span.end_s).value
            yield (
                f"{record.policy}: {within.min():.0f} to {within.max():.0f} nodes, {hours:,.1f} GPU-hours "
                f"paid, {all_hours:,.1f} if all nodes had been there all the time."
            )


def slow_engine_remarks(records: Sequence[Record]) -> Iterator[str]:
    """The time that an interpreted engine took, if it took long."""
    spent_s = sum(record.engine_seconds for record in records if record.ranked)
    if spent_s >= LONG_S and not is_compiled():
        yield (
            f"The engine took {spent_s:.0f} s of CPU, interpreted; compiled it takes about half: "
            "`pip install .`, or `make setup` in a clone, where there is a C compiler (docs/performance.md)."
        )


def idle_remarks(records: Sequence[Record], cluster: object) -> list[str]:
    """A remark if no job ever waited: then all policies look equal."""
    ranked = [record for record in records if record.ranked]
    if len(ranked) < 2 or any(_waited_s(record) > 0 for record in ranked):
        return []
    why = "auto has room for all that ran at once in the trace"
    if cluster != "auto":
        why = "this cluster has room for all that ever ran at once, so that policies do not differ"
    return [f"No job ever waited for a GPU: {why}; try a smaller cluster."]


def _waited_s(record: Record) -> float:
    """Seconds that jobs waited in all once they were eligible."""
    held_s = (pl.col("eligible_s") - pl.col("submit_s")).fill_null(0.0)
    waited_s: float = record.jobs.select((pl.col("waiting_s") - held_s).clip(0.0).sum()).item()
    return waited_s
