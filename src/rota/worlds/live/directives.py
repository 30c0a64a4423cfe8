"""Directives for agents: one `Part` for each node of each attempt, with a version for each change.

Directives are staged while the loop decides and published once the decision is in the store: an agent never
acts upon what might not have happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from rota.wire.sync import Part, SyncReply, Wanted

Key = tuple[int, int]
"""Row and attempt."""


class Directives:
    """The wanted parts of all nodes; thread-safe."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.unmet: set[str] | None = None
        """Nodes that have not reported to this controller yet; None before the nodes are known."""
        self.version = 0
        self._parts: dict[str, dict[Key, Part]] = {}
        self._staged: list[tuple[str, Part]] = []
        self._lock = threading.Lock()
        self._told: list[Callable[[Sequence[str]], None]] = []

    def on_change(self, tell: Callable[[Sequence[str]], None]) -> None:
        """`tell` is called with the nodes that have new parts, on the thread that published them."""
        self._told.append(tell)

    def stage(self, node: str, part: Part) -> None:
        """A part that is in force once it is published."""
        self._staged.append((node, part))

    def drop_staged(self) -> None:
        """Drop the staged directives: their decision was not carried out."""
        self._staged.clear()

    def begin_anew(self, incarnation: str) -> None:
        """Forget everything: agents will see another controller and say all they know."""
        with self._lock:
            nodes = list(self._parts)
            self._parts.clear()
            self._staged.clear()
            self.incarnation = incarnation
            self.unmet = None
        for tell in self._told:
            tell(nodes)

    def publish(self) -> None:
        """All staged parts are in force."""
        if not self._staged:
            return
        with self._lock:
            for node, part in self._staged:
                self.version += 1
                part.version = self.version  # each staging makes a new part
                self._parts.setdefault(node, {})[part.row, part.attempt] = part
            nodes = list(dict.fromkeys(node for node, _ in self._staged))
            self._staged.clear()
        for tell in self._told:
            tell(nodes)

    def since(self, node: str, seen: int) -> list[Part]:
        """Parts of `node` that changed after `seen`, in order of change; forgotten ones that were seen go."""
        with self._lock:
            parts = self._parts.get(node, {})
            for key in [k for k, p in parts.items() if p.wanted is Wanted.FORGET and p.version <= seen]:
                del parts[key]
            newer = [part for part in parts.values() if part.version > seen]
        return sorted(newer, key=lambda part: part.version)

    def reply(self, node: str, seen: int, now_unix_s: float, lost_after_s: float) -> SyncReply:
        """The parts for the agent of `node`, which has seen those up to version `seen`."""
        with self._lock:
            version = self.version
        return SyncReply(
            controller=self.incarnation,
            version=version,
            now_s=now_unix_s,
            parts=self.since(node, seen),
            lost_after_s=lost_after_s,
        )

    def keys(self, node: str) -> set[Key]:
        """Parts that `node` has received."""
        with self._lock:
            return set(self._parts.get(node, {}))
