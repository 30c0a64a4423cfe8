"""Caches page data that is expensive and does not depend on the viewer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from rota.server.dashboard.feed import Feed

T = TypeVar("T")
LONGEST_S = 5.0
"""Nothing is older than this: some of it changes without a word, as when an agent was last heard."""
RESTS = 3
"""A value stays valid for this multiple of the time it took: at most a quarter of a core is spent."""


@dataclass(frozen=True)
class KeptValue:
    """A value, the count of the feed when it was made, when that was, and how long it took."""

    value: Any
    count: int
    at_s: float
    took_s: float


class Memo:
    """Values by name, each as of a count of the feed; may be asked by many threads."""

    def __init__(self, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed, self._clock = feed, clock
        self._values: dict[str, KeptValue] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._told: dict[str, threading.Timer] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        """The value of `name`, recomputed if anything has changed; other callers wait for it meanwhile.

        A value that is expensive may be returned although it is old; then browsers get a message on the
        topic `name` once it would be recomputed.
        """
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            now, kept = self._clock(), self._values.get(name)
            if kept is None or self._is_due(kept, now):
                kept = self._made(name, make)
            elif kept.count != self._feed.count:
                self._tell_later(name, kept.at_s + RESTS * kept.took_s - now)
            return cast(T, kept.value)

    def _is_due(self, kept: KeptValue, now: float) -> bool:
        age_s = now - kept.at_s
        has_changed = kept.count != self._feed.count and age_s >= RESTS * kept.took_s
        return has_changed or age_s > max(LONGEST_S, RESTS * kept.took_s)

    def _made(self, name: str, make: Callable[[], T]) -> KeptValue:
        count, began = self._feed.count, self._clock()
        value = make()
        ended = self._clock()
        kept = self._values[name] = KeptValue(value, count, ended, ended - began)
        return kept

    def _tell_later(self, name: str, after_s: float) -> None:
        timer = self._told.get(name)
        if timer is None or not timer.is_alive():
            timer = self._told[name] = threading.Timer(max(after_s, 0.0), self._feed.tell, [[name]])
            timer.daemon = True
            timer.start()
