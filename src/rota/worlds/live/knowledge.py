"""What the live world knows of jobs beyond what they ask for, for policies that need it."""

from __future__ import annotations

from collections.abc import Mapping

from rota.knowledge.needs import Knowledge, Provider
from rota.knowledge.registry import Past, Setup, Where, kinds, make_provider
from rota.model.cluster import Cluster
from rota.model.jobs import JobTable


def live_providers(
    chosen: Mapping[str, str], jobs: JobTable, cluster: Cluster, past: Past
) -> dict[Knowledge, Provider]:
    """A provider of every kind the live world has, from the source that `chosen` names, or the default."""
    setup = Setup(jobs, cluster, past=past)
    made = {kind: make_provider(kind, setup, Where.LIVE, chosen.get(kind, "")) for kind in kinds(Where.LIVE)}
    return {kind: provider for kind, provider in made.items() if provider is not None}
