"""Reports of programs that import `rota.training`, and directives to them, as files in the attempt's folder.

The folder belongs to the job's user: it may contain anything, and that affects only its own job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rota.engines.shared.steady import unix_s
from rota.training import protocol
from rota.training.page import PAGE
from rota.training.protocol import Directive, RankState
from rota.wire.numbers import LATEST_S, MOST_BYTES, MOST_SAMPLES
from rota.wire.sync import Capability, Cost, ProgressReport

N = TypeVar("N", int, float)
AGREE_S = 0.5
"""Clocks that differ by fewer seconds agree."""
COARSE_S = 0.05
"""A folder changed within these seconds may change again without a new time stamp."""
READY = "ready"
"""Kind of the cost that completes a start: from the command's start to the end of the first step."""


@dataclass
class Relay:
    """The training folder of one attempt on this machine."""

    folder: Path
    expected: tuple[int, ...]
    """Ranks of this node; files of other ranks are ignored."""
    ranks: dict[int, RankState] = field(default_factory=dict)
    """Rank -> its last report."""
    trouble: str = ""
    """What in the folder is invalid, as a sentence; empty if nothing is."""
    _stamp: int = -1
    _behind_s: float = 0.0
    """Seconds by which the wall clock, which ranks use, is behind this process's own clock."""

    def look(self) -> bool:
        """Read reports of ranks since the last call; True if there are new ones. Takes one `stat` if not."""
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
        before, self.ranks, self.trouble = (self.ranks, self.trouble), {}, ""
        for rank in self.expected:
            self._read(rank)
        return (self.ranks, self.trouble) != before

    def _read(self, rank: int) -> None:
        """Read the last report of one rank; an invalid one is ignored."""
        try:
            said = protocol.check_rank(self.folder, rank)
        except OSError as error:
            self._blame(f"rank-{rank}.json: {error.strerror}")
            return
        except ValueError as error:
            self._blame(str(error))
            return
        if said is not None:
            self.ranks[rank] = said

    def _blame(self, what: str) -> None:
        """Store the first problem found, for reports."""
        self.trouble = self.trouble or f"its program spoilt {what}"

    @property
    def speaks(self) -> bool:
        """Whether every rank of this node has reported, so that all will read directives."""
        return 0 < len(self.expected) == len(self.ranks)

    def direct(self, do: str, reason: str = "", deadline_s: float | None = None, **more: float | None) -> int:
        """Write a directive; returns its sequence number. Raises OSError if it cannot be written."""
        batch_size, workers = more.get("batch_size"), more.get("workers")
        directive = Directive(
            do=do,
            reason=reason,
            deadline_s=deadline_s,
            batch_size=batch_size,
            workers=None if workers is None else int(workers),
        )
        return protocol.command(self.folder, directive)

    def settle(self) -> int | None:
        """Let ranks that cannot agree among themselves stop at one step; returns the step, None until
        known."""
        states = {one.state for one in self.ranks.values()}
        if not self.speaks or not states <= {protocol.ANNOUNCED, protocol.FINISHED}:
            return None
        try:
            return protocol.settle(self.folder, self.expected)
        except OSError as error:  # it will not stop at a step, and the time-out stops it
            self._blame(f"{PAGE}: {error.strerror or error}")
            return None

    def open_directive(self) -> Directive | None:
        """The newest directive; None if there was none."""
        return protocol.read_directive(self.folder)

    def reached(self, state: str, sequence: int) -> bool:
        """Whether all ranks have reached `state` (or finished) by directive `sequence` or a later one."""
        return self.speaks and all(
            one.state == protocol.FINISHED or (one.state == state and one.sequence >= sequence)
            for one in self.ranks.values()
        )

    @property
    def batch_size(self) -> float | None:
        """Samples of a step, if all ranks can change the batch size; None otherwise."""
        if not self.speaks or not self.capability().batch_size:
            return None
        return next(iter(self.ranks.values())).batch_size

    def moved_bytes(self, kind: str) -> float:
        """Bytes that all ranks together moved in their last operation of this kind."""
        return min(sum(one.costs.get(kind, (0.0, 0.0))[1] for one in self.ranks.values()), MOST_BYTES)

    def progress(self) -> ProgressReport | None:
        """Progress of the whole node, that of the rank furthest behind; None before the first report."""
        states = list(self.ranks.values())
        if not states:
            return None
        first = states[0]
        return ProgressReport(
            steps=min(one.step for one in states),
            samples=min(sum(one.samples for one in states), MOST_SAMPLES),
            total_steps=_most(one.total_steps for one in states),
            loss=next((one.loss for one in states if one.loss is not None), None),
            step_s=_most(one.step_s for one in states),
            batch_size=first.batch_size,
            checkpoint_step=_most(one.checkpoint_step for one in states),
            gradient_noise=next((o.gradient_noise for o in states if o.gradient_noise is not None), None),
            gradient_s=_most(one.gradient_s for one in states),
            local_most=first.local_most,
            at_s=min(max(max(one.at_s for one in states) + self._behind_s, 0.0), LATEST_S),
        )

    def capability(self) -> Capability:
        """What all ranks can do; nothing until all have reported."""
        if not self.speaks:
            return Capability()
        said = [one.capability for one in self.ranks.values()]

        def can(name: str) -> bool:
            return all(one.get(name) is True for one in said)

        return Capability(
            training=str(min(one.get("protocol", protocol.VERSION) for one in said)),
            checkpoint=can("checkpoint"),
            resize=can("resize"),
            batch_size=can("batch_size"),
            to_host=can("to_host"),
        )

    def costs(self) -> list[Cost]:
        """Costs that the program measured itself, by kind: the slowest rank's seconds, all ranks' bytes."""
        costs = []
        for kind in sorted({kind for one in self.ranks.values() for kind in one.costs}):
            pairs = [one.costs[kind] for one in self.ranks.values() if kind in one.costs]
            if kind == READY and len(pairs) < len(self.expected):
                continue  # the gang is ready when its last rank is
            slowest_s = max(seconds for seconds, _ in pairs)
            costs.append(Cost(kind=kind, seconds=slowest_s, bytes=self.moved_bytes(kind)))
        return costs


def _most(numbers: Iterable[N | None]) -> N | None:
    return max((one for one in numbers if one is not None), default=None)
