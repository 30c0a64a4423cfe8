"""An engine's two connections to its controller for one node: a listener and a teller.

The listener asks with a long wait and reports nothing, except that its first request to each controller has a
complete report. The teller posts news at once and does not wait for answers to other requests, so that the
end of a part is sent while the listener sleeps. Both take orders from every answer.

While the controller is away both try again, the listener with pauses that grow up to `most_s`; jobs run on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from rota.client.http import Refused, Unreachable, route
from rota.engines.shared.board import Board, Parcel
from rota.engines.shared.orders import Orders, QuestionBasis
from rota.engines.shared.silence import Contact
from rota.engines.shared.steady import unix_s
from rota.wire.protocol import PROTOCOL
from rota.wire.sync import Fetch, Piece, SyncReply, SyncRequest
from rota.wire.terminal import TerminalCall

LOG = logging.getLogger("rota.engines.rota")
FIRST_S = 0.05
MOST_SERVED = 1000
GOODBYE_S = 2.0
"""Seconds that an agent, when it ends, waits for the controller to answer."""
LOCAL_MOST_S, FAR_MOST_S = 0.7, 2.0
ANSWER_S = 10.0
"""Seconds that the controller has to answer, in addition to the time that a request may wait."""


class Transport(Protocol):
    """One controller, for calls from several threads: `rota.client.http.Client`, or a substitute."""

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Any = None,
        timeout_s: float | None = None,
        *,
        idempotent: bool | None = None,
    ) -> Any:
        """Return the parsed answer; raises Unreachable and Refused."""
        ...


class Link:
    """Exchanges orders and reports between controller and agent."""

    def __init__(
        self,
        transport: Transport,
        node: str,
        incarnation: str,
        *,
        orders: Orders,
        board: Board,
        contact: Contact,
        read_log: Callable[[Fetch], Piece],
        on_orders: Callable[[], None],
        on_stop: Callable[[], None],
        on_denied: Callable[[], Transport | None] = lambda: None,
        on_terminal: Callable[[TerminalCall], bool] = lambda call: False,
        on_back: Callable[[], None] = lambda: None,
        boot_id: str = "",
        most_s: float = LOCAL_MOST_S,
    ) -> None:
        """`on_orders` is called when orders may have changed, `on_stop` when the agent should end.

        `on_denied` may return another transport after the token was refused. `on_terminal` takes up a session
        and returns at once, True if it was new. `on_back` is called when the controller answers for the first
        time, and when it answers again after trouble. `boot_id` names the boot of the machine whose clock
        this is; empty if it is not a node's own.
        """
        self._transport, self._path = transport, route("v1", "agents", node, "sync")
        self._incarnation = incarnation
        self._orders, self._board, self._contact = orders, board, contact
        self._read_log, self._on_orders, self._on_stop = read_log, on_orders, on_stop
        self._on_terminal, self._on_back = on_terminal, on_back
        self._on_denied, self._most_s, self._boot_id = on_denied, most_s, boot_id
        self._closing = threading.Event()
        self._back = threading.Event()
        """Set while the controller answers; the teller waits for it."""
        self._trouble = ""
        self._serving = threading.Lock()
        self._served: OrderedDict[str, None] = OrderedDict()
        """Ids of pieces that have been posted."""
        self._threads = [
            threading.Thread(target=self._listen, name="rota-listener", daemon=True),
            threading.Thread(target=self._tell, name="rota-teller", daemon=True),
        ]

    def start(self) -> None:
        """Start the listener and the teller."""
        for thread in self._threads:
            thread.start()

    def close(self, timeout_s: float = 0.5) -> None:
        """Stop, and notify a controller that answers; a request that still waits is abandoned."""
        takes_part = self._back.is_set() and not self._closing.is_set()
        self._closing.set()
        self._back.set()
        self._board.close()
        teller = self._threads[1]
        if teller.is_alive() and teller is not threading.current_thread():
            teller.join(timeout_s)
        if takes_part:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        """Notify the controller that this agent ends; otherwise the node would get jobs until it counts as
        lost."""
        asked = self._orders.question()
        request = SyncRequest(
            incarnation=self._incarnation,
            seen=asked.seen,
            controller=asked.controller,
            wait_s=0.0,
            sent_s=unix_s(),
            steady_s=time.monotonic(),
            boot_id=self._boot_id,
            protocol=PROTOCOL,
            leaving=True,
        )
        try:
            self._transport.call("POST", self._path, request, timeout_s=GOODBYE_S, idempotent=False)
        except Exception as error:  # any exception: it must not keep the agent from ending
            LOG.warning("the controller has not heard that this agent ends: %s", error)

    def _listen(self) -> None:
        pause_s = FIRST_S
        while not self._closing.is_set():
            asked = self._orders.question()
            parcel = Parcel() if asked.controller else self._board.all()
            # Otherwise only find out whether the controller answers.
            is_known = asked.controller and self._back.is_set()
            wait_s = self._contact.wait_s if is_known else 0.0
            try:
                self._ask(asked, parcel, wait_s, complete=not asked.controller)
            except Exception as error:  # any exception: an agent that stops listening is useless
                self._board.untold(parcel)
                self._back.clear()
                if isinstance(error, Refused) and error.status in (401, 403):
                    self._transport = self._on_denied() or self._transport
                pause_s = self._failed(error, pause_s)
            else:
                pause_s = FIRST_S
                if self._trouble or not self._back.is_set():
                    LOG.info("the controller takes part%s", " again" * bool(self._trouble))
                    self._on_back()
                self._back.set()
                self._trouble = ""

    def _tell(self) -> None:
        pause_s = FIRST_S
        while not self._closing.is_set():
            parcel = self._board.wait()
            self._back.wait()
            if parcel.empty or self._closing.is_set():
                continue
            asked = self._orders.question()
            if not asked.controller:  # the listener is about to report everything to a new controller
                self._board.untold(parcel)
                self._closing.wait(FIRST_S)
                continue
            try:
                self._ask(asked, parcel, 0.0, complete=False)
            except Exception as error:
                self._board.untold(parcel)
                pause_s = self._failed(error, pause_s)
            else:
                pause_s = FIRST_S

    def _ask(self, asked: QuestionBasis, parcel: Parcel, wait_s: float, *, complete: bool) -> None:
        """Send one request and handle its answer."""
        asked_s = self._contact.clock()
        request = SyncRequest(
            incarnation=self._incarnation,
            seen=asked.seen,
            controller=asked.controller,
            wait_s=wait_s,
            sent_s=unix_s(),
            steady_s=time.monotonic(),
            boot_id=self._boot_id,
            protocol=PROTOCOL,
            reports=parcel.reports,
            complete=complete,
            devices=parcel.devices,
            trouble=parcel.trouble,
            pieces=parcel.pieces,
        )
        answer = self._transport.call(
            "POST", self._path, request, timeout_s=wait_s + ANSWER_S, idempotent=True
        )
        if self._closing.is_set():
            return
        reply = SyncReply.model_validate(answer)
        self._contact.heard(asked_s, reply.lost_after_s)
        if not self._orders.take(reply, asked):
            self._board.untold(parcel)  # it went to a controller that does not have the other reports yet
            return
        self._serve(reply.fetch)
        if reply.terminals and not [call for call in reply.terminals if self._on_terminal(call)]:
            self._closing.wait(FIRST_S)  # they are about to answer
        if reply.parts or complete:
            self._on_orders()
            # Let the threads that carry them out run at once: they would wait for the interpreter.
            time.sleep(0)
        if reply.stop:
            self._on_stop()

    def _serve(self, requests: Sequence[Fetch]) -> None:
        """Post the requested pieces; each is requested until it has arrived, but read only once."""
        new = []
        with self._serving:
            for request in requests:
                if request.id not in self._served:
                    self._served[request.id] = None
                    new.append(request)
            while len(self._served) > MOST_SERVED:
                self._served.popitem(last=False)
        if new:
            self._board.pieces([self._read_log(request) for request in new])
        elif requests:
            self._closing.wait(FIRST_S)  # the teller is posting it

    def _failed(self, error: Exception, pause_s: float) -> float:
        """Wait before the next attempt; returns the pause after that one, if it fails too."""
        self._note(error)
        if isinstance(error, Refused):
            pause_s = max(pause_s, error.retry_after_s or 0.0)
        elif not isinstance(error, Unreachable):
            pause_s = self._most_s  # it will be requested again
        self._closing.wait(min(pause_s, FAR_MOST_S))
        return min(2 * pause_s, self._most_s)

    def _note(self, error: Exception) -> None:
        """Log a problem once, not at each attempt."""
        text = str(error)
        if text == self._trouble:
            return
        self._trouble = text
        if isinstance(error, Unreachable | Refused):
            LOG.warning("the controller does not take part: %s", text)
        elif isinstance(error, ValidationError):
            LOG.warning("the controller's answer makes no sense: %s", text)
        else:
            LOG.error("this agent cannot talk to its controller", exc_info=error)
