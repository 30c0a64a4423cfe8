"""Detects a run without progress: policy, costs and timing rules under which it would never end.

Where a restart outlasts the time between two decisions, or a stop undoes what was done in it, jobs may start
and stop in turn for ever, never getting further than before.  Growing turns end that; modes that follow a
published simulator do not have them.
"""

from __future__ import annotations

import numpy as np

from rota.errors import PolicyError
from rota.model.units import format_duration
from rota.scheduler.loop import Loop
from rota.scheduler.policy import AT, Policy
from rota.table.state import Phase

MOST_WITHOUT = 1 << 16
"""Events without headway after which a run is given up; with an event a minute they are six weeks."""


class Headway:
    """Whether a job has come, ended, or got further with its work than ever before.

    While no job runs, a run waits for something, such as a node, and no such time is too long.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._rules = _rules_of(loop.policy)
        self._furthest = np.zeros(len(loop.state.jobs.gpus))
        """The most work that each job was seen to have done."""
        self._seen = (0, 0)
        self._event, self._at_s = 0, 0.0
        """Event and moment of the last headway."""

    def look(self, ended: int) -> None:
        """Check a run in which `ended` jobs have ended; PolicyError after too long without headway."""
        state, events = self._loop.state, self._loop.counts.events
        # Waiting jobs too: with some turns the jobs that progress never run at the moment of the check.
        rows = np.flatnonzero(state.phase[: state.submitted] < Phase.COMPLETED)
        done = self._loop.world.progress.done(rows, state.now)
        seen = ended, state.submitted
        if seen != self._seen or not len(state.grants) or (done > self._furthest[rows]).any():
            self._seen, self._event, self._at_s = seen, events, state.now
            self._furthest[rows] = np.maximum(self._furthest[rows], done)
        elif events - self._event >= MOST_WITHOUT:
            since, now = format_duration(self._at_s), format_duration(state.now)
            raise PolicyError(
                f"the run gets nowhere: between {since} and {now} nobody came, ended or got on with its work "
                f"in {events - self._event:,} events; where a stop and a start take from jobs, in time or in "
                f"lost work, all that they do in between, none is ever done{self._rules}"
            )


def _rules_of(policy: Policy) -> str:
    """A remark about a policy that reproduces published code; empty for all others."""
    name = getattr(policy, "registered_name", "")
    return f"; {name} keeps to the rules of published code, which knows no such jobs" if AT in name else ""
