"""A stop is a plan on disk with absolute times, so that any process that reads it can continue it.

Its times are of the machine's monotonic clock, which is the same for every process of one boot: setting the
wall clock does not change it.
"""

from __future__ import annotations

import json
import signal
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from rota.training.checked import number, shown

VERSION = 2


@dataclass(frozen=True)
class StopPlan:
    """Notice signal at once, SIGTERM at `terminate_s`, SIGKILL at `kill_s`, by the monotonic clock."""

    since_s: float
    terminate_s: float
    kill_s: float
    notice_signal: str = ""
    noticed: bool = False
    """The notice signal was sent to every rank (and is sent again if we die before writing this)."""
    terminated: bool = False
    """SIGTERM was sent."""

    @classmethod
    def of(cls, now_s: float, *, grace_s: float, notice_s: float = 0.0, signal: str = "") -> StopPlan:
        """A stop that begins now; `signal` with or without its SIG, empty for no signal."""
        name = signal if signal.startswith("SIG") or not signal else f"SIG{signal}"
        terminate_s = now_s + notice_s
        return cls(now_s, terminate_s, terminate_s + grace_s, name)

    def sooner(self, other: StopPlan) -> StopPlan:
        """Combine two plans: each step at the earlier of its two times; completed steps stay completed."""
        return replace(
            self,
            terminate_s=min(self.terminate_s, other.terminate_s),
            kill_s=min(self.kill_s, other.kill_s),
            notice_signal=self.notice_signal or other.notice_signal,
        )

    @property
    def first_s(self) -> float:
        """Time of the first signal."""
        return self.since_s if self.notice_signal else min(self.terminate_s, self.kill_s)

    @property
    def is_announced(self) -> bool:
        """True once every rank has had its notice signal, if there is one, or it is too late for it."""
        return self.noticed or self.terminated or not self.notice_signal

    @property
    def next_s(self) -> float:
        """Time of the next signal of SIGTERM and SIGKILL."""
        return self.kill_s if self.terminated else min(self.terminate_s, self.kill_s)

    def form(self) -> dict[str, Any]:
        """The contents of `stop.json`; the shim reads its two times as well."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def read(cls, value: dict[str, Any]) -> StopPlan:
        """Read a plan from `stop.json`, also an older agent's with Unix times; ValueError if it is no
        plan."""
        plan = cls(**{name: value[name] for name in cls.__dataclass_fields__})
        times_s = (plan.since_s, plan.terminate_s, plan.kill_s)
        if any(number(at_s) is None for at_s in times_s) or not _is_signal(plan.notice_signal):
            raise ValueError(f"no plan of a stop: {shown(json.dumps(value))}")
        if value["version"] == VERSION:
            return plan
        by_s = time.monotonic() - time.time()
        times = {name: getattr(plan, name) + by_s for name in ("since_s", "terminate_s", "kill_s")}
        return replace(plan, **times)


def _is_signal(name: object) -> bool:
    return name == "" or (isinstance(name, str) and name in signal.Signals.__members__)
