"""A policy that decides in another process: nothing that it does or leaves undone stops the loop.

If it does not decide in time, dies, raises, or answers with garbage, everything keeps what it has: the
decision that is returned changes nothing, `trouble` says why, and it is asked again after a pause that
doubles as long as it goes on.  A process that cannot be trusted any more is killed; a new one begins at the
next call with the whole table and the memory that was committed last.

Towards the loop the memory is `{"sealed": bytes}`: the loop hands it over, the store writes the bytes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.errors import PolicyError
from rota.knowledge.needs import Knowledge
from rota.model.growing import GrowingTable
from rota.scheduler.asking import extent_of
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.forms import formed
from rota.scheduler.moments.replica import Frame, TracedState, take_frame, take_whole
from rota.scheduler.own_modules import import_policies
from rota.scheduler.policy import levers_of, parse_policy
from rota.scheduler.reasons.order import Precedence
from rota.scheduler.snapshot import Snapshot
from rota.server.policy.child import PolicyProcess
from rota.server.policy.messages import (
    Begin,
    Decide,
    Explain,
    Freeze,
    GuaranteedRunners,
    NotTakenError,
    PipeError,
    ServedOrder,
    WhyAnswer,
    sealed_memory,
    unpack_constraint,
    unpack_decision,
    unpack_plan,
)
from rota.server.policy.provider_messages import KnowledgeTold
from rota.server.refusals import Busy

LONGEST_PAUSE_S = 300.0
MOST_FRAMES = 4096
"""With more frames than this on the way, sending the whole table again is cheaper."""

KEEPS = "; everything keeps what it has"
"""How the sentence about a failure ends."""

Costs = Callable[[], Mapping[int, float]]
"""Present cost of preempting each running job, in seconds."""


class TableFeed:
    """Hands the changes of one table to all its followers.  Only the scheduler's thread may use it."""

    def __init__(self, state: TracedState, table: GrowingTable) -> None:
        self.state = state
        self.table = table
        self.followers: list[Callable[[Frame], None]] = []

    def pull(self) -> None:
        """Everything that happened until now is on its way to the followers."""
        frame = take_frame(self.state)
        for follower in self.followers:
            follower(frame)

    def begin(self, policy: str, memory: bytes | None, seed: int) -> Begin:
        """The first message to a process that follows from the last `pull` on."""
        return Begin(take_whole(self.state, self.table), policy, memory, seed)


@dataclass(frozen=True)
class Timeouts:
    """How long a policy's process is waited for, and how much memory it may take."""

    deadline_s: float = 10.0
    """For a decision."""
    begin_s: float = 30.0
    """For a process to start and to take in the whole table."""
    retry_s: float = 1.0
    """From a failed decision to the next, at first; after a missed deadline at least the deadline."""
    memory_gib: float = 0.0
    """The most that it may take; half of the machine's memory if 0."""


@dataclass
class Tally:
    """Counts of calls by outcome."""

    calls: int = 0
    failures: int = 0
    starts: int = 0
    decided_ms: float = 0.0
    """Of the last decision, inside the process."""
    round_trip_ms: float = 0.0
    """Of the last decision, from asking to having it."""
    failed_in_a_row: int = field(default=0)


class RemotePolicy:
    """The policy `spec` in a process of its own, as the loop knows policies.

    `decide`, `note` and `close` are for the scheduler's thread; `explain` and `freeze` for any.
    `memory` is stored from an earlier run; each call of `decide` passes the one that counts.
    """

    def __init__(
        self,
        spec: str,
        feed: TableFeed,
        *,
        memory: bytes | None = None,
        seed: int = 0,
        limits: Timeouts | None = None,
        costs: Costs | None = None,
        log: Path | None = None,
        process: PolicyProcess | None = None,
    ) -> None:
        """`process` may be one that served another table; it starts again with this one."""
        import_policies()
        self.name = spec
        policy = parse_policy(spec).make()
        self.needs: frozenset[Knowledge] = frozenset(policy.needs)
        self.levers = levers_of(policy)
        self.limits = limits or Timeouts()
        self.seed = seed
        self.tally = Tally()
        self.trouble = ""
        """One sentence if the last decision failed."""
        self._feed = feed
        self.costs = costs
        self._log = log
        self._lock = threading.Lock()  # held while a thread asks the child
        self._box = threading.Lock()
        self._frames: deque[Frame] = deque()
        self._child = process
        self._is_in_step = False
        """True if the child has begun and gets every frame."""
        self._told = KnowledgeTold()
        self._left = memory or None  # left by the last decision
        self._rest_until = 0.0
        self._cannot_begin = False
        """True if its process could not begin as a step was noted: that is over once one has begun."""
        feed.followers.append(self._push)

    # -- the scheduler's thread ----------------------------------------------------------------------

    def warm(self) -> None:
        """Start the process now, so that the first decision does not have to wait for it."""
        with self._lock:
            self._living()

    def note(self) -> None:
        """Let explanations show the table as it is now; a process that has died is started again."""
        self._feed.pull()
        child = self._child
        if (child and child.is_alive() and self._is_in_step) or self._rest_until > time.monotonic():
            return
        with self._lock:
            try:
                self._begin(self._living(), self._left)
            except PolicyError as error:
                self._rest(f"cannot begin: {error}")
                self._cannot_begin = True
                return
        if self._cannot_begin:
            self._cannot_begin, self.trouble = False, ""

    def rest(self, why: str, failed_in_a_row: int) -> None:
        """Its last decision, the latest of `failed_in_a_row` failures, came to nothing: it is asked later."""
        self.tally.failed_in_a_row = failed_in_a_row - 1
        self._rest(why, kill=False)

    @property
    def rests_s(self) -> float:
        """Seconds until it may be asked again."""
        return max(0.0, self._rest_until - time.monotonic())

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """The policy's decision; on a failure one that changes nothing, and `trouble`."""
        self.tally.calls += 1
        self._feed.pull()
        rest_s = self._rest_until - time.monotonic()
        if rest_s > 0.0:
            return self._nothing(snapshot, memory, rest_s)
        began = time.perf_counter()
        sealed: bytes | None = memory.get("sealed") or None
        with self._lock:
            try:
                decision = self._decided_at_last(snapshot, sealed)
            except TimeoutError:
                why = f"did not decide within {self.limits.deadline_s:g} s"
                return self._failed(snapshot, memory, why, at_least_s=self.limits.deadline_s)
            except PipeError as error:
                return self._failed(snapshot, memory, f"broke off: {error}")
            except PolicyError as error:
                return self._failed(snapshot, memory, f"failed: {error}", kill=False)
        self.tally.round_trip_ms = (time.perf_counter() - began) * 1000.0
        self.tally.failed_in_a_row, self.trouble, self._cannot_begin = 0, "", False
        return decision

    def _decided_at_last(self, snapshot: Snapshot, sealed: bytes | None) -> Decision:
        """The decision; a process that had died before it was asked is replaced without further ado."""
        try:
            return self._decided(snapshot, sealed)
        except NotTakenError:
            self._bury()
            return self._decided(snapshot, sealed)

    def _decided(self, snapshot: Snapshot, sealed: bytes | None) -> Decision:
        child = self._living()
        if not self._is_in_step or (sealed is None and self._left is not None):
            self._begin(child, sealed)
        known = snapshot._known  # all that is provided, whole columns
        request = Decide(
            self._drain(),
            snapshot.cause,
            self._told.news(known, self.needs, len(snapshot.jobs)),
            sealed if sealed is not self._left else None,
            self.costs() if self.costs and snapshot.waiting_count else {},
        )
        reply = self._asked(child, request, self.limits.deadline_s)
        try:
            self._left = bytes(reply["memory"])
            self.tally.decided_ms = float(reply["ms"])
            decision = unpack_decision(reply["decision"], sealed_memory(self._left))
            return formed(decision, self.name, extent_of(snapshot))
        except (PolicyError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise PipeError(f"its answer is no decision ({error!r})") from None

    def _living(self) -> PolicyProcess:
        """The child, a new one if there is none or it has died since the last call."""
        if self._child is None or not self._child.is_alive():
            self._bury()
            self._child = PolicyProcess(self._log, memory_gib=self.limits.memory_gib)
            self.tally.starts += 1
        return self._child

    def _begin(self, child: PolicyProcess, sealed: bytes | None) -> None:
        with self._box:
            self._frames.clear()
            self._is_in_step = True  # from here on frames are kept for it
        self._told, self._left = KnowledgeTold(), sealed
        try:
            self._asked(child, self._feed.begin(self.name, sealed, self.seed), self.limits.begin_s)
        except TimeoutError:
            raise PipeError(f"it did not begin within {self.limits.begin_s:g} s") from None

    def _failed(
        self, snapshot: Snapshot, memory: Memory, why: str, *, kill: bool = True, at_least_s: float = 0.0
    ) -> Decision:
        pause_s = self._rest(why, kill=kill, at_least_s=at_least_s)
        return self._nothing(snapshot, memory, pause_s)

    def _rest(self, why: str, *, kill: bool = True, at_least_s: float = 0.0) -> float:
        """Something went wrong; returns the seconds until the policy is asked again."""
        if kill:
            self._bury()
        self.tally.failures += 1
        self.tally.failed_in_a_row += 1
        self.trouble = f"policy {self.name} {why}{KEEPS}"
        pause_s = max(self.limits.retry_s, at_least_s) * 2.0 ** min(self.tally.failed_in_a_row - 1, 16)
        pause_s = min(pause_s, LONGEST_PAUSE_S)
        self._rest_until = time.monotonic() + pause_s
        if kill:
            try:
                self._living()  # it starts while the policy rests
            except PipeError as error:
                self.trouble = f"policy {self.name}: {error}{KEEPS}"
        return pause_s

    def _nothing(self, snapshot: Snapshot, memory: Memory, pause_s: float) -> Decision:
        """Every job keeps its devices; until the pause is over no event wakes the policy."""
        return Decision(memory, wake=Wake(snapshot.now + pause_s, Event.NONE), is_cut=True)

    def _bury(self) -> None:
        self._is_in_step = False
        if self._child is not None:
            self._child.kill()
            self._child = None

    def close(self) -> None:
        """End the process; it follows nothing any more."""
        process = self.release()
        if process is not None:
            process.kill()

    def release(self) -> PolicyProcess | None:
        """Hand over the process, which follows no table any more, for use with another one."""
        if self._push in self._feed.followers:
            self._feed.followers.remove(self._push)
        with self._lock:
            process, self._child, self._is_in_step = self._child, None, False
        return process

    # -- any thread ----------------------------------------------------------------------------------

    @property
    def is_away(self) -> bool:
        """True if no process follows the table: the next step of the scheduler begins with one."""
        child = self._child
        return child is None or not self._is_in_step or not child.is_alive()

    def explain(self, rows: list[int], timeout_s: float = 2.0) -> dict[int, WhyAnswer]:
        """Why `rows` wait, as of the last decision and the last `note`.

        Raises Busy if a decision is being computed, or the process has to start; PolicyError if it fails.
        """
        reply = self._asked_beside(lambda frames: Explain(frames, rows), timeout_s)
        answers = {}
        for row, why in reply["rows"].items():
            constraints = tuple(unpack_constraint(fields) for fields in why["constraints"])
            plan = unpack_plan(why["plan"])
            answers[row] = WhyAnswer(constraints, why["position"], why["ahead"], plan)
        return answers

    def order(self, timeout_s: float = 2.0) -> Precedence:
        """How jobs stand with the policy.  Raises as `explain`."""
        reply = self._asked_beside(ServedOrder, timeout_s)
        return Precedence(reply["order"], reply["targets"], reply["target"])

    def standing(self, timeout_s: float = 2.0) -> frozenset[int] | None:
        """Rows that run on what their tenants can always have; None where the policy knows of no guarantees.

        Raises as `explain`.
        """
        rows = self._asked_beside(GuaranteedRunners, timeout_s)["guaranteed"]
        return None if rows is None else frozenset(rows)

    def freeze(self, timeout_s: float = 10.0) -> bytes:
        """The present moment as `rota.scheduler.moments.frozen.load` reads it; raises as `explain`."""
        frozen: bytes = self._asked_beside(Freeze, timeout_s)["frozen"]
        return frozen

    def _asked_beside(self, request: Callable[[list[Frame]], object], timeout_s: float) -> dict[str, Any]:
        until = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            raise Busy(f"policy {self.name} is computing a decision; ask again in a moment")
        try:
            child = self._child
            if child is None or not self._is_in_step or not child.is_alive():
                raise Busy(f"policy {self.name} is being started; ask again in a moment")
            return self._asked(child, request(self._drain()), max(until - time.monotonic(), 0.05))
        except TimeoutError:
            raise Busy(f"policy {self.name} did not answer within {timeout_s:g} s; ask again") from None
        except PipeError:
            raise Busy(f"policy {self.name} has died and is being started; ask again in a moment") from None
        finally:
            self._lock.release()

    def _asked(self, child: PolicyProcess, request: object, within_s: float) -> dict[str, Any]:
        """The answer; PolicyError with the sentence of the child if it could not."""
        reply = child.ask(request, within_s)
        if "error" in reply:
            if reply.get("lost", True):
                self._is_in_step = False
            raise PolicyError(str(reply["error"]))
        return reply

    # -- frames --------------------------------------------------------------------------------------

    def _push(self, frame: Frame) -> None:
        with self._box:
            if not self._is_in_step:
                return  # it will begin with the whole table
            self._frames.append(frame)
            if len(self._frames) > MOST_FRAMES:
                self._is_in_step = False
                self._frames.clear()

    def _drain(self) -> list[Frame]:
        with self._box:
            frames = list(self._frames)
            self._frames.clear()
        return frames
