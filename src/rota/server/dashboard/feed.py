"""Changes for open browsers: written by the scheduler's thread, read by one stream per browser.

A message names what changed without its content, so it is small and holds no secret; a page that shows it
asks again.  Changes that come closer together than `PAUSE_S` are one message.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from rota.server.notifier import Notifier

CHANGED = ("dashboard",)
"""The key that streams listen to."""
MOST_NAMED = 100
"""Jobs that one message names; if more have changed, it names none and means any."""


@dataclass
class Changes:
    """Topics (`jobs`, `nodes`, `usage`, `policy`, `decision`, `starts`), and the ids of jobs among them."""

    topics: set[str] = field(default_factory=set)
    jobs: set[str] | None = field(default_factory=set)
    """None stands for any."""

    def add(self, other: Changes) -> None:
        """Add the changes in `other`."""
        self.topics |= other.topics
        self.jobs = None if self.jobs is None or other.jobs is None else self.jobs | other.jobs
        if self.jobs is not None and len(self.jobs) > MOST_NAMED:
            self.jobs = None

    def take(self) -> Changes:
        """Return the gathered changes, and begin again with none."""
        taken = Changes(self.topics, self.jobs)
        self.topics, self.jobs = set(), set()
        return taken


class Feed:
    """Gathers changes for each stream; `tell` may be called from any thread."""

    def __init__(self, notifier: Notifier | None = None) -> None:
        self.notifier = notifier or Notifier()
        self.count = 0
        """Count of messages: a reader that knows a lower count has missed some."""
        self._gathered: dict[int, Changes] = {}
        self._next = 0
        self._lock = threading.Lock()

    def tell(self, topics: Iterable[str], jobs: Iterable[str] = ()) -> None:
        """Something has happened to these."""
        news = Changes(set(topics), set(jobs))
        if not news.topics:
            return
        with self._lock:
            self.count += 1
            for gathered in self._gathered.values():
                gathered.add(news)
        self.notifier.notify([CHANGED])

    def join(self) -> int:
        """A new stream; changes gather for it from now on."""
        with self._lock:
            self._next += 1
            self._gathered[self._next] = Changes()
            return self._next

    def leave(self, stream: int) -> None:
        """Drop a stream that no browser reads any more."""
        with self._lock:
            self._gathered.pop(stream, None)

    def take(self, stream: int) -> Changes:
        """The changes since the last call."""
        with self._lock:
            return self._gathered[stream].take()
