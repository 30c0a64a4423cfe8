"""An operator's settings of the live world, and the knowledge that its policies get."""

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
    """Seconds of an agent's silence after which its node is fenced and its attempts are void."""
    back_off: BackOff = field(default_factory=BackOff)
    alike: int = 3
    """Failures in a row from the same known cause after which a job is given up; 0: never."""
    others: int = 0
    """Other jobs, of its user or of other users, that failed again from the same known cause, after which a
    job is given up as well; 0: nothing is learnt from other jobs."""
    rules: Sequence[Rule] = RULES
    """What ends mean; see `endings`."""
    log_limit: Callable[[str], int] = lambda tenant: 0
    """Most bytes of each rank's log, by tenant; 0 is no limit."""
    trial_s: float = 60.0
    """Seconds that a job with a trial runs on one device first."""
    idle_after_s: float = 0.0
    """Idle seconds after which a job's user gets a notice; 0 is never; jobs may set their own."""
    suspend_idle: bool = False
    """Whether an idle job's devices are taken after as long again."""


def live_providers(
    chosen: Mapping[str, str], jobs: JobTable, cluster: Cluster, past: Past
) -> dict[Knowledge, Provider]:
    """A provider of every kind the live world has, from the source that `chosen` names, or the default."""
    setup = Setup(jobs, cluster, past=past)
    made = {kind: make_provider(kind, setup, Where.LIVE, chosen.get(kind, "")) for kind in kinds(Where.LIVE)}
    return {kind: provider for kind, provider in made.items() if provider is not None}
