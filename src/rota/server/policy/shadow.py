"""A second policy that watches: it decides about the same moments, and only reports what it would have done.

It never delays the real one: moments are queued behind the real decision and decided upon in a thread of
their own.  If it lags behind, it skips to the newest moment.  It is asked when the real policy is asked,
and sees the results of the real one's decisions, not of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.errors import PolicyError
from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.grants import Grant
from rota.scheduler.decision import Decision
from rota.scheduler.moments.replica import Frame
from rota.scheduler.own_modules import import_policies
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.server.policy.child import PolicyProcess
from rota.server.policy.messages import Begin, Decide, NewRows, unpack_decision
from rota.server.policy.provider_messages import KnowledgeTold
from rota.server.policy.remote import MOST_FRAMES, TableFeed, Timeouts

LAG = 4
"""Moments that may wait; with more, only the newest is decided upon."""
KEPT = 100
"""Moments that are remembered."""


@dataclass(frozen=True)
class ShadowMoment:
    """Differences of the shadow's decision at one moment."""

    now: float
    would: list[str]
    """`would start 17 on n0:0,1`; empty if it agrees."""


@dataclass(frozen=True)
class _Moment:
    now: float
    cause: int
    news: list[NewRows]
    real: Decision
    held: dict[int, Grant]
    """What running jobs held at this moment."""


class Shadow:
    """The policy `spec`, which decides in parallel with the real one."""

    def __init__(
        self,
        spec: str,
        feed: TableFeed,
        *,
        seed: int = 0,
        limits: Timeouts | None = None,
        log: Path | None = None,
        lag: int = LAG,
    ) -> None:
        import_policies()
        self.name = spec
        self.needs: frozenset[Knowledge] = frozenset(parse_policy(spec).make().needs)
        self.limits = limits or Timeouts()
        self.moments: deque[ShadowMoment] = deque(maxlen=KEPT)
        self.skipped = 0
        """Moments that it skipped, because it lagged behind or was restarted."""
        self.trouble = ""
        self._feed, self._seed, self._lag = feed, seed, lag
        self._ids: Sequence[str] = feed.state.jobs.ids
        self._cluster: Cluster = feed.state.cluster
        self._told = KnowledgeTold()
        self._memory: bytes | None = None
        self._queue: list[Frame | _Moment | Begin] = []
        self._has_work = threading.Condition()
        self._is_idle = True
        self._is_over = False
        self._must_begin = True
        self._child: PolicyProcess | None = None
        self._log = log
        feed.followers.append(self._push)
        self._thread = threading.Thread(target=self._run, name="policy-shadow", daemon=True)
        self._thread.start()

    # -- the scheduler's thread ----------------------------------------------------------------------

    def moment(self, snapshot: Snapshot, real: Decision) -> None:
        """The real policy has decided `real`, which has not been carried out yet."""
        known, submitted = snapshot._known, len(snapshot.jobs)
        with self._has_work:
            if self._must_begin:
                self._must_begin = False
                self._told = KnowledgeTold()
                self.skipped += sum(isinstance(item, _Moment) for item in self._queue)
                self._queue = [self._feed.begin(self.name, self._memory, self._seed)]
            news = self._told.news(known, self.needs, submitted)
            held = dict(snapshot.grants)
            self._queue.append(_Moment(snapshot.now, int(snapshot.cause), news, real, held))
            self._has_work.notify_all()

    def _push(self, frame: Frame) -> None:
        with self._has_work:
            if self._must_begin:
                return
            self._queue.append(frame)
            if len(self._queue) > MOST_FRAMES:
                self._must_begin, self._queue = True, []

    def settle(self, timeout_s: float) -> bool:
        """Wait until all that was queued is decided upon; False if it takes longer."""
        with self._has_work:
            return self._has_work.wait_for(lambda: self._is_idle and not self._has_moments(), timeout_s)

    def close(self) -> None:
        """It watches no more."""
        self._feed.followers.remove(self._push)
        with self._has_work:
            self._is_over = True
            self._has_work.notify_all()
        child = self._child
        if child is not None:
            child.kill()
        self._thread.join()

    # -- its own thread ------------------------------------------------------------------------------

    def _has_moments(self) -> bool:
        return any(not isinstance(item, Frame) for item in self._queue)

    def _run(self) -> None:
        while True:
            with self._has_work:
                self._is_idle = True
                self._has_work.notify_all()
                self._has_work.wait_for(lambda: self._is_over or self._has_moments())
                if self._is_over:
                    break
                self._is_idle = False
                queue, self._queue = self._queue, []
            try:
                self._work(queue)
                self.trouble = ""
            except (TimeoutError, PolicyError) as error:
                self._fall_back(error)
        if self._child is not None:
            self._child.kill()

    def _fall_back(self, error: Exception) -> None:
        """Restart it at the next moment."""
        why = f"did not decide within {self.limits.deadline_s:g} s" if isinstance(error, TimeoutError) else ""
        if not self._is_over:
            self.trouble = f"shadow policy {self.name} {why or f'failed: {error}'}"
        if self._child is not None:
            self._child.kill()
            self._child = None
        with self._has_work:
            self._must_begin = True
            self.skipped += 1

    def _work(self, queue: list[Frame | _Moment | Begin]) -> None:
        """Decide upon the moments in the queue, or the newest of them if there are too many."""
        left = sum(isinstance(item, _Moment) for item in queue)
        skip = left - 1 if left > self._lag else 0
        self.skipped += skip
        frames: list[Frame] = []
        news: list[NewRows] = []
        for item in queue:
            if isinstance(item, Frame):
                frames.append(item)
            elif isinstance(item, Begin):
                self._begin(item)
            else:
                news += item.news
                if skip:
                    skip -= 1
                else:
                    self._decide(item, frames, news)
                    frames, news = [], []
        with self._has_work:  # what follows the last moment belongs before the next one
            self._queue[:0] = frames

    def _begin(self, begin: Begin) -> None:
        if self._child is None or not self._child.is_alive():
            self._child = PolicyProcess(self._log, memory_gib=self.limits.memory_gib)
        self._asked(begin, self.limits.begin_s)

    def _decide(self, moment: _Moment, frames: list[Frame], news: list[NewRows]) -> None:
        reply = self._asked(Decide(frames, moment.cause, news), self.limits.deadline_s)
        try:
            self._memory = bytes(reply["memory"])
            decision = unpack_decision(reply["decision"], {})
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise PolicyError(f"its answer is no decision ({error!r})") from None
        would = differences(self._ids, self._cluster, moment.held, moment.real, decision)
        self.moments.append(ShadowMoment(moment.now, would))

    def _asked(self, request: object, within_s: float) -> dict[str, Any]:
        assert self._child is not None, "a moment follows a beginning"
        reply = self._child.ask(request, within_s)
        if "error" in reply:
            raise PolicyError(str(reply["error"]))
        return reply


def differences(
    ids: Sequence[str], cluster: Cluster, held: dict[int, Grant], real: Decision, shadow: Decision
) -> list[str]:
    """Acts of `shadow` that `real` does not do, and acts that it would leave out."""
    there = {grant.job: grant for grant in real.grants}
    here = {grant.job: grant for grant in shadow.grants}
    would = []
    for row, grant in here.items():
        if row not in there and held.get(row) != grant:
            verb = "move" if row in held else "start"
            to = "to" if row in held else "on"
            would.append(f"would {verb} {ids[row]} {to} {places(cluster, grant)}")
    would += [f"would preempt {ids[row]}" for row in shadow.preempt if row not in real.preempt]
    would += [f"would keep {ids[row]} running" for row in real.preempt if row not in shadow.preempt]
    would += [f"would let {ids[row]} wait" for row in there if row not in here and row not in held]
    for what, theirs, ours in (
        ("reject", real.reject, shadow.reject),
        ("offer a later deadline to", _offered(real), _offered(shadow)),
        ("cancel", real.cancel, shadow.cancel),
    ):
        would += [f"would {what} {ids[row]}: {why}" for row, why in ours.items() if row not in theirs]
    return would


def _offered(decision: Decision) -> dict[int, str]:
    return {row: offer.why for row, offer in decision.offers.items()}


def places(cluster: Cluster, grant: Grant) -> str:
    """`n0:0,1 n1:3`: devices by node, numbered within it."""
    if not grant.devices:
        return cluster.node_names[grant.node]
    by_node: dict[int, list[int]] = {}
    for device in grant.devices:
        node = int(cluster.device_node[device])
        by_node.setdefault(node, []).append(device - int(cluster.first_device[node]))
    return " ".join(f"{cluster.node_names[n]}:{','.join(map(str, d))}" for n, d in by_node.items())
