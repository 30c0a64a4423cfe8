"""What an operator sets about the live world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
