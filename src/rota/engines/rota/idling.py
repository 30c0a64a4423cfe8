"""How long a part has done nothing, by a monotonic clock.

A part is active if its GPUs run a kernel as NVML measures, or if its processes use CPU time on CPU slots.
Another reported step of its program counts too, also where neither can be measured.
"""

from __future__ import annotations

from rota.wire.sync import ProgressReport

IDLE_CORES = 0.02
"""CPU cores below which a program counts as idle: one that waits for its user, or sleeps, uses less."""
Said = tuple[int, float] | None


class IdleClock:
    """Idle time of one part since this agent first saw it; it restarts with the agent."""

    def __init__(self) -> None:
        self._active_s: float | None = None
        self._said: Said = None

    def look(self, *, is_busy: bool | None, said: ProgressReport | None, now_s: float) -> float | None:
        """Seconds since the part was last active; None if unknown.

        `is_busy` is the measurement, None if there is none; `said` the last report of its program, None if
        there is none; `now_s` a monotonic time.
        """
        news: Said = None if said is None else (said.steps, said.samples)
        if is_busy is None and news is None:
            self.reset()
            return None
        if is_busy or news != self._said or self._active_s is None:
            self._active_s = now_s
        self._said = news
        return now_s - self._active_s

    def reset(self) -> None:
        """Start counting again, because the part was suspended."""
        self._active_s = None


def is_busy(cpu_cores: float, utilisation: float | None, *, on_slots: bool) -> bool | None:
    """Whether a part uses its CPU slots or GPUs; None if that is not measured."""
    if on_slots:
        return cpu_cores >= IDLE_CORES
    return None if utilisation is None else utilisation > 0.0
