"""Where plain calls are answered that go straight to their services: no layers, nothing left out.

Who calls, how often, how much: as the gate and the limits of the application ask it
(`rota.server.auth`, `rota.server.limits`).  Whatever would be refused is none of the desk's: the
application refuses it, in its words.
"""

from __future__ import annotations

import asyncio
import logging
import time
from http import HTTPStatus
from typing import NamedTuple

from starlette.responses import Response

from rota.server.api.calling import Waiting
from rota.server.api.plain_calls import PlainCall, read
from rota.server.api.problems import problem
from rota.server.api.services import Services
from rota.server.api.talking import StraightCall, straight
from rota.server.auth import Roster, Unauthorized, identify_token
from rota.server.limits import MOST_BODY_BYTES, CallRates
from rota.server.metrics import Metrics
from rota.wire import cluster_clock

NOW_HEADER = cluster_clock.HEADER.encode()
BROKEN = "something is wrong in the controller; its log says what"
GONE = 499
"""How a call is counted whose caller did not wait for the answer."""
STATUS = {one.value: f"{one.value} {one.phrase}".encode() for one in HTTPStatus}
log = logging.getLogger(__name__)


class DeskCall(NamedTuple):
    """One that may be answered here."""

    said: PlainCall
    call: StraightCall

    @property
    def is_held(self) -> bool:
        """Whether it ends when its caller goes."""
        return self.call.is_held


class DeskAnswer(NamedTuple):
    """What is sent back."""

    status: bytes
    """`200 OK`."""
    fields: list[tuple[bytes, bytes]]
    body: bytes


class PlainDesk:
    """Answers plain calls; lives on the event loop."""

    def __init__(
        self,
        services: Services,
        waiting: Waiting,
        roster: Roster,
        rates: CallRates,
        metrics: Metrics,
        most_body_bytes: int = MOST_BODY_BYTES,
    ) -> None:
        self._services, self._waiting, self._roster = services, waiting, roster
        self._rates, self._metrics, self._most = rates, metrics, most_body_bytes

    def take(self, data: bytes) -> DeskCall | None:
        """The call that `data` is; None if it is for the application."""
        said = read(data)
        if said is None or len(said.body) > self._most:
            return None
        try:
            who = identify_token(self._roster, said.token, time.time())
        except Unauthorized:
            return None
        if who.viewer:  # may look only: the gate says what that is
            return None
        call = straight(self._services, who, said.method, said.path, said.query)
        if call is None or self._rates.take((who.user, who.node)):
            return None
        return DeskCall(said, call)

    async def answer(self, taken: DeskCall) -> DeskAnswer | None:
        """What is sent back; None if nothing has happened and the application has to say why."""
        said, call = taken
        began_s, held = time.perf_counter(), self._waiting.until_closed
        try:
            response = await call.answered(said.body, held)
        except asyncio.CancelledError:
            self._metrics.answered(said.method, call.path, GONE, time.perf_counter() - began_s)
            raise
        except Exception:
            log.exception("%s %s failed", said.method, said.path)
            response = problem(500, BROKEN)
        if response is None:
            return None
        self._metrics.answered(said.method, call.path, response.status_code, time.perf_counter() - began_s)
        return self._answer(response)

    def _answer(self, response: Response) -> DeskAnswer:
        now = NOW_HEADER, b"%.3f" % self._services.cluster.now_s()
        return DeskAnswer(STATUS[response.status_code], [*response.raw_headers, now], bytes(response.body))
