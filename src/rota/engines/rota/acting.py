"""Carries out what `reconcile` has decided, and remembers what a part's folder does not record."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Set
from functools import partial

from rota.engines.rota.devices import Devices
from rota.engines.rota.guarding import described
from rota.engines.rota.launching import void_checkpoints
from rota.engines.rota.live import Live
from rota.engines.rota.mechanisms import Mechanisms
from rota.engines.rota.ports import free_port
from rota.engines.rota.processes import kill_tree, send_group
from rota.engines.rota.supervisor import Supervisor
from rota.engines.rota.telling import PartMemo, unbegun_report
from rota.engines.shared.ledger import Key
from rota.engines.shared.orders import Orders
from rota.engines.shared.reconcile import Action, Do
from rota.engines.shared.silence import Contact
from rota.engines.shared.steady import unix_s
from rota.errors import RotaError
from rota.training import protocol
from rota.wire.sync import Part, PartStatus, Report, Wanted

LOG = logging.getLogger("rota.engines.rota")
RETRY_S = 1.0
"""Seconds after which a failed action is tried again."""


class ActionExecutor:
    """Carries out actions on parts; a single thread calls it."""

    def __init__(
        self,
        supervisor: Supervisor,
        mechanisms: Mechanisms,
        devices: Devices,
        *,
        orders: Orders,
        contact: Contact,
    ) -> None:
        self.memos: dict[Key, PartMemo] = {}
        self.unbegun: dict[Key, Report] = {}
        """Reports of parts that were refused or withdrawn and are not yet forgotten."""
        self.retry_s = float("inf")
        """Monotonic time at which failed actions are tried again."""
        self._supervisor, self._mechanisms, self._devices = supervisor, mechanisms, devices
        self._orders, self._contact = orders, contact

    def memo(self, key: Key) -> PartMemo:
        """What is remembered of a part."""
        return self.memos.setdefault(key, PartMemo())

    def keep(self, keys: Set[Key]) -> None:
        """Forget all parts except those in `keys`."""
        self.memos = {key: memo for key, memo in self.memos.items() if key in keys}

    def carry_out(self, action: Action, live: Live | None) -> None:
        """Carry out an action; what fails on this machine is reported and tried again."""
        memo = self.memo(action.key)
        try:
            if live is None:
                self._begin(action)
            else:
                self._change(action, live, memo)
        except Exception as error:  # any exception: it must not affect the other jobs
            is_expected = isinstance(error, (OSError, RotaError))
            said, why = memo.trouble, str(error) if is_expected else described(error)
            memo.trouble = f"cannot {action.do} it: {why}"
            self.retry_s = time.monotonic() + RETRY_S
            if memo.trouble != said:
                text, traceback = "job %d attempt %d: %s", None if is_expected else error
                LOG.warning(text, action.key[0] + 1, action.key[1], memo.trouble, exc_info=traceback)
            if live is not None:
                signal_it = partial(self._signal, action, live, memo)
                self._supervisor.guard.run(action.key, "signal it", signal_it, None)
            return
        if action.part is not None:
            memo.told = (self._orders.controller, action.part.version)

    def _begin(self, action: Action) -> None:
        """Carry out an action on a part that has no folder here."""
        part = action.part
        if action.do is Do.FORGET:
            self._forget(action.key)
        elif action.do is Do.CLEAR:
            self._clear(action.key)
        elif part is not None and action.do is Do.REFUSE:
            self.unbegun[action.key] = unbegun_report(part, PartStatus.LOST, action.why)
        elif part is not None and action.do is Do.WITHDRAW:
            self.unbegun[action.key] = unbegun_report(part, PartStatus.ENDED, action.why)
        elif part is not None and action.do is Do.START:
            self.memo(action.key).started_s = unix_s()
            port = part.port
            if port is None and part.node_rank == 0:
                port = free_port({live.port for live in self._supervisor.known() if not live.gone})
            cores, cuda = self._devices.cores(part.devices), self._devices.cuda(part.devices)
            live = self._supervisor.start(part, cores=cores, cuda=cuda, port=port)
            if live.status is PartStatus.LOST:
                self._contact.check()

    def _change(self, action: Action, live: Live, memo: PartMemo) -> None:
        """Carry out an action on a part that has a folder here."""
        part = action.part if action.part is not None else live.part
        if action.do in {Do.KILL, Do.FENCE, Do.STOP, Do.LEAVE}:
            memo.parked = memo.parked or live.status is PartStatus.SUSPENDED
            memo.stopping_s = memo.stopping_s or unix_s()
        match action.do:
            case Do.FORGET:
                self._supervisor.forget(live)
                self._forget(live.key)
            case Do.CLEAR:
                self._supervisor.forget(live)
                self._clear(live.key)
            case Do.KILL:
                if action.void:
                    mine = live.part.model_copy(update={"void": [live.attempt]})
                    void_checkpoints(self._supervisor.home, mine)
                    LOG.warning("job %s: %s; it is killed", live.part.job, action.why)
                self._mechanisms.kill(live, "fenced" if action.void else _reason(part))
            case Do.FENCE:
                left_s = max(0.0, self._contact.fenced_s - self._contact.clock())
                LOG.warning("job %s is stopped: %s", live.part.job, action.why)
                self._mechanisms.stop(live, live.part, min(left_s, live.part.grace_s), "fenced")
            case Do.STOP:
                self._mechanisms.stop(live, _orderly(part, live))
            case Do.LEAVE:
                self._mechanisms.leave(live, _orderly(part, live))
            case Do.SUSPEND if part.wanted is Wanted.RUN:
                self._mechanisms.freeze(live, part)
            case Do.SUSPEND:
                self._mechanisms.suspend(live, _orderly(part, live))
            case Do.TUNE:
                memo.batch_size = part.batch_size
                self._mechanisms.relay(live).direct(protocol.BATCH_SIZE, batch_size=part.batch_size)
            case Do.RESUME:
                self._mechanisms.resume(live, part, self._devices.cores(part.devices))

    def _signal(self, action: Action, live: Live, memo: PartMemo) -> None:
        """Send signals directly, because the disk is too full to store the plan of a stop."""
        stopping = action.do in {Do.STOP, Do.FENCE, Do.LEAVE}
        if live.shim is None or live.pgid is None or not (stopping or action.do is Do.KILL):
            return
        waited_s = unix_s() - (memo.stopping_s or 0.0)
        if stopping and waited_s < live.part.grace_s:
            if not memo.signalled:
                send_group(live.pgid, signal.SIGTERM)
                send_group(live.pgid, signal.SIGCONT)
                memo.signalled = True
        else:
            kill_tree(live.shim.pid)

    def _forget(self, key: Key) -> None:
        self._orders.forget(key)
        self._drop(key)

    def _clear(self, key: Key) -> None:
        """Forget what is known of a key: its order, which is for another job, can be carried out now."""
        self._drop(key)
        self.retry_s = time.monotonic()

    def _drop(self, key: Key) -> None:
        self._mechanisms.forget(key)
        self.unbegun.pop(key, None)
        self.memos.pop(key, None)


def _orderly(part: Part, live: Live) -> Part:
    """An order to stop, completed from the order that started the attempt where it leaves fields open."""
    return part if part.command else live.part.model_copy(update={"notice": part.notice})


def _reason(part: Part) -> str:
    return part.notice.reason if part.notice is not None else "cancelled"
