"""Events for the live world, in the order in which they became known."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rota.model.jobs import PlainJob
from rota.wire.sync import SyncRequest
from rota.worlds.live.attempts import LiveJob


@dataclass(frozen=True)
class Arrived:
    """Jobs are being put on record, rows ascending: each as it lives, and as it asks."""

    jobs: list[tuple[LiveJob, PlainJob]]

    def withdraw(self) -> None:
        """Drop them: they did not get on record, and other jobs will have their rows."""
        self.jobs.clear()


OF_ITSELF = -1
"""`seq` of a command that follows from a job's specification, not from a user."""


@dataclass(frozen=True)
class CommandAsked:
    """A user has given a command; it is on record as command `seq`."""

    seq: int
    user: str
    kind: str
    row: int | None = None
    node: str | None = None
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportTold:
    """An agent has said something."""

    node: str
    request: SyncRequest


@dataclass(frozen=True)
class Changed:
    """The cluster is no longer what this world was built for: it has to be built again."""

    why: str


@dataclass(frozen=True)
class Begun:
    """The scheduler goes on after a pause: the policy is to look at everything."""


Event = Arrived | CommandAsked | ReportTold | Changed | Begun


COMPANY_S = 0.01
"""Seconds that an arrival waits for more arrivals if none can start immediately."""


class Inbox:
    """A queue that one thread takes from; any thread may put."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._events: deque[Event] = deque()
        self._ready = threading.Condition()
        self._closed = False
        self._is_waited_on = False
        self._is_gathering = False
        """Whether the consumer waits a moment for more arrivals."""
        self._arrived_s = -math.inf
        """When arrivals were taken last."""
        self.changes = 0
        """Count of events that require a rebuild of the world."""

    def put(self, event: Event) -> None:
        with self._ready:
            self._events.append(event)
            self.changes += isinstance(event, Changed)
            if not self._is_gathering or not isinstance(event, Arrived):
                self._ready.notify()

    def put_back(self, events: list[Event]) -> None:
        """These come first next time."""
        with self._ready:
            self._events.extendleft(reversed(events))

    def take(self, timeout_s: float, *, gathers: bool = False) -> list[Event]:
        """Everything there is, waiting up to `timeout_s` for the first; empty if nothing came.

        With `gathers`, arrivals that are taken within COMPANY_S after others wait for company as long as
        there is nothing else: a stream of submissions is decided about a few at a time.
        """
        with self._ready:
            until_s = self._clock() + timeout_s
            if not self._events and not self._closed and timeout_s > 0:
                self._is_waited_on = True
                self._ready.wait(min(timeout_s, threading.TIMEOUT_MAX))
                self._is_waited_on = False
            if gathers:
                self._gather(until_s)
            events = list(self._events)
            self._events.clear()
            if any(isinstance(event, Arrived) for event in events):
                self._arrived_s = self._clock()
            return events

    def _gather(self, until_s: float) -> None:
        """Wait as long as there are arrivals only, and others were taken a moment ago."""
        until_s = min(until_s, self._arrived_s + COMPANY_S)
        self._is_gathering = True
        while (
            self._events
            and not self._closed
            and all(isinstance(event, Arrived) for event in self._events)
            and (left_s := until_s - self._clock()) > 0
        ):
            self._ready.wait(left_s)
        self._is_gathering = False

    @property
    def is_quiet(self) -> bool:
        """True while it is empty and its consumer waits: nothing is being decided."""
        return self._is_waited_on and not self._events

    def close(self) -> None:
        """No thread waits any more."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed
