"""Makes all ranks of a gang stop at one step: four ways to agree on it; none can hang the gang.

    alone    one rank: it stops at the gate where it sees the directive.
    rank 0   torch.distributed on one node: rank 0, at its gate after step s, publishes stop step s + 1 in the
             command page before it begins step s + 1.  No rank can finish step s + 1 before rank 0 has begun
             it, so every rank finds the stop step at its own gate s + 1.  Where the device runs behind the
             program (NCCL), a gate first waits for the device to finish the step before, and the stop step is
             s + 2, by the same argument one step later.
    store    torch.distributed on several nodes: the same with the store of the process group in place of the
             page.  Each node writes there that its ranks look, and rank 0 waits for all of them.
    agent    no process group: a rank announces, runs at most one more step, and blocks until the agent has
             published the greatest announced step + 1.  This is safe if step t of a rank needs only steps
             <= t of the others.

If possible a stop avoids the last step of an epoch (except with `agent`): a program that restarts there
would enter the loop's body with no batch left.

In a stop the leader decides how it ends (go on, leave, checkpoint and go on) and the others follow.  It is
rank 0; for `agent` the first rank of each node.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rota.training import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.training.environment import Environment
    from rota.training.page import Page
    from rota.training.protocol import Directive

_BATCH = (1 << 32) - 1


@dataclass(frozen=True)
class StopVerdict:
    """How a stop ends."""

    do: int
    """`protocol.GO_ON`, `GO_AWAY` or `SAVE`."""
    seen: int
    """Sequence of the newest directive that it is based on."""
    batch_size: int = 0
    """Samples of a step from now on; 0 changes nothing."""


class Naps:
    """Pauses between looks at a file: short at first, so that a short wait ends quickly."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def sleep(self) -> None:
        """Sleep 1 ms in the first 0.1 s, then 4 ms until 2 s have passed, then 20 ms."""
        waited = time.monotonic() - self._began
        time.sleep(0.001 if waited < 0.1 else 0.004 if waited < 2.0 else 0.02)


class Alone:
    """Agreement of a single rank, which is its own leader; base class of the others."""

    name = "alone"
    watch = 0
    """Index of the page's word that differs from `known` when there is something to do."""
    lag = 0

    def __init__(
        self, page: Page, leads: bool = True, ends_epoch: Callable[[int], bool] = lambda ahead: False
    ) -> None:
        self.page, self._ends_epoch = page, ends_epoch
        self.leads = leads
        self.known = 0
        self.open = False
        """True during an agreement: look at every gate."""
        self.blocked = False
        """True after `seek` if no further step may run and it has to be called again."""

    def seek(self, step: int, directive: Directive | None) -> int | None:
        """Sequence to stop for at this gate; None to go on. `directive` is the newest one to act on."""
        if directive is None or self._ends_epoch(0):
            return None
        return directive.sequence

    def judge(self, sequence: int, verdict: StopVerdict) -> None:
        """Publish the leader's verdict, which ends the stop."""
        self.page.words[7] = verdict.seen << 32 | min(verdict.batch_size, _BATCH)
        self.page.judge(sequence, verdict.do)

    def verdict(self, sequence: int) -> StopVerdict | None:
        """The leader's verdict, for a follower; None before it is published."""
        do = self.page.verdict(sequence)
        if do is None:
            return None
        word = self.page.words[7]
        return StopVerdict(do, word >> 32, word & _BATCH)

    def close(self, seen: int) -> None:
        """End the stop; directives up to `seen` have been obeyed."""
        self.known, self.open = max(self.known, seen), False

    def tell_saved(self, step: int) -> None:
        """Publish that rank 0 has finished with the checkpoint of `step`, written or failed."""
        self.page.words[5] = step + 1

    def saved(self, step: int) -> bool:
        """Whether rank 0 has finished with the checkpoint of `step`."""
        return bool(self.page.words[5] > step)


class RankZero(Alone):
    """Agreement of the ranks of one node that meet in a collective at every step."""

    name = "rank 0"

    def __init__(self, page: Page, leads: bool, lag: int, ends_epoch: Callable[[int], bool]) -> None:
        super().__init__(page, leads, ends_epoch)
        self.watch, self.lag = 0 if leads else 2, lag
        self._stop: tuple[int, int] | None = None

    def seek(self, step: int, directive: Directive | None) -> int | None:
        if self._stop is None:
            if self.leads:
                if directive is None:
                    return None
                self._stop = (directive.sequence, step + later(self.lag, self._ends_epoch))
                self.page.agree(*self._stop)
            else:
                agreed = self.page.agreed()
                self._stop = agreed if agreed is not None and agreed[0] > self.known else None
        self.open = self._stop is not None
        if self._stop is None or step < self._stop[1]:
            return None
        return self._stop[0]

    def close(self, seen: int) -> None:
        if not self.leads and self._stop is not None:
            seen = self._stop[0]  # a follower counts agreements instead of directives
        self._stop = None
        super().close(seen)


class ByAgent(Alone):
    """Agreement of ranks that do not meet, or meet in a way that this library does not know."""

    name = "agent"

    def __init__(self, page: Page, leads: bool, announce: Callable[[int], None]) -> None:
        super().__init__(page, leads)
        self._announce = announce
        self._announced: tuple[int, int] | None = None

    def seek(self, step: int, directive: Directive | None) -> int | None:
        if self._announced is None:
            if directive is None:
                return None
            self._announced = (directive.sequence, step)
            self._announce(directive.sequence)
            self.open = True
        (sequence, at), self.blocked = self._announced, False
        agreed = self.page.agreed()
        if agreed is not None and agreed[0] == sequence:
            return sequence if step >= agreed[1] else None
        if self.page.sequence > sequence:  # replaced before it was agreed: the next gate sees the newer one
            self._announced, self.open = None, False
            return None
        self.blocked = step > at
        return None

    def close(self, seen: int) -> None:
        self._announced, self.blocked = None, False
        super().close(seen)


class ByStore(Alone):
    """Agreement of the ranks of several nodes that meet in a collective at every step."""

    name = "store"

    def __init__(
        self,
        page: Page,
        environment: Environment,
        nodes: int,
        lag: int,
        store: Any,
        ends_epoch: Callable[[int], bool],
    ) -> None:
        super().__init__(page, environment.rank == 0, ends_epoch)
        self.lag = lag
        self._store, self._node, self._nodes = store, environment.node_rank, nodes
        self._prefix = f"rota/{environment.attempt}"
        self._number = 1
        self._said = False
        self._stop: int | None = None
        self.open = True  # another rank of this node may make it look at any time (word 6)

    def _key(self, what: str) -> str:
        return f"{self._prefix}/{self._number}/{what}"

    def seek(self, step: int, directive: Directive | None) -> int | None:
        words = self.page.words
        if directive is not None:
            self.known = max(self.known, directive.sequence)
            if not self._said:
                words[6] = self._number
                self._store.set(self._key(f"looks/{self._node}"), "1")
                self._said = True
        if words[6] < self._number:
            return None
        if self._stop is None:
            if self.leads:
                if not self._store.check([self._key(f"looks/{node}") for node in range(self._nodes)]):
                    return None
                self._stop = step + later(self.lag, self._ends_epoch)
                self._store.set(self._key("stop"), str(self._stop))
            elif self._store.check([self._key("stop")]):
                self._stop = int(self._store.get(self._key("stop")))
        return self._number if self._stop is not None and step >= self._stop else None

    def judge(self, sequence: int, verdict: StopVerdict) -> None:
        self._store.set(self._key("verdict"), f"{verdict.do} {verdict.batch_size}")

    def verdict(self, sequence: int) -> StopVerdict | None:
        if not self._store.check([self._key("verdict")]):
            return None
        do, batch = (int(part) for part in self._store.get(self._key("verdict")).split())
        return StopVerdict(do, self.known, batch)

    def close(self, seen: int) -> None:
        self._number += 1
        self._said, self._stop = False, None
        self.known = max(self.known, seen)

    def tell_saved(self, step: int) -> None:
        self._store.set(f"{self._prefix}/saved/{step}", "1")

    def saved(self, step: int) -> bool:
        try:
            return bool(self._store.check([f"{self._prefix}/saved/{step}"]))
        except (RuntimeError, OSError):  # rank 0, which holds the store, has ended: it was finished with it
            return True


def later(lag: int, ends_epoch: Callable[[int], bool]) -> int:
    """Steps from now to the stop: the first that is safe and not the last step of an epoch."""
    ahead = 1 + lag
    return ahead + 1 if ends_epoch(ahead) else ahead


def choose(
    environment: Environment,
    page: Page,
    group: Any,
    announce: Callable[[int], None],
    ends_epoch: Callable[[int], bool],
) -> Alone:
    """Choose the agreement for this program.

    `group` is a `torch_state.Group`, or None without a process group.  `ends_epoch(n)` returns whether the
    n-th step from now is the last one of an epoch.
    """
    if environment.world_size == 1:
        return Alone(page, ends_epoch=ends_epoch)
    if group is None:
        return ByAgent(page, environment.leads_node, announce)
    lag = 1 if group.runs_behind else 0
    nodes = -(-environment.world_size // environment.local_world_size)
    if nodes == 1:
        return RankZero(page, environment.rank == 0, lag, ends_epoch)
    return ByStore(page, environment, nodes, lag, group.store, ends_epoch)


def stopping(directive: Directive) -> bool:
    """Whether ranks have to stop for the directive; `run` needs no stop."""
    return directive.do not in (protocol.RUN, protocol.RESUME) or bool(directive.batch_size)
