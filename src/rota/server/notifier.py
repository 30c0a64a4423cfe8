"""Wakes coroutines of the API that wait for a job, a node or a directive to change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeVar

from starlette.concurrency import run_in_threadpool

T = TypeVar("T")


class AskedStore(Protocol):
    """A store, as far as its callers' waiting is concerned."""

    @property
    def may_be_silent(self) -> bool: ...


async def unhurried(store: AskedStore, question: Callable[[], T]) -> T:
    """The answer of `store`, asked in a thread if its database may be silent: other calls go on."""
    return await run_in_threadpool(question) if store.may_be_silent else question()


class Notifier:
    """Wakes the coroutines that wait for a key.  `notify` may be called from any thread."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, set[asyncio.Event]] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def notify(self, keys: Iterable[Hashable]) -> None:
        """Something has happened to each of `keys`."""
        with self._lock:
            events = [event for key in keys for event in self._waiting.get(key, ())]
            loop = self._loop
        if events and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(_set_all, events)

    def listen(self, key: Hashable) -> Listener:
        """Listen to `key` from now on; events between two waits are not missed."""
        return Listener(self, key)

    def _add(self, key: Hashable, event: asyncio.Event) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._waiting.setdefault(key, set()).add(event)

    def _remove(self, key: Hashable, event: asyncio.Event) -> None:
        with self._lock:
            left = self._waiting.get(key)
            if left is not None:
                left.discard(event)
                if not left:
                    del self._waiting[key]


class Listener:
    """A coroutine's wait for one key; a context manager."""

    def __init__(self, notifier: Notifier, key: Hashable) -> None:
        self._notifier = notifier
        self._key = key
        self._event = asyncio.Event()

    def __enter__(self) -> Listener:
        self._notifier._add(self._key, self._event)
        return self

    def __exit__(self, *failure: object) -> None:
        self._notifier._remove(self._key, self._event)

    async def wait(self, timeout_s: float) -> bool:
        """True if something happened, since the last wait or within `timeout_s`."""
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):  # `wait_for` would make a task of it
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


def _set_all(events: Iterable[asyncio.Event]) -> None:
    for event in events:
        event.set()
