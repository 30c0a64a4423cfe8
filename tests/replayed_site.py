"""Dumps of a made-up site whose policy is known: what `sacct_site` asks for, started by a policy of ours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import sacct_site
from rota.api.run_setup import make_setting
from rota.model.cluster import Cluster, NodeShape
from rota.model.columns import Bools
from rota.model.trace import Trace
from rota.traces.registry import find
from rota.traces.source import TraceSource
from rota.worlds.simulated.run import run

CLUSTER = Cluster.build(
    [
        NodeShape(count=1, gpus=8, gpu_type=kind, names=(f"{name}-01",), labels=(name,))
        for name, kind in sacct_site.PARTITIONS
    ]
)
SITE = sacct_site.Site(nodes=1, days=7, jobs=350, usage=False, fail_rate=0.0)
COSTS = "start=30s"
LATE_S = 86_400.0


def trace_of(text: str) -> Trace:
    """The trace in the text of a dump."""
    source = TraceSource("site.txt", text.encode())
    return find(source, None).read(source)


def dump(policy: str, *, seed: int = 0, qos: bool = False, late: int = 0) -> str:
    """A dump of two partitions with a node of eight GPUs each, under `policy`, with costs of starts.

    `qos`: a fifth of the jobs is of a QOS that comes first, and the scheduler noted priorities that say so.
    `late`: jobs of at least this many GPUs are held back for a day, which no policy of ours does; 0 for none.
    """
    head, *lines = _asked(seed, qos)
    trace = trace_of("\n".join([head, *lines]))
    held = (trace.jobs.gpus >= late) if late else np.zeros(len(trace), dtype=np.bool_)
    start_s = _starts(policy, trace, held)
    place = {id: row for row, id in enumerate(trace.jobs.ids)}
    rows = [dict(zip(head.split("|"), line.split("|"), strict=True)) for line in lines]
    first = min(np.datetime64(cells["Submit"]) for cells in rows)
    shift_s = float((first - sacct_site.START) / np.timedelta64(1, "s"))
    out = [head]
    for cells in rows:
        begin_s = shift_s + round(float(start_s[place[cells["JobIDRaw"]]]))
        cells["Start"] = sacct_site._stamp(begin_s)
        cells["End"] = sacct_site._stamp(begin_s + int(cells["ElapsedRaw"]))
        cells["NodeList"] = f"{cells['Partition']}-01"
        out.append("|".join(cells.values()))
    return "\n".join(out) + "\n"


def _asked(seed: int, qos: bool) -> list[str]:
    """Header and rows as asked for; with QOS and noted priorities if wanted."""
    head, *lines = sacct_site.dump(seed, site=SITE).splitlines()
    if not qos:
        return [head, *lines]
    rng = np.random.default_rng(seed)
    is_high = rng.random(len(lines)) < 0.2
    noted = rng.integers(1000, 1400, len(lines)) + 100_000 * is_high
    named = [("high" if high else "normal", value) for high, value in zip(is_high, noted, strict=True)]
    return [f"{head}|QOS|Priority", *(f"{line}|{q}|{p}" for line, (q, p) in zip(lines, named, strict=True))]


def _starts(policy: str, trace: Trace, held: Bools) -> np.ndarray:
    """When each job of `trace` starts under `policy`, if those `held` come a day later than they say."""
    moved = replace(trace, jobs=replace(trace.jobs, submit_s=trace.jobs.submit_s + LATE_S * held))
    order = np.argsort(moved.jobs.submit_s, kind="stable")
    setting = make_setting(costs=COSTS, knowledge={"duration": "user"})
    record = run(policy, moved.take(order), CLUSTER, setting)
    start_s = np.empty(len(trace))
    start_s[order] = record.jobs["start_s"].to_numpy()
    return start_s
