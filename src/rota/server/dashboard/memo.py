"""What is dear to gather and the same for everybody: gathered once for all browsers that ask at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from rota.server.dashboard.feed import Feed

T = TypeVar("T")
LONGEST_S = 5.0
"""Nothing is older than this: some of it changes without a word, as when an agent was last heard."""


class Memo:
    """Values by name, each as of a count of the feed; may be asked by many threads."""

    def __init__(self, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed, self._clock = feed, clock
        self._values: dict[str, tuple[int, float, Any]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], T]) -> T:
        """The value of `name`, made anew if anything has changed; whoever asks meanwhile waits for it."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            count, now = self._feed.count, self._clock()
            kept = self._values.get(name)
            if kept is None or kept[0] != count or now - kept[1] > LONGEST_S:
                kept = (count, now, make())
                self._values[name] = kept
            return cast(T, kept[2])
