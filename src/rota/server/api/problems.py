"""Every refusal is `{"error": SENTENCE}`: the field, its value, and what was expected."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from rota.errors import InputError, PolicyError, RotaError, WorldError
from rota.server.api.forms import Problem
from rota.server.auth import Unauthorized, refusal
from rota.server.refusals import Busy, Conflict, Forbidden, NotFound
from rota.wire.protocol import OtherProtocol

LONGEST_VALUE = 80
STATUS: dict[type[RotaError], int] = {
    NotFound: 404,
    Conflict: 409,
    Busy: 503,
    InputError: 400,
    PolicyError: 400,
    WorldError: 503,
}
EXAMPLES = {
    400: "column 'policy': no policy is called 'tiresia'; expected one of: fifo, las, tiresias",
    401: "this call needs a token: send the header `Authorization: Bearer TOKEN`",
    403: "job 17 is bob's, of tenant vision/bob; you may touch jobs of tenant nlp",
    404: "there is no job 17",
    409: "job 17 has ended: COMPLETED",
    413: "the request is larger than 4 MiB, the most this controller takes",
    422: "spec.gpus is -1; expected a number greater than or equal to 0",
    429: "too many calls: at most 1000 a second are answered; try again in 0.1 s",
    503: "the database does not answer; nothing was changed, try again in 1 s",
}
ALWAYS = (400, 401, 403, 413, 422, 429, 503)
log = logging.getLogger(__name__)


PROBLEM = Problem.__name__


def refusals(*more: int) -> dict[int | str, dict[str, Any]]:
    """What any call may be refused with, and `more`, for the description of the API.

    They name the schema of a refusal (`problem_schema`): a model here is built again for every status of
    every call, a tenth of a second at each start of a controller.
    """
    schema = {"$ref": f"#/components/schemas/{PROBLEM}"}
    return {
        status: {
            "description": EXAMPLES[status],
            "content": {"application/json": {"schema": schema, "example": {"error": EXAMPLES[status]}}},
        }
        for status in sorted({*ALWAYS, *more})
    }


def problem_schema() -> dict[str, Any]:
    """Schemas that the refusals in the description of the API refer to, by name."""
    return {PROBLEM: Problem.model_json_schema()}


def problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal.  Written in ASCII, so that nothing a caller sent and gets back can break it."""
    return Response(json.dumps({"error": sentence}), status, headers, "application/json")


def handle_errors(app: FastAPI) -> None:
    """Turn every error that is meant for people into a refusal."""
    app.add_exception_handler(RotaError, refused)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_form)


def refused(request: Request, error: Exception) -> Response:
    """An error of ours as its caller gets it."""
    if isinstance(error, Unauthorized | Forbidden):
        return refusal(error)
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    if status == 500:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, Busy) else None
    return problem(status, str(error), headers)


def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    place = f"{request.method} {request.url.path}"
    sentence = {
        400: "the body is no JSON that can be read",
        404: f"there is no {place}; GET /openapi.json lists what there is",
        405: f"{place} is not possible; GET /openapi.json lists what is",
    }.get(error.status_code, str(error.detail))
    return problem(error.status_code, sentence, error.headers)


def _of_form(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    if errors[0]["type"] == "json_invalid":
        at, why = errors[0]["loc"][-1], errors[0]["ctx"]["error"]
        return problem(400, f"the body is no JSON: {why} at character {at}")
    causes = (error.get("ctx", {}).get("error") for error in errors)
    other = next((cause for cause in causes if isinstance(cause, OtherProtocol)), None)
    return problem(409, str(other)) if other else problem(422, sentence_of(errors, _form_of(request)))


def sentence_of(errors: Sequence[Mapping[str, Any]], form: type[BaseModel] | None = None) -> str:
    """One sentence about the first of pydantic's errors, and how many more there are.

    `form` is the model of the body, in which similar names are looked for.
    """
    # A misspelt name explains why another is missing, so it goes first.
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return _sentence(first, form) + more


def _sentence(error: Mapping[str, Any], form: type[BaseModel] | None) -> str:
    where, *path = error["loc"]
    name = ".".join(str(part) for part in path)
    place = f"parameter {name}" if where in ("query", "path") else name
    kind, message = error["type"], str(error["msg"])
    if kind == "missing":
        return f"{place} is missing" if name else "the request needs a body in JSON"
    if kind == "extra_forbidden":
        return f"{place} is no field here{_meant(path, form)}"
    if message.startswith("Value error, "):
        return (
            f"{place}: {message.removeprefix('Value error, ')}" if name else message[len("Value error, ") :]
        )
    if not name:
        return "the body is no JSON object; send one, with `Content-Type: application/json`"
    return f"{place} is {_shown(error['input'])}; expected {_expected(message)}"


def _expected(message: str) -> str:
    """What pydantic says should be, as a phrase after `expected`."""
    if message.startswith("Input should be "):
        what = message.removeprefix("Input should be ").partition(", unable to")[0]
        return f"a number {what}" if what.startswith(("greater", "less")) else what
    if "exceeded maximum size" in message:
        return "a whole number that is not so large"
    if letters := _LETTERS.search(message):
        first = ", the first a letter, a digit or _" if letters[1] else ""
        return f"letters, digits and {' '.join(letters[2])}{first}"
    match = re.match(r"(\w+) should (have|match) (.*)", message, re.DOTALL)
    if match is None:
        return message[:1].lower() + message[1:]
    thing, verb, what = match.groups()
    noun = {"String": "text", "List": "a list", "Dictionary": "an object"}.get(thing, "a value")
    return f"{noun} {'with' if verb == 'have' else 'that matches'} {what}".replace(" after validation", "")


_LETTERS = re.compile(r"pattern '\^(\[A-Za-z0-9_\])?\[A-Za-z0-9([^\]]+)\][*+]\$'")
"""The characters of a name: the patterns of names of jobs, tenants, users and accounts."""


def _shown(value: object) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _form_of(request: Request) -> type[BaseModel] | None:
    """Model of the body of the route that was called."""
    route = request.scope.get("route")
    field = route.body_field if isinstance(route, APIRoute) else None
    kind = field.field_info.annotation if field is not None else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _meant(path: Sequence[object], form: type[BaseModel] | None) -> str:
    """`; did you mean X?` for a name that is nearly one of the form's, or the names there are."""
    for part in path[:-1]:
        inner = form.model_fields.get(str(part)) if form is not None else None
        kind = inner.annotation if inner is not None else None
        form = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    if form is None:
        return ""
    names = list(form.model_fields)
    near = get_close_matches(str(path[-1]), names, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; expected one of: {', '.join(names)}"
