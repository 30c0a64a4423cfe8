"""Chooses the provider of each kind of knowledge for a simulated run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rota.errors import InputError
from rota.knowledge.duration import OracleDuration, PredictedDuration, UserDuration
from rota.knowledge.needs import Knowledge, Provenance, Provider
from rota.knowledge.scaling import linear_scaling
from rota.knowledge.service import CompletedService
from rota.knowledge.skew import ModelSkew
from rota.knowledge.throughput import uniform_throughput
from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.worlds.simulated.speed import FixedDuration, SpeedModel

_DURATION: dict[Provenance, Callable[[Trace], Provider]] = {
    Provenance.ORACLE: OracleDuration,
    Provenance.USER: UserDuration,
    Provenance.PREDICTED: PredictedDuration,
}


def make_providers(
    needs: Iterable[Knowledge],
    knowledge: Mapping[str, str],
    trace: Trace,
    cluster: Cluster,
    speed: SpeedModel | None,
) -> dict[Knowledge, Provider]:
    """Providers of `needs` that a simulation has; kinds nobody can provide are left out.

    `knowledge` maps kinds to sources (`duration` -> `user`); the truth is the default.  A speed model may
    provide what it is made of through an attribute `knowledge`: a mapping of kinds to providers.  Without
    one, GPU types are equally fast, speed is in proportion to GPUs and every job keeps its GPUs busy, as in a
    world of fixed durations.
    """
    for kind, source in knowledge.items():
        check_choice(kind, source)
    offered: Mapping[Knowledge, Provider] = getattr(speed, "knowledge", {})
    made: dict[Knowledge, Provider] = {}
    for kind in needs:
        if kind in offered and kind.value not in knowledge:
            made[kind] = offered[kind]
        elif kind is Knowledge.DURATION:
            make: Callable[[Trace], Provider] = _DURATION[Provenance(knowledge.get(kind.value, "oracle"))]
            made[kind] = make(trace)
        elif kind is Knowledge.THROUGHPUT:
            made[kind] = uniform_throughput(trace.jobs, cluster)
        elif kind is Knowledge.SCALING:
            made[kind] = linear_scaling(trace.jobs, cluster)
        elif kind is Knowledge.SERVICE_HISTORY:
            made[kind] = CompletedService()
        elif kind is Knowledge.UTILISATION:
            made[kind] = FixedDuration(trace.jobs, cluster).knowledge[kind]
        elif kind is Knowledge.SKEW:
            made[kind] = ModelSkew(trace.jobs)
    return made


def check_choice(kind: str, source: str) -> None:
    """Refuse a kind of knowledge that does not exist, or a source that no simulation has."""
    kinds = [k.value for k in Knowledge]
    if kind not in kinds:
        raise InputError(
            f"--knowledge {kind}={source}: there is no such kind; expected one of {', '.join(kinds)}"
        )
    sources = [p.value for p in _DURATION]
    if source not in sources:
        raise InputError(
            f"--knowledge {kind}={source}: {source!r} is no source; expected {', '.join(sources)}"
        )
