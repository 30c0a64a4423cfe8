"""The controller's last order about every part of this node, from either of the two connections.

Answers may overtake one another and arrive twice: of two orders about a part the higher version counts. A
controller that was restarted counts versions from the beginning, so it is first asked for all orders. Parts
missing in its answer are no longer wanted, but only if the answer is marked as whole: the controller may not
have read its store yet.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.engines.shared.ledger import Key
from rota.wire.sync import Part, SyncReply

MOST_FORGOTTEN = 10_000


class QuestionBasis(NamedTuple):
    """The state that a request to the controller was based on."""

    controller: str
    """Incarnation of the controller; empty asks for everything."""
    seen: int


@dataclass
class Orders:
    """Parts as the controller wants them; thread-safe."""

    controller: str = ""
    """Incarnation that gave these orders; empty before the first whole list of a controller."""
    seen: int = 0
    whole: bool = False
    """True if the list is complete: parts that are not in it are not wanted."""
    _parts: dict[Key, Part] = field(default_factory=dict)
    _forgotten: OrderedDict[Key, int] = field(default_factory=OrderedDict)
    """Forgotten parts -> version of the last order about them, so that late repetitions are ignored."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def question(self) -> QuestionBasis:
        """State to base the next request on."""
        with self._lock:
            return QuestionBasis(self.controller, self.seen)

    def take(self, reply: SyncReply, asked: QuestionBasis) -> bool:
        """Store an answer's orders; False if the controller is a new one and must be asked for everything."""
        with self._lock:
            if asked.controller and reply.controller != asked.controller:
                if self.controller == asked.controller:
                    self.controller, self.seen, self.whole = "", 0, False
                return False
            if self.controller != reply.controller:
                if asked.controller:
                    return False  # a late answer of an earlier controller
                self._adopt(reply)
            else:
                is_newest = reply.version >= self.seen
                self._merge(reply, replace=reply.whole and not asked.controller and is_newest)
            return True

    def forget(self, key: Key) -> None:
        """Remove a part that is finished for both sides."""
        with self._lock:
            part = self._parts.pop(key, None)
            self._forgotten[key] = part.version if part is not None else self.seen
            while len(self._forgotten) > MOST_FORGOTTEN:
                self._forgotten.popitem(last=False)

    def wanted(self) -> tuple[dict[Key, Part], bool]:
        """All parts, and whether the list is complete."""
        with self._lock:
            return dict(self._parts), self.whole

    def _adopt(self, reply: SyncReply) -> None:
        self.controller, self.whole = reply.controller, reply.whole
        self._forgotten.clear()
        self._parts = {(part.row, part.attempt): part for part in reply.parts}
        self.seen = reply.version

    def _merge(self, reply: SyncReply, *, replace: bool) -> None:
        if replace:
            named = {(part.row, part.attempt) for part in reply.parts}
            self._parts = {key: part for key, part in self._parts.items() if key in named}
        for part in reply.parts:
            key = (part.row, part.attempt)
            known = self._parts.get(key)
            last = known.version if known is not None else self._forgotten.get(key, -1)
            if part.version > last:
                self._parts[key] = part
        self.seen = max(self.seen, reply.version)
