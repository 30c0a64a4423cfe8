"""What an operator sets about the live world, and the knowledge that its policies get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rota.knowledge.needs import Knowledge, Provider
from rota.knowledge.registry import Past, Setup, Where, kinds, make_provider
from rota.model.cluster import Cluster
from rota.model.jobs import JobTable
from rota.worlds.live.endings import RULES, BackOff, Rule


@dataclass(frozen=True)
class LiveSettings:
    """Times in seconds."""

    lost_after_s: float = 60.0
    """Silence of an agent after which its node is fenced and its attempts are void."""
    back_off: BackOff = field(default_factory=BackOff)
    alike: int = 3
    """A job is given up once its last so many attempts failed of the same known thing; 0: never for that."""
    others: int = 0
    """A job is given up if trying again after the same known thing was in vain for so many other jobs of its
    user, or jobs of so many other users; 0: nothing is learnt of others."""
    rules: Sequence[Rule] = RULES
    """What ends mean; see `endings`."""
    log_limit: Callable[[str], int] = lambda tenant: 0
    """Most bytes of each rank's log, by tenant; 0 is no limit."""
    trial_s: float = 60.0
    """How long a job that wants a trial runs on one device first."""
    idle_after_s: float = 0.0
    """A job that has done nothing for so long is told; 0 is never, and jobs may say otherwise."""
    suspend_idle: bool = False
    """Whether its devices are taken after as long again."""


def live_providers(
    chosen: Mapping[str, str], jobs: JobTable, cluster: Cluster, past: Past
) -> dict[Knowledge, Provider]:
    """A provider of every kind the live world has, from the source that `chosen` names, or the default."""
    setup = Setup(jobs, cluster, past=past)
    made = {kind: make_provider(kind, setup, Where.LIVE, chosen.get(kind, "")) for kind in kinds(Where.LIVE)}
    return {kind: provider for kind, provider in made.items() if provider is not None}
