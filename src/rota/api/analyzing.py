"""What a trace says about the cluster that made it, and what other policies would have made of its jobs."""

from __future__ import annotations

from os import PathLike

from rota.api.arguments import ARGUMENTS, CLUSTER
from rota.api.gains import Measured, with_gains
from rota.api.setting import parse_knowledge
from rota.arguments import WHOLE, Argument, instance_of, takes
from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.reports.findings.studies import Analysis, study
from rota.reports.findings.thresholds import Thresholds
from rota.traces import read
from rota.traces.capacity import cluster_from

_THRESHOLDS = Argument("set of thresholds", instance_of(str, Thresholds), "such as 'idle_utilisation=0.1'")


@takes(**{**ARGUMENTS, "cluster": CLUSTER.or_none(), "thresholds": _THRESHOLDS.or_none(), "replays": WHOLE})
def analyze(
    trace: str | PathLike[str] | Trace,
    *,
    cluster: str | PathLike[str] | Cluster | None = None,
    format: str | None = None,
    thresholds: str | Thresholds | None = None,
    replays: int = 0,
    knowledge: str = "duration=predicted",
    progress: Measured | None = None,
) -> Analysis:
    """All that the studies of `rota.reports.findings` find in `trace`.

    cluster     as for `simulate`; None takes what the jobs show of it, and replays run on that
    thresholds  `idle_utilisation=0.1,array_tasks=8`: from where on something is a fault
    replays     the gain of each system that addresses a finding is measured on so many jobs; 0: not at all
    knowledge   what the policies are told in these replays; an operator has no oracle

    Raises InputError for anything that is not as expected.
    """
    limits = Thresholds.parse(thresholds) if isinstance(thresholds, str) else thresholds or Thresholds()
    parse_knowledge(knowledge)  # also where no replay reads it: a mistake is told at once
    if replays < 0:
        raise InputError.at(f"{replays} is no number of jobs", argument="replays", expected="0 or more")
    whole = trace if isinstance(trace, Trace) else read(trace, format)
    where = cluster if isinstance(cluster, Cluster) or cluster is None else cluster_from(cluster, whole)
    # A cluster derived from the nodes of the jobs states nothing: the studies know what was seen there.
    derived = cluster == "auto" and whole.observed is not None and bool(whole.observed.nodes)
    analysis = study(whole, None if derived else where, limits)
    if not replays:
        return analysis
    return with_gains(analysis, whole, where or cluster_from("auto", whole), replays, knowledge, progress)
