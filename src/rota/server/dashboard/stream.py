"""The stream of server-sent events to a browser: changes, at most twice a second."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from rota.server.api.route_parts import Person, Waiting
from rota.server.dashboard.feed import CHANGED, Changes, Feed
from rota.server.dashboard.responses import HEADERS
from rota.server.refusals import Busy

router = APIRouter(include_in_schema=False)
PAUSE_S = 0.5
"""Between two messages."""
HEARTBEAT_S = 15.0
"""Seconds without a change after which a beat shows each end that the other is there."""
LONGEST_S = 600.0
"""Then the browser connects again, and passes the gate again."""


@router.get("/stream")
async def stream(request: Request, who: Person, seen: int = 0) -> Response:
    """What changes from now on, and whether anything has since the page was made, at the count `seen`."""
    headers = {**HEADERS, "X-Accel-Buffering": "no"}
    return StreamingResponse(
        messages(request.app.state.feed, request.app.state.waiting, seen), 200, headers, "text/event-stream"
    )


async def messages(feed: Feed, waiting: Waiting, seen: int) -> AsyncIterator[str]:
    """The stream's text, until the controller stops, the browser goes, or it has lasted for long enough."""
    joined, until = feed.join(), time.monotonic() + LONGEST_S
    try:
        with feed.notifier.listen(CHANGED) as listener:
            is_behind = "true" if feed.count != seen else "false"
            yield f"retry: 1000\nevent: hello\ndata: {is_behind}\n\n"
            while time.monotonic() < until:
                await waiting.until_closed(listener.wait(HEARTBEAT_S))
                yield text_of(feed.take(joined))
                await waiting.until_closed(asyncio.sleep(PAUSE_S))
    except Busy:
        return
    finally:
        feed.leave(joined)


def text_of(changes: Changes) -> str:
    """One message; a beat if nothing has changed."""
    if not changes.topics:
        return "event: beat\ndata: -\n\n"
    jobs = None if changes.jobs is None else sorted(changes.jobs)
    return f"event: changed\ndata: {json.dumps({'topics': sorted(changes.topics), 'jobs': jobs})}\n\n"
