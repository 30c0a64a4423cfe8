"""How large a cluster a trace needs, and the cluster that a command line names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from rota.arguments import Argument, instance_of, is_file, takes
from rota.errors import InputError
from rota.model.cluster import ANY_TYPE, Cluster, NodeShape, parse_cluster
from rota.model.cluster_file import load_cluster
from rota.model.columns import Bools, Floats, Ints
from rota.model.trace import Trace
from rota.traces.lucid import read_vcs
from rota.traces.openb import read_nodes
from rota.traces.recorded_nodes import recorded_nodes
from rota.traces.source import load


@dataclass(frozen=True)
class PeakDemand:
    """The most GPUs that jobs of a trace hold at one moment, of each type and in all."""

    gpus_by_type: Mapping[str, int]
    gpus: int
    why: str
    """One sentence: which times the figures are based on."""


def peak_demand(trace: Trace) -> PeakDemand:
    """Most GPUs held at once, by type.

    Uses the recorded starts and ends if the trace has them; otherwise every job runs from its submission, as
    if no job waited. A job counts for the type it ran on if that was recorded, else for the first type that
    it accepts.
    """
    jobs = trace.jobs
    began_s, ended_s, held, why = _held(trace)
    wanted_gpus = jobs.gpus * jobs.gpu_share
    type_code, type_names = _types(trace)
    peaks = {}
    for code, name in enumerate(type_names):
        of_type = held & (type_code == code) & (jobs.gpus > 0)
        if of_type.any():
            swept = sweep_peak(began_s[of_type], ended_s[of_type], wanted_gpus[of_type])
            # A job that ends at once still has to fit.
            peaks[name] = max(int(np.ceil(swept - 1e-9)), int(jobs.gpus[of_type].max()))
    rows = held & (jobs.gpus > 0)
    in_all = int(np.ceil(sweep_peak(began_s[rows], ended_s[rows], wanted_gpus[rows]) - 1e-9))
    return PeakDemand(peaks, max([in_all, *peaks.values()]), why)


def sweep_peak(began_s: Floats, ended_s: Floats, amount: Floats) -> float:
    """Largest sum of `amount` over intervals [began_s, ended_s) that overlap; all shapes (n,)."""
    moment_s = np.concatenate((ended_s, began_s))
    change = np.concatenate((-amount, amount))
    # Ends come first, so that equal moments free before they take.
    order = np.argsort(moment_s, kind="stable")
    return float(max(np.cumsum(change[order]).max(initial=0.0), 0.0))


def _held(trace: Trace) -> tuple[Floats, Floats, Bools, str]:
    """Begin and end of each job, which jobs ran, and a sentence about what was assumed."""
    run_s = np.nan_to_num(trace.ran_s(), posinf=0.0)
    if trace.observed is not None:
        began_s = trace.observed.start_s
        ended_s = np.where(np.isfinite(trace.observed.end_s), trace.observed.end_s, began_s + run_s)
        # A job of several attempts held nothing between them.
        ended_s = np.where(run_s > 0, np.fmin(ended_s, began_s + run_s), ended_s)
        ran = np.isfinite(began_s) & np.isfinite(ended_s)
        if ran.any():
            return began_s, np.maximum(ended_s, began_s), ran, "peak of GPUs held in the recorded run"
    began_s = trace.jobs.submit_s
    everyone = np.ones(len(trace), dtype=np.bool_)
    return began_s, began_s + run_s, everyone, "peak of GPUs held if every job started at its submission"


def _types(trace: Trace) -> tuple[Ints, tuple[str, ...]]:
    """Type code of each job (the type it ran on, or else the lowest it accepts), and the codes' names."""
    ran_on = trace.observed.types if trace.observed else {}
    names = tuple(dict.fromkeys([*trace.jobs.type_names, *ran_on.values()])) or (ANY_TYPE,)
    masks = trace.jobs.gpu_types
    lowest_bit = masks & -masks
    codes: Ints = np.log2(np.maximum(lowest_bit, 1)).astype(np.int64)
    place = {name: code for code, name in enumerate(names)}
    for row, name in ran_on.items():
        codes[row] = place[name]
    return codes, names


def auto_cluster(trace: Trace, gpus_per_node: int = 8) -> Cluster:
    """The nodes that the trace's jobs ran on, or equal nodes that hold its peak demand (`peak_demand`)."""
    if gpus_per_node < 1:
        raise InputError(f"a node of {gpus_per_node} GPUs cannot hold jobs; expected at least 1 per node")
    recorded = recorded_nodes(trace)
    if any(shape.gpus for shape in recorded):
        return Cluster.build(recorded)
    stated = _stated_nodes(trace, gpus_per_node)
    if stated:
        return Cluster.build(stated)
    peak = peak_demand(trace)
    if not peak.gpus_by_type:
        raise InputError(f"{trace.source} has no job with GPUs; give a cluster instead of auto")
    return Cluster.build(
        [
            NodeShape(count=-(-gpus // gpus_per_node), gpus=gpus_per_node, gpu_type=name)
            for name, gpus in peak.gpus_by_type.items()
        ]
    )


def _stated_nodes(trace: Trace, gpus_per_node: int) -> list[NodeShape]:
    """The nodes that the header of a log in Standard Workload Format states; none if it does not.

    If processors do not divide evenly among the nodes, or the number of nodes is not stated, the result is
    nodes of `gpus_per_node` and one for the rest.
    """
    if trace.format != "swf":
        return []
    processors, nodes = (_leading_number(trace.facts.get(name)) for name in ("MaxProcs", "MaxNodes"))
    if nodes and processors and processors % nodes == 0:
        return [NodeShape(count=nodes, gpus=processors // nodes)]
    whole, rest = divmod(processors, gpus_per_node)
    shapes = [(whole, gpus_per_node), (int(rest > 0), rest)]
    return [NodeShape(count=count, gpus=gpus) for count, gpus in shapes if count]


def _leading_number(said: object) -> int:
    """The number that a header line begins with; 0 if there is none."""
    match = re.match(r"\s*(\d+)", str(said))
    return int(match[1]) if match else 0


@takes(
    text=Argument("cluster", is_file, "a text such as '8x8:V100' (nodes x GPUs) or 'auto', or a file"),
    trace=Argument("trace", instance_of(Trace), "a Trace").or_none(),
)
def cluster_from(text: str | PathLike[str], trace: Trace | None = None) -> Cluster:
    """The cluster that `text` names: `80x8:V100`, `auto` (as large as `trace` needs), or a file.

    Files are Rota's own YAML, and CSV lists of nodes that come with traces: openb's, Lucid's `vc_config`.
    """
    text = fspath(text)
    if text == "auto":
        if trace is None:
            raise InputError("the cluster auto is sized by a trace; give a trace, or name the cluster")
        return auto_cluster(trace)
    if text.endswith((".yaml", ".yml")):
        return load_cluster(Path(text))
    if text.endswith((".csv", ".csv.gz")):
        return _listed(text)
    return parse_cluster(text)


def _listed(file: str) -> Cluster:
    """The cluster of a list of nodes, whose format is detected by its header."""
    header = load(file, "a node list").header()
    if header[:1] == ("sn",):
        return read_nodes(file)
    if header[1:] in (("num",), ("node num",)):
        return read_vcs(file)
    raise InputError.at(
        "is no list of nodes",
        file=file,
        row=1,
        expected="a header with sn, gpu, model (openb) or num (Lucid)",
    )
