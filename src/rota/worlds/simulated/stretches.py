"""What can be seen of running jobs in a simulation: the work of each stretch of constant rate.

A stretch is reported at most twice: on request while it lasts, and the rest of it when it is over.  So the
reports grow with what happens, not with how long a job runs or how often a policy asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Observation
from rota.model.grants import Grant
from rota.model.jobs import JobTable


class Sight(NamedTuple):
    """What the program of a job would say of its steps now; NaN for what a speed model does not know."""

    step_s: float = math.nan
    batch_size: float = math.nan
    noise: float = math.nan
    passes: float = math.nan
    gradient_s: float = math.nan
    local_most: float = math.nan
    """As in an `Observation`."""


class Stretch(NamedTuple):
    """A job works on the same grant at the same rate from a moment on."""

    grant: Grant
    since_s: float
    work: float
    """Work done at that moment."""
    sight: Sight


def unseen(row: int) -> Sight:
    """The sight of a speed model without steps."""
    return Sight()


class Stretches:
    """The stretches that last, and what was seen of those that are over."""

    def __init__(
        self,
        jobs: JobTable,
        total: Callable[[int], float],
        *,
        steps: bool,
        noise: float,
        seed: int,
        sight: Callable[[int], Sight] = unseen,
    ) -> None:
        """`total` gives all the work of a row, `sight` how its steps look at its present rate.

        `steps` if work is counted in steps; `noise` is the relative error of what is seen.
        """
        self.jobs = jobs
        self.sight = sight
        self.total = total
        self.steps = steps
        self.noise = noise
        self._random = np.random.default_rng(seed)
        self._last: dict[int, Stretch] = {}
        self._untold: set[int] = set()
        """Rows whose present stretch has not been reported."""
        self._seen: list[Observation] = []

    def begin(self, row: int, grant: Grant, since_s: float, work: float) -> None:
        """`row` has done `work`, and works on `grant` from `since_s` on, which may lie in the future."""
        self._last[row] = Stretch(grant, since_s, work, self.sight(row))
        self._untold.add(row)

    def end(self, row: int, now: float, work: float) -> None:
        """The stretch of `row` is over."""
        stretch = self._last.pop(row, None)
        self._untold.discard(row)
        if stretch is not None:
            self._note(row, stretch, now, work)

    def take(self, now: float, done: Callable[[int, float], float]) -> list[Observation]:
        """Observations not reported so far; `done` gives the work of a row at a moment."""
        for row in sorted(self._untold):
            stretch = self._last[row]
            if now > stretch.since_s:
                work = done(row, now)
                self._note(row, stretch, now, work)
                self._last[row] = stretch._replace(since_s=now, work=work)
                self._untold.discard(row)
        seen, self._seen = self._seen, []
        return seen

    def _note(self, row: int, stretch: Stretch, now: float, work: float) -> None:
        seconds, done = now - stretch.since_s, work - stretch.work
        if seconds <= 0.0:
            return
        error = math.exp(self.noise * self._random.standard_normal()) if self.noise else 1.0
        done *= error
        step_s, batch, noise, passes, gradient_s, local_most = stretch.sight
        gradient_s /= error
        if step_s == step_s:
            step_s /= error
        elif self.steps and done > 0.0:
            step_s = seconds / done
        if batch != batch:
            asked, named = self.jobs.batch_size.item(row), stretch.grant.batch_size
            batch = asked if math.isnan(named) else named
        self._seen.append(
            Observation(
                row,
                stretch.grant,
                stretch.since_s,
                now,
                done,
                step_s,
                batch,
                noise=noise,
                passes=passes,
                gradient_s=gradient_s,
                local_most=local_most,
                total=self.total(row),
            )
        )
