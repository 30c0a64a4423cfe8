"""The child: holds a replica of the loop's table and a policy, and answers what its parent asks.

Started as `python -P -m rota.server.policy.process FD PARENT` with one end of a pair of sockets.  Output of
the policy goes to standard error.  The child dies with its parent, even while the policy hangs.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from socket import socket
from typing import Any, Protocol

from rota.errors import PolicyError, RotaError, words_of
from rota.model.grants import Code, Constraint
from rota.model.hangup import open_logs_anew_on_hangup
from rota.scheduler.asking import SpoiltError, asked, extent_of
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.forms import rows_of
from rota.scheduler.moments.frozen import freeze, packed_decision, to_bytes
from rota.scheduler.moments.replica import Frame, Replica
from rota.scheduler.own_modules import import_policies
from rota.scheduler.policy import Policy, PolicySpec, parse_policy
from rota.scheduler.reasons.order import waiting_order
from rota.scheduler.reasons.running import explain_running
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import RunSeed, Snapshot
from rota.scheduler.victims import cheaper_victims
from rota.server.policy.memory import SPENT, has_run_out
from rota.server.policy.messages import (
    Begin,
    Decide,
    Explain,
    Freeze,
    GuaranteedRunners,
    PipeError,
    ServedOrder,
    pack_constraint,
    pack_plan,
    receive,
    seal,
    send,
    unseal,
)
from rota.server.policy.provider_messages import KnowledgeHeard
from rota.stages.priority import ByPriority
from rota.table.state import Phase

Reply = dict[str, Any]
NOT_ASKED = Constraint(
    Code.POLICY, detail="the policy has not decided since its process began; when it does next, it says why"
)
"""Explanation if no other reason applies, as for a while under a policy that decides in rounds."""
AHEAD = 3
"""Number of the rows before a job that are named."""


class PolicyChild:
    """The policy with all it sees."""

    def __init__(self) -> None:
        self.is_in_step = False
        """True as long as the replica is known to equal the loop's table."""
        self.spec = PolicySpec("", {})
        self.module = ""
        """The module of the policy."""
        self.seed = 0
        self._serve: dict[type, Callable[[Any], Reply]] = {
            Begin: self.begin, Decide: self.decide, Explain: self.explain, Freeze: self.freeze,
            ServedOrder: self.order,
            GuaranteedRunners: self.standing,
        }  # fmt: skip

    def answer(self, request: Any) -> Reply:
        """The answer to `request`, or `error` and whether the replica has to be sent again."""
        try:
            return self._serve[type(request)](request)
        except (Exception, SystemExit) as error:  # a policy may raise anything
            if has_run_out(error):
                return {SPENT: words_of(error, self.module)}
            sys.excepthook(type(error), error, error.__traceback__)
            sentence = (
                str(error)
                if isinstance(error, RotaError)
                else words_of(error, type(getattr(self, "policy", None)).__module__)
            )
            return {"error": sentence, "lost": not self.is_in_step}

    def begin(self, request: Begin) -> Reply:
        self.is_in_step = False
        import_policies()
        self.spec, self.seed = parse_policy(request.policy), request.seed
        self.told = KnowledgeHeard()
        self.displaced: dict[int, Constraint] = {}
        self.replica = Replica(request.whole)
        self.sealed = request.memory
        self._new_policy()
        self.is_in_step = True
        return {}

    def _new_policy(self) -> None:
        """A fresh instance with the last memory that was handed over: a failed call may have spoilt both."""
        self.policy: Policy = self.spec.make()
        self.module = type(self.policy).__module__
        self.memory: Memory = unseal(self.sealed)
        self.last = Decision({}, otherwise=NOT_ASKED)
        self.targets: Mapping[int, float] = {}
        self.target = ""

    # -- keeping up ----------------------------------------------------------------------------------

    def _follow(self, frames: list[Frame]) -> None:
        if not self.is_in_step:
            raise PolicyError("the policy process has to begin anew")
        self.is_in_step = False
        for frame in frames:
            self.replica.follow(frame)
        self.is_in_step = True

    def _snapshot(self, cause: int = 0) -> Snapshot:
        return Snapshot(
            self.replica.state, cause, self.told.known, frozenset(self.policy.needs), RunSeed(self.seed)
        )

    # -- requests ------------------------------------------------------------------------------------

    def decide(self, request: Decide) -> Reply:
        self._follow(request.frames)
        self.told.learn(request.news)
        if request.memory is not None:
            self.sealed = request.memory
            self._new_policy()
        snapshot = self._snapshot(request.cause)
        began = time.perf_counter()
        try:
            decision = asked(self.policy, snapshot, self.memory)
            if request.costs:
                decision = cheaper_victims(snapshot, decision, lambda row: request.costs.get(row, 0.0))
            sealed = seal(decision.memory)
        except BaseException as error:
            self.is_in_step = not isinstance(error, SpoiltError)
            self._new_policy()
            raise
        took_ms = (time.perf_counter() - began) * 1000.0
        self.memory, self.sealed, self.last = decision.memory, sealed, decision
        if decision.targets is not None:
            self.targets, self.target = decision.targets, decision.target
        self._note_displaced(snapshot, decision)
        packed = packed_decision(replace(decision, memory={}))
        return {"decision": packed, "memory": sealed, "ms": took_ms}

    def _note_displaced(self, snapshot: Snapshot, decision: Decision) -> None:
        """Which jobs each waiting job was preempted for."""
        started = {grant.job for grant in decision.grants}
        phase = snapshot.by_row.phase
        kept = {r: c for r, c in self.displaced.items() if r not in started and phase[r] == Phase.PENDING}
        ids = snapshot.jobs.table.ids
        for row in decision.preempt:
            devices = set(snapshot.grants[row].devices) if row in snapshot.grants else set()
            heirs = [ids[grant.job] for grant in decision.grants if devices.intersection(grant.devices)]
            names = ", ".join(heirs[:AHEAD]) or "nobody yet"
            kept[row] = Constraint(Code.PREEMPTED, len(devices), detail=names)
        self.displaced = kept

    def explain(self, request: Explain) -> Reply:
        self._follow(request.frames)
        snapshot = self._snapshot()
        last = self.last
        in_force = replace(last, grants=(), preempt=(), reject={}, cancel={}, reservations=None)
        ranking = in_force.ranking
        keeps = ranking if isinstance(ranking, ByPriority) and len(request.rows) > 1 else None
        if keeps is not None:
            keeps.kept_keys = keeps.waiting_keys(snapshot)
        try:
            return {"rows": {row: self._why(snapshot, in_force, row) for row in request.rows}}
        finally:
            if keeps is not None:
                keeps.kept_keys = {}

    def _why(self, snapshot: Snapshot, decision: Decision, row: int) -> Reply:
        ahead = self._ahead(snapshot, row) if snapshot.waits(row) else []
        constraints = list(
            explain(snapshot, decision, row) or explain_running(snapshot, row, decision.ranking)
        )
        if constraints and row in self.displaced and snapshot.waits(row):
            constraints.insert(1 if row in decision.reasons else 0, self.displaced[row])
        return {
            "constraints": [pack_constraint(one) for one in constraints],
            "position": len(ahead) + 1,
            "ahead": ahead[:AHEAD],
            "plan": None if self.last.plan_of is None else pack_plan(self.last.plan_of(row)),
        }

    def _ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        """Waiting rows before `row`, as the policy says; by submission if it does not say."""
        if self.last.ranking is None:
            return [other for other in snapshot.waiting.tolist() if other < row]
        ahead = self._of_jobs("ahead", snapshot, self.last.ranking.ahead(snapshot, row))
        return [other for other in ahead if other != row]

    def _of_jobs(self, what: str, snapshot: Snapshot, rows: Iterable[Any]) -> list[int]:
        """The rows that the policy's ranking gives, of jobs that exist; PolicyError otherwise."""
        return rows_of(f"{self.spec}: ranking.{what}", rows, extent_of(snapshot))

    def order(self, request: ServedOrder) -> Reply:
        self._follow(request.frames)
        snapshot, rows = self._snapshot(), len(self.replica.state.phase)
        live = snapshot.by_row.phase
        targets = {
            int(row): float(value)
            for row, value in self.targets.items()
            if 0 <= row < rows and live[row] <= Phase.RUNNING
        }
        order = waiting_order(snapshot, self.last.ranking)
        order = None if order is None else self._of_jobs("in_turn", snapshot, order)
        return {"order": order, "targets": targets, "target": self.target}

    def standing(self, request: GuaranteedRunners) -> Reply:
        self._follow(request.frames)
        rows = self.last.guaranteed
        if rows is None:
            return {"guaranteed": None}
        return {"guaranteed": [row for row in self._snapshot().grants if row in rows]}

    def freeze(self, request: Freeze) -> Reply:
        self._follow(request.frames)
        return {"frozen": to_bytes(freeze(self._snapshot(), self.memory, self.spec))}


# -- life and death --------------------------------------------------------------------------------


class Answering(Protocol):
    """Requests that this process serves."""

    def answer(self, request: Any) -> Reply:
        """Plain values; `error` with a sentence if there is no answer."""
        ...


def serve(pipe: socket, child: Answering) -> None:
    """Answer requests, each with its number, until the other side is gone."""
    while True:
        try:
            number, request = receive(pipe, plain=False)
        except PipeError:
            return
        reply = child.answer(request)
        send(pipe, {**reply, "number": number})


def _die_with(parent: int) -> None:
    """Ask the kernel for a signal when the parent is gone; where it cannot, `_watch` has to do."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _watch(pipe: socket) -> None:
    """End this process and all it started as soon as the other end of `pipe` is closed."""
    poll = select.poll()
    poll.register(pipe, 0)  # nothing but the hang-up
    poll.poll()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def main(fd: str, parent: str, child: Answering) -> None:
    """The process, from its start to its end."""
    _die_with(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the controller
    open_logs_anew_on_hangup()
    pipe = socket(fileno=int(fd))
    os.set_inheritable(pipe.fileno(), False)
    os.dup2(2, 1)
    threading.Thread(target=_watch, args=(pipe,), daemon=True).start()
    serve(pipe, child)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], PolicyChild())
