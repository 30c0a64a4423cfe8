"""Expected starts of waiting jobs, forecast by a thread from time to time while pages ask."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rota.errors import RotaError
from rota.server.answers.estimator import Estimator
from rota.server.answers.present_moment import gather
from rota.server.answers.questions import AskFutures, Looking

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler

log = logging.getLogger(__name__)
BUDGET_S = 5.0
"""For one look at all jobs."""
RESTS = 6
"""A forecast is followed by a pause of this multiple of its time, `LEAST_REST_S` at least."""
LEAST_REST_S = 10.0
Range = tuple[float | None, float | None, float | None]
"""Median, earliest and latest start in Unix seconds; None if it does not start."""


@dataclass(frozen=True)
class Starts:
    """Results of the last look ahead."""

    at_s: float | None = None
    """Unix time of the look; None if there has been none."""
    of: Mapping[str, Range] = field(default_factory=dict)
    """By the id of a job."""
    trouble: str = ""
    """Why there is no newer one, as a sentence."""


class StartOutlook:
    """Answers immediately from the last look ahead; starts another in the background if that is old."""

    def __init__(
        self, scheduler: Scheduler, estimator: Estimator, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._scheduler, self._estimator, self._clock = scheduler, estimator, clock
        self._last = Starts()
        self._next_s = 0.0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.told: Callable[[], None] = lambda: None
        """Called after each look."""

    def starts(self) -> Starts:
        """The last look, whatever its age."""
        with self._lock:
            is_idle = self._thread is None or not self._thread.is_alive()
            if is_idle and self._clock() >= self._next_s:
                self._next_s = self._clock() + LEAST_REST_S
                self._thread = threading.Thread(target=self._look, name="outlook", daemon=True)
                self._thread.start()
        return self._last

    def _look(self) -> None:
        began = self._clock()
        try:
            self._last = self._looked()
        except RotaError as error:
            self._last = Starts(self._last.at_s, self._last.of, str(error))
        took_s = self._clock() - began
        self._next_s = self._clock() + max(LEAST_REST_S, RESTS * took_s)
        self.told()

    def _looked(self) -> Starts:
        epoch_s, at_s = self._scheduler.clock.epoch_unix_s, time.time()
        looking = Looking(gather(self._scheduler), budget_s=BUDGET_S)
        reply = self._estimator.ask(AskFutures(looking, ()), BUDGET_S)
        now: Mapping[str, Range] = {
            job["id"]: _unix(epoch_s, *job["start"]) for job in reply["policies"][0]["jobs"]
        }
        return Starts(at_s, now)


def _unix(epoch_s: float, *moments: float | None) -> Range:
    middle, low, high = (None if moment is None else epoch_s + moment for moment in moments)
    return middle, low, high
