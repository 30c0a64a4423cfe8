"""The controller's last word about every part of this node, whichever of two connections brought it.

Answers may overtake one another and come twice: of two words about a part the one with the higher version
counts.  A controller that was restarted counts versions anew, so it is asked for everything first.  What it
does not name then, nobody wants any more; but only if it says that its answer is whole: it may not have read
its store yet.
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
    """What a question to the controller was based on."""

    controller: str
    """Incarnation; empty asks for everything."""
    seen: int


@dataclass
class Orders:
    """Parts as wanted; thread-safe."""

    controller: str = ""
    """Incarnation whose words these are; empty before the first whole list of a controller."""
    seen: int = 0
    whole: bool = False
    """The list is complete: what it does not name, nobody wants."""
    _parts: dict[Key, Part] = field(default_factory=dict)
    _forgotten: OrderedDict[Key, int] = field(default_factory=OrderedDict)
    """Parts that are done with -> version of the last word on them: a late repetition revives nothing."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def question(self) -> QuestionBasis:
        """What to base the next question on."""
        with self._lock:
            return QuestionBasis(self.controller, self.seen)

    def take(self, reply: SyncReply, asked: QuestionBasis) -> bool:
        """Take in the answer to a question; False if the controller is a new one and must be asked anew."""
        with self._lock:
            if asked.controller and reply.controller != asked.controller:
                if self.controller == asked.controller:
                    self.controller, self.seen, self.whole = "", 0, False
                return False
            if self.controller != reply.controller:
                if asked.controller:
                    return False  # a late answer of one that is no more
                self._adopt(reply)
            else:
                is_newest = reply.version >= self.seen
                self._merge(reply, replace=reply.whole and not asked.controller and is_newest)
            return True

    def forget(self, key: Key) -> None:
        """The part is done with, here and there."""
        with self._lock:
            part = self._parts.pop(key, None)
            self._forgotten[key] = part.version if part is not None else self.seen
            while len(self._forgotten) > MOST_FORGOTTEN:
                self._forgotten.popitem(last=False)

    def wanted(self) -> tuple[dict[Key, Part], bool]:
        """All parts, and whether that is everything the controller wants."""
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
