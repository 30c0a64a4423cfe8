"""A connection on which plain calls are answered at once; everything else is left to the parser of HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import h11

from rota.server.api.desk import DeskAnswer, DeskCall, PlainDesk
from rota.server.api.plain_calls import written
from rota.server.connections import CountedProtocol


class PlainProtocol(CountedProtocol):
    """HTTP/1.1 whose plainest calls (`rota.server.api.plain_calls`) pass neither parser nor application.

    Such a call begins where the parser has read all that came, and is answered before the parser sees
    anything more: to the parser it has never been.  What comes meanwhile waits.
    """

    def __init__(self, desk: PlainDesk, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._desk = desk
        self._taken: tuple[DeskCall, asyncio.Task[None]] | None = None
        """The plain call that is being answered."""
        self._behind = b""
        """What has come since."""
        self._is_last = False
        """Whether the connection is closed after it."""

    def data_received(self, data: bytes) -> None:
        """A plain call, or something for the parser."""
        if self._taken is not None:
            self._behind += data
            self.flow.pause_reading()
            return
        call = self._desk.take(data) if self._is_between_calls() else None
        if call is None:
            super().data_received(data)
            return
        self._unset_keepalive_if_required()
        self._stop_timer()
        if self.counted is not None:
            self.counted.ask(self.who, self)
        task = self.loop.create_task(self._answer(call, data))
        self._taken = call, task
        self.tasks.add(task)  # for which a server that stops waits
        task.add_done_callback(self.tasks.discard)

    def connection_lost(self, exc: Exception | None) -> None:
        """A call that waits for something ends; one that changes something goes on."""
        if self._taken is not None and self._taken[0].is_held:
            self._taken[1].cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close it, after the call that is being answered."""
        if self._taken is None:
            super().shutdown()
        else:
            self._is_last = True

    def _is_between_calls(self) -> bool:
        """Whether the next byte begins a call."""
        conn = self.conn
        is_idle = conn.our_state is h11.IDLE and conn.their_state is h11.IDLE
        return is_idle and not self._is_out and conn.trailing_data == (b"", False)

    async def _answer(self, call: DeskCall, data: bytes) -> None:
        try:
            answer = await self._desk.answer(call)
            if answer is not None and self.flow.write_paused:
                await self.flow.drain()
        finally:
            self._taken = None
        if self.transport.is_closing():
            return
        if answer is None:
            self.flow.resume_reading()
            super().data_received(data)
        else:
            self._send(answer)
        self._go_on()

    def _send(self, answer: DeskAnswer) -> None:
        fields = [*self.server_state.default_headers, *answer.fields]
        self.transport.write(written(answer.status, fields, answer.body))
        self.on_response_complete()

    def _go_on(self) -> None:
        """With what has come meanwhile, or to the end."""
        behind, self._behind = self._behind, b""
        if self._is_last:
            self.shutdown()
        elif behind:
            self.data_received(behind)
