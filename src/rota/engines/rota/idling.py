"""For how long a part has done nothing, by a clock that nobody sets.

It does something if its GPUs run a kernel as NVML sees it, if its processes use CPU time on CPU slots, and
where neither can be measured, or beside it, if its program reports another step.
"""

from __future__ import annotations

from rota.wire.sync import ProgressReport

IDLE_CORES = 0.02
"""A program that waits for its user, or sleeps, uses less."""
Said = tuple[int, float] | None


class IdleClock:
    """One part, from when this agent first looks at it: an agent that is started anew begins anew."""

    def __init__(self) -> None:
        self._active_s: float | None = None
        self._said: Said = None

    def look(self, *, is_busy: bool | None, said: ProgressReport | None, now_s: float) -> float | None:
        """Seconds since it last did something; None if that cannot be told.

        `is_busy` as measured, None where nothing can be; `said` is what its program last reported, None if
        it never has; `now_s` is a monotonic time.
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
        """It begins anew: it was suspended."""
        self._active_s = None


def is_busy(cpu_cores: float, utilisation: float | None, *, on_slots: bool) -> bool | None:
    """Whether a part uses what it holds, CPU slots or GPUs; None where nobody measures that."""
    if on_slots:
        return cpu_cores >= IDLE_CORES
    return None if utilisation is None else utilisation > 0.0
