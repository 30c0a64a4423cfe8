"""Questions to the forecast process: a moment, and what to find out about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.forecast.held import Wait
from rota.forecast.remaining import Past
from rota.model.jobs import PlainJob
from rota.model.tenants import Tenants
from rota.scheduler.decision import Wake
from rota.scheduler.guard.live_rules import Redo
from rota.worlds.simulated.costs import Costs


@dataclass(frozen=True)
class PresentMoment:
    """The present moment, as the scheduler has it."""

    frozen: bytes
    """A file of `rota.scheduler.moments.frozen`."""
    past: Past = field(default_factory=Past.none)
    """The completed jobs."""
    costs: Costs = field(default_factory=Costs)
    waits: Mapping[int, Wait] = field(default_factory=dict)
    """What held jobs wait for."""
    left_s: Mapping[int, float] = field(default_factory=dict)
    """Work left, in seconds at the requested allocation, of jobs whose programs report it."""
    wake: Wake | None = None
    """When the policy in force wants to be asked."""
    min_run_s: float = 0.0
    fixed: frozenset[int] = frozenset()
    """Rows of jobs that may not be preempted."""
    redo: Mapping[int, Redo] = field(default_factory=dict)
    """What rows have lost by preemption, those that have lost anything."""


@dataclass(frozen=True)
class Looking:
    """How to look ahead from a moment."""

    moment: PresentMoment
    source: str = "user"
    """The source of durations."""
    budget_s: float = 2.0
    seed: int = 1
    extra_gpus: int = 0


@dataclass(frozen=True)
class AskStart:
    """When will `row` start?"""

    looking: Looking
    row: int


@dataclass(frozen=True)
class AskNew:
    """What would become of `job`, were it submitted now?"""

    looking: Looking
    job: PlainJob
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class AskFutures:
    """What is the future of all jobs under each of `policies`, and under the one in force?"""

    looking: Looking
    policies: tuple[str, ...]


@dataclass(frozen=True)
class AskTenants:
    """Which jobs would the policy in force stop or refuse at this moment if the tenants were these?"""

    looking: Looking
    tenants: Tenants


@dataclass(frozen=True)
class AskTrial:
    """Can `policy` decide about this moment?"""

    looking: Looking
    policy: str
