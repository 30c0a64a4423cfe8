"""The page API: the description of all calls, to read and to search."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.server.api.route_parts import Person
from rota.server.dashboard.responses import page
from rota.server.dashboard.schemas import Field, TextPiece, example_of, fields_of, pieces_of

router = APIRouter(include_in_schema=False)
TITLES = {
    "jobs": "Jobs",
    "cluster": "Cluster",
    "policy": "Policy",
    "users": "Users",
    "agents": "Agents",
    "service": "The service itself",
}
"""Subjects in the order shown; others come after."""


@dataclass(frozen=True)
class CallAnswer:
    """One possible answer of a call."""

    status: str
    words: str
    pieces: Sequence[TextPiece]


@dataclass(frozen=True)
class Call:
    """One call of the API."""

    name: str
    """Of its place on the page."""
    method: str
    path: str
    summary: str
    """The first sentence."""
    words: Sequence[str]
    """Paragraphs after it."""
    parameters: Sequence[Field]
    body: Sequence[TextPiece]
    example: str
    """A body, as JSON; empty if it takes none."""
    answers: Sequence[CallAnswer]
    curl: str


@dataclass(frozen=True)
class Form:
    """One named value in a request or an answer."""

    name: str
    words: str
    fields: Sequence[Field]
    pieces: Sequence[TextPiece]
    """Its description if it has no fields."""


@dataclass(frozen=True)
class ApiPage:
    """What the page shows."""

    version: str
    groups: Sequence[tuple[str, str, Sequence[Call]]]
    """Tag, title, calls."""
    forms: Sequence[Form]


def api_page(described: Mapping[str, Any], url: str) -> ApiPage:
    """The OpenAPI description, in its order; `url` is where this controller is reached."""
    groups: dict[str, list[Call]] = {tag: [] for tag in TITLES}
    schemas = described.get("components", {}).get("schemas", {})
    for path, methods in described["paths"].items():
        for method, call in methods.items():
            if isinstance(call, Mapping) and "responses" in call:
                tag = (call.get("tags") or ["service"])[0]
                groups.setdefault(tag, []).append(_call(method.upper(), path, call, schemas, url))
    return ApiPage(
        version=described["info"]["version"],
        groups=[(tag, TITLES.get(tag, tag.capitalize()), calls) for tag, calls in groups.items() if calls],
        forms=[_form(name, schema) for name, schema in sorted(schemas.items())],
    )


def _call(method: str, path: str, call: Mapping[str, Any], schemas: Mapping[str, Any], url: str) -> Call:
    first, *others = str(call.get("description") or call.get("summary") or "").strip().split("\n\n")
    body = call.get("requestBody", {}).get("content", {}).get("application/json", {})
    example = _example(body, schemas)
    return Call(
        name=call["operationId"],
        method=method,
        path=path,
        summary=" ".join(first.split()),
        words=[" ".join(text.split()) for text in others],
        parameters=[_parameter(one) for one in call.get("parameters", ())],
        body=pieces_of(body["schema"]) if body else (),
        example=example,
        answers=list(_answers(call["responses"])),
        curl=_curl(method, path, call, example, url),
    )


def _parameter(one: Mapping[str, Any]) -> Field:
    schema = one.get("schema", {})
    return Field(
        name=one["name"],
        pieces=pieces_of(schema),
        is_required=bool(one.get("required")),
        default=json.dumps(schema["default"]) if schema.get("default") not in (None, "") else "",
        words=str(one.get("description") or schema.get("description") or ""),
        place=one["in"],
    )


def _answers(responses: Mapping[str, Mapping[str, Any]]) -> Iterator[CallAnswer]:
    """The good ones each, the refusals together: they are all alike."""
    refusals = []
    for status, one in responses.items():
        if status >= "400":
            refusals.append(status)
            continue
        pieces: list[TextPiece] = []
        for kind, content in one.get("content", {}).items():
            said = pieces_of(content["schema"]) if kind == "application/json" else (TextPiece(kind),)
            pieces += [TextPiece(" or "), *said] if pieces else said
        yield CallAnswer(status, str(one.get("description", "")), pieces)
    if refusals:
        yield CallAnswer(", ".join(refusals), "refused", (TextPiece("Problem", "Problem"),))


def _example(body: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """A body that the description itself gives, else one made of its fields."""
    if not body:
        return ""
    given = [one["value"] for one in body.get("examples", {}).values() if "value" in one]
    given += body.get("schema", {}).get("examples", ())
    value = given[0] if given else example_of(body["schema"], schemas)
    return json.dumps(value, indent=2, ensure_ascii=False)


def _curl(method: str, path: str, call: Mapping[str, Any], example: str, url: str) -> str:
    """A line for a shell; what stands in braces is to be filled in."""
    words = ["curl", "-sS"]
    if method != "GET":
        words += ["-X", method]
    words += ["-H", '"Authorization: Bearer $ROTA_TOKEN"'] if call.get("security") != [] else []
    if example:
        sent = json.dumps(json.loads(example), ensure_ascii=False)
        words += ["-H", shlex.quote("Content-Type: application/json"), "-d", shlex.quote(sent)]
    return " ".join([*words, shlex.quote(url + path)])


def _form(name: str, schema: Mapping[str, Any]) -> Form:
    fields = fields_of(schema)
    words = " ".join(str(schema.get("description", "")).split())
    return Form(name, words, fields, () if fields else pieces_of(schema))


@lru_cache(maxsize=4)
def _shown(described: str, url: str) -> ApiPage:
    return api_page(json.loads(described), url)


@router.get("/api")
def show(request: Request, who: Person) -> Response:
    """The page."""
    url = f"{request.url.scheme}://{request.url.netloc}"
    return page(request, "api.html", shown=_shown(json.dumps(request.app.openapi()), url))
