"""What an agent says in words is such as a database and an answer can hold, and never refused for them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from rota.wire.sync import SyncRequest

HALF = "a\ud800b\0c"
REPORT = {"row": 0, "attempt": 1, "status": "ended", "since_s": 1.0}
CHARACTERS = st.text(st.characters(exclude_categories=()))
"""With halves of surrogate pairs."""


def asked(*reports: dict[str, Any], pieces: list[dict[str, Any]]) -> dict[str, Any]:
    return {"incarnation": "a", "seen": 0, "controller": "", "reports": reports, "pieces": pieces}


@given(CHARACTERS)
@example(HALF)
def test_what_an_agent_tells_can_be_told_again(text: str) -> None:
    """As FastAPI reads it: half of a surrogate pair was taken in, and whoever looked at the job got a 500."""
    end = {"ended_s": 1.0, "error": text, "tail": text}
    more = {"why": text, "capability": {"training": text}, "costs": [{"kind": text, "seconds": 1.0}]}
    piece = {"id": "x", "offset": 0, "size": 9, "text": text, "error": text}
    raw = json.dumps(asked({**REPORT, "end": end, **more}, pieces=[piece]))
    request = SyncRequest.model_validate(json.loads(raw))
    assert SyncRequest.model_validate_json(request.model_dump_json()) == request


def test_what_a_job_printed_is_shown_as_it_was() -> None:
    """`env --null`: each NUL had become another character on its way to `rota logs`."""
    piece = {"id": "x", "offset": 0, "size": 9, "text": HALF}
    request = SyncRequest.model_validate(asked(pieces=[piece]))
    assert request.pieces[0].text == "a?b\0c"
