"""The page API: every call and form of the description, in words, with a line that a shell understands."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from dashboard_play import get
from serving_toys import Stage, api_schema, routes

from rota.server.dashboard.api import api_page
from rota.server.dashboard.schemas import example_of, pieces_of

FORMS: dict[str, Any] = {
    "Tree": {
        "properties": {"of": {"$ref": "#/components/schemas/Tree"}, "n": {"type": "integer"}},
        "required": ["of"],
    },
}
WORDS = [
    ({"type": "integer", "minimum": 1, "maximum": 10}, "whole number from 1 to 10"),
    ({"type": "number", "exclusiveMinimum": 0}, "number above 0"),
    ({"type": "string", "maxLength": 1024}, "text of at most 1,024 letters"),
    ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "true or false or null"),
    ({"anyOf": [{"type": "string"}, {"type": "string"}]}, "text"),
    ({"type": "array", "items": {"$ref": "#/components/schemas/JobView"}}, "list of JobView"),
    ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number"),
    ({"enum": ["a", "b"]}, "a | b"),
    ({"enum": list(range(20))}, " | ".join(map(str, range(12))) + " | 8 more"),
    ({"const": 1}, "1"),
    ({}, "anything"),
]


@pytest.mark.parametrize(("schema", "words"), WORDS, ids=[words for _, words in WORDS])
def test_types(schema: dict[str, Any], words: str) -> None:
    assert "".join(piece.text for piece in pieces_of(schema)) == words


def test_an_example_of_what_holds_itself_ends() -> None:
    assert "of" in example_of({"$ref": "#/components/schemas/Tree"}, FORMS)
    assert example_of({"type": "integer", "minimum": 3}, FORMS) == 3


def test_every_call_is_there() -> None:
    shown = api_page(api_schema(), "http://here:1")
    calls = [call for _, _, calls in shown.groups for call in calls]
    assert {(call.method, call.path) for call in calls} == set(routes())
    for call in calls:
        words = shlex.split(call.curl)
        assert words[-1] == f"http://here:1{call.path}"
        assert ("-d" in words) == bool(call.body)
        assert call.answers
    forms = {form.name for form in shown.forms}
    named = {piece.form for call in calls for piece in call.body if piece.form}
    named |= {
        piece.form for call in calls for answer in call.answers for piece in answer.pieces if piece.form
    }
    assert named <= forms


def test_the_page(stage: Stage) -> None:
    """No script or style of its own, and no link into nothing."""
    text = get(stage, "/api")
    assert "POST" in text
    assert "/v1/jobs/{id}/curves" in text
    assert not re.search(r"<script>|<style|\sstyle=|\son\w+=|https?://(?!127|\[)", text)
    there = set(re.findall(r'id="([^"]+)"', text))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= there
