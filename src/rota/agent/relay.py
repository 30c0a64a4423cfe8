"""What a program that imports `rota.training` says and is told, through the files of its attempt's folder.

The folder belongs to the job's user: what stands in it may be anything, and only its own job comes to harm.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rota.engine.steady import unix_s
from rota.training import protocol
from rota.training.protocol import Directive, RankState
from rota.wire.numbers import LATEST_S, MOST_BYTES, MOST_COUNT, MOST_S, MOST_SAMPLES
from rota.wire.sync import Capability, Cost, ProgressReport

AGREE_S = 0.5
"""Clocks that differ by less agree."""
COARSE_S = 0.05
"""A folder changed so lately may change again without a new time stamp."""
SMALLEST, MOST_BATCH = 1e-9, 1e12
READY = "ready"
"""The cost that ends a start: from the command's start to the end of the first step."""
MEASURED = frozenset({READY, "suspend", "resume", "checkpoint", "restore", "leave"})
"""What programs measure; other kinds that they name are nobody's."""


@dataclass
class Relay:
    """The training folder of one attempt on this machine."""

    folder: Path
    expected: tuple[int, ...]
    """Ranks of this node; files of others are not looked at."""
    ranks: dict[int, RankState] = field(default_factory=dict)
    """Rank -> what it last said."""
    _stamp: int = -1
    _behind_s: float = 0.0
    """By how much the wall clock, which ranks tell moments by, is behind this process's own."""

    def look(self) -> bool:
        """Read what ranks said since the last look; True if it is new.  One `stat` if nothing is."""
        try:
            stamp = os.stat(self.folder).st_mtime_ns
        except OSError:
            return False
        if stamp == self._stamp:
            return False
        fresh = time.time() - stamp / 1e9 < COARSE_S
        self._stamp = -1 if fresh else stamp
        if abs((behind_s := unix_s() - time.time()) - self._behind_s) > AGREE_S:
            self._behind_s = behind_s
        said = {rank: protocol.read_rank(self.folder, rank) for rank in self.expected}
        before, self.ranks = self.ranks, {rank: one for rank, one in said.items() if one is not None}
        return self.ranks != before

    @property
    def speaks(self) -> bool:
        """Every rank of this node has spoken: directives will be heard."""
        return 0 < len(self.expected) == len(self.ranks)

    def direct(self, do: str, reason: str = "", deadline_s: float | None = None, **more: float | None) -> int:
        """Give a directive; its sequence.  Raises OSError if it cannot be written."""
        batch_size, workers = more.get("batch_size"), more.get("workers")
        directive = Directive(
            do=do,
            reason=reason,
            deadline_s=deadline_s,
            batch_size=batch_size,
            workers=None if workers is None else int(workers),
        )
        try:
            return protocol.command(self.folder, directive)
        except ValueError as error:  # the page is not a file that can be mapped
            raise OSError(f"{self.folder}: {error}") from None

    def settle(self) -> int | None:
        """Let ranks that cannot agree among themselves stop at one step; that step, once it is known."""
        states = {one.state for one in self.ranks.values()}
        if not self.speaks or not states <= {protocol.ANNOUNCED, protocol.FINISHED}:
            return None
        try:
            return protocol.settle(self.folder, len(self.expected))
        except (
            OSError,
            ValueError,
        ):  # the program has spoilt its page: it will not stop, and the time-out does
            return None

    def open_directive(self) -> Directive | None:
        """The newest directive, if there ever was one."""
        return protocol.read_directive(self.folder)

    def reached(self, state: str, sequence: int) -> bool:
        """Whether all ranks have come to `state` (or finished) by the directive `sequence` or a later one."""
        return self.speaks and all(
            one.state == protocol.FINISHED or (one.state == state and one.sequence >= sequence)
            for one in self.ranks.values()
        )

    @property
    def batch_size(self) -> float | None:
        """Samples of a step, if all ranks can change it; None otherwise."""
        if not self.speaks or not self.capability().batch_size:
            return None
        return next(iter(self.ranks.values())).batch_size

    def moved_bytes(self, kind: str) -> float:
        """Bytes that all ranks together moved at their last `kind`."""
        return sum(one.costs.get(kind, (0.0, 0.0))[1] for one in self.ranks.values())

    def progress(self) -> ProgressReport | None:
        """Of the whole node: the rank furthest behind counts; None before the first word."""
        states = list(self.ranks.values())
        if not states:
            return None
        first = states[0]
        return ProgressReport(
            steps=_sane(min(one.step for one in states)),
            samples=min(sum(max(one.samples, 0.0) for one in states), MOST_SAMPLES),
            total_steps=_most(one.total_steps for one in states),
            loss=next((one.loss for one in states if one.loss is not None), None),
            step_s=_within(
                max((o.step_s for o in states if o.step_s is not None), default=None), 0.0, MOST_S
            ),
            batch_size=_within(first.batch_size, SMALLEST, MOST_BATCH),
            checkpoint_step=_most(one.checkpoint_step for one in states),
            gradient_noise=next((o.gradient_noise for o in states if o.gradient_noise is not None), None),
            gradient_s=_within(
                max((o.gradient_s for o in states if o.gradient_s is not None), default=None), 0.0, MOST_S
            ),
            local_most=_within(first.local_most, SMALLEST, MOST_BATCH),
            at_s=_within(max(one.at_s for one in states) + self._behind_s, 0.0, LATEST_S) or 0.0,
        )

    def capability(self) -> Capability:
        """What all ranks can do; nothing before all have spoken."""
        if not self.speaks:
            return Capability()
        said = [one.capability for one in self.ranks.values()]

        def can(name: str) -> bool:
            return all(one.get(name) is True for one in said)

        return Capability(
            training=str(min(_sane(one.get("protocol")) for one in said)),
            checkpoint=can("checkpoint"),
            resize=can("resize"),
            batch_size=can("batch_size"),
            to_host=can("to_host"),
        )

    def costs(self) -> list[Cost]:
        """What the program measured itself: the slowest rank's seconds, all ranks' bytes, by kind."""
        kinds = sorted({kind for one in self.ranks.values() for kind in one.costs} & MEASURED)
        costs = []
        for kind in kinds:
            pairs = [one.costs[kind] for one in self.ranks.values() if kind in one.costs]
            if kind == READY and len(pairs) < len(self.expected):
                continue  # the gang is ready when its last rank is
            seconds = _within(max(s for s, _ in pairs), 0.0, MOST_S)
            if seconds is not None:
                moved = min(sum(max(size, 0.0) for _, size in pairs), MOST_BYTES)
                costs.append(Cost(kind=kind, seconds=seconds, bytes=moved))
        return costs


def _most(numbers: Iterable[int | None]) -> int | None:
    return max((_sane(one) for one in numbers if one is not None), default=None)


def _within(number: float | None, least: float, most: float) -> float | None:
    """A number of a program, if the wire takes it: what makes no sense was never said."""
    return number if number is not None and least <= number <= most else None


def _sane(number: object) -> int:
    """A count that any store can hold, whatever a program has written; 1 for what is no count."""
    return min(max(number, 0), MOST_COUNT) if isinstance(number, int) else protocol.VERSION
