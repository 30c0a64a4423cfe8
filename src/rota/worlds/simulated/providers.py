"""Chooses the provider of each kind of knowledge for a simulated run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rota.knowledge.needs import Knowledge, Provider
from rota.knowledge.registry import Setup, Where, make_provider
from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.worlds.simulated.speed import FixedDuration, SpeedModel


def make_providers(
    needs: Iterable[Knowledge],
    knowledge: Mapping[str, str],
    trace: Trace,
    cluster: Cluster,
    speed: SpeedModel | None,
    seed: int = 0,
) -> dict[Knowledge, Provider]:
    """Providers of `needs` that a simulation has; kinds without a provider are left out.

    `knowledge` maps kinds to sources (`duration` -> `user`); the truth is the default.  A speed model may
    provide what it is made of through an attribute `knowledge`: a mapping of kinds to providers.  Without
    one, durations are fixed.
    """
    offered = getattr(speed or FixedDuration(trace.jobs, cluster), "knowledge", {})
    setup = Setup(trace.jobs, cluster, trace.truth, offered, origin=trace.source, seed=seed)
    made = {kind: make_provider(kind, setup, Where.SIMULATED, knowledge.get(kind, "")) for kind in needs}
    return {kind: provider for kind, provider in made.items() if provider is not None}
