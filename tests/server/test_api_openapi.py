"""The description of the API is complete and true: no call that it allows ends in a bug."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from memory_controller import MemoryController
from serving_toys import PATIENCE_S, Stage, api_schema, routes

from rota.server.api.app import ApiSettings, create_app
from rota.server.auth import Roster
from tiers import first

if TYPE_CHECKING:
    import schemathesis

CHECKED = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
]


@pytest.mark.parametrize(("method", "path"), routes())
def test_described(method: str, path: str) -> None:
    """Each call has a sentence, a name, a subject, an answer, and refusals and forms with examples."""
    call = api_schema()["paths"][path][method.lower()]
    assert call["description"].rstrip().endswith(".")
    assert call["operationId"].isidentifier()
    assert len(call["tags"]) == 1
    responses = call["responses"]
    assert any("content" in responses.get(code, {}) for code in ("200", "201"))
    if path == "/health":
        assert call["security"] == []
        return
    for code in ("400", "401", "403", "413", "422", "429", "503"):
        content = responses[code]["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
        assert content["example"]["error"]
    if "requestBody" in call and "/agents/" not in path:
        body = call["requestBody"]["content"]["application/json"]
        assert "examples" in body or "examples" in body["schema"]


def test_names_of_calls_differ() -> None:
    paths = api_schema()["paths"]
    names = [paths[path][method.lower()]["operationId"] for method, path in routes()]
    assert len(set(names)) == len(names)


def test_security() -> None:
    assert api_schema()["security"] == [{"token": []}]
    opened = create_app(MemoryController().services, Roster(), None, ApiSettings(metrics_open=True)).openapi()
    assert opened["paths"]["/metrics"]["get"]["security"] == []


LONGEST = 256
"""So long are texts with a pattern that are drawn: a pattern of 131,072 letters takes a second to compile,
a dozen times over.  The lengths themselves are tested with the forms."""


def shortened(schema: Any) -> Any:
    """`schema` with shorter texts, where they have a pattern."""
    if isinstance(schema, list):
        return [shortened(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: shortened(part) for name, part in schema.items()}
    if isinstance(schema.get("pattern"), str) and schema.get("maxLength", 0) > LONGEST:
        parts["maxLength"] = LONGEST
    return parts


@cache
def drawn_schema() -> schemathesis.BaseSchema:
    """What calls are drawn from."""
    import schemathesis  # here, and not in whoever only collects tests

    return schemathesis.openapi.from_dict(shortened(api_schema()))


OF_HTTP = {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"}
"""Headers that say how a message is read: a wrong one is no call, and is refused before there is one."""


@pytest.mark.slow
@pytest.mark.parametrize("examples", first(1, [3, 30]))
@pytest.mark.parametrize("mode", first(1, ["positive", "negative"]))
@pytest.mark.parametrize(("method", "path"), [one for one in routes() if one[1] != "/health"])
def test_no_bug(stage: Stage, method: str, path: str, mode: str, examples: int) -> None:
    """Schemathesis calls each route in allowed and in wrong ways; all it hears is described, and no 500."""
    import schemathesis
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    checks = CHECKS.get_by_names(CHECKED)
    operation = drawn_schema()[path][method]
    token = stage.tokens["agent" if path.endswith(("sync", "kept")) else "admin"]
    parameters = api_schema()["paths"][path][method.lower()].get("parameters", [])
    waits = any(parameter.get("name") == "wait_s" for parameter in parameters)
    calls = 0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def probe(case: schemathesis.Case) -> None:
        nonlocal calls
        if path.endswith(("sync", "kept")):
            case.path_parameters["node"] = "n1"
        if path.endswith("sync") and isinstance(case.body, dict):
            case.body["wait_s"] = 0  # waiting has tests of its own
        if waits:
            case.query["wait_s"] = 0
        for name in [name for name in case.headers if name.lower() in OF_HTTP]:
            del case.headers[name]
        head = {"Authorization": f"Bearer {token}"}
        case.call_and_validate(stage.serving.url, headers=head, checks=checks, timeout=PATIENCE_S)
        calls += 1

    probe()
    assert calls


BODILESS = ("GET /", "DELETE /", "POST /v1/users/{name}/token")
WITH_BODY = [one for one in routes() if not " ".join(one).startswith(BODILESS)]


def _is_moving(path: str) -> bool:
    """A call of an agent, which a state of ours would have to go with."""
    return path.endswith(("sync", "kept"))


def _keep_together(spec: object) -> None:
    """Drop what stands alone although the description says that it needs another: what draws ignores that.

    Nor can a schema say that the other must not be null, or that a range goes up and holds what is asked for.
    """
    if not isinstance(spec, dict):
        return
    needs = api_schema()["components"]["schemas"]["JobSpec"]["dependentRequired"]
    for name, others in needs.items():
        if any(spec.get(other) is None for other in others):
            spec.pop(name, None)
    for name in set(spec) & RANGED:
        spec.pop(name)


def _number(devices: object) -> None:
    """A node's devices count from 0, which no schema can say of a list's items."""
    for index, device in enumerate(devices if isinstance(devices, list) else []):
        device["index"] = index


RANGED = {"gpus_min", "gpus_max", "counts", "batch_min", "batch_max", "deadlines"}
"""Fields of a job whose values have to fit another's; their sentences have tests of their own."""


@pytest.mark.soak
@pytest.mark.parametrize(("method", "path"), WITH_BODY)
def test_what_the_description_allows_is_taken(stage: Stage, method: str, path: str) -> None:
    """Of the bodies that the description allows, three quarters or more are well-formed to us as well.

    The rest is what no schema can say: sizes in an order, ranges that go up.
    """
    import schemathesis

    operation = drawn_schema()[path][method]
    token = stage.tokens["agent" if _is_moving(path) else "admin"]
    answers: list[tuple[int, str]] = []

    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode("positive")))
    def probe(case: schemathesis.Case) -> None:
        if _is_moving(path):
            case.path_parameters["node"] = "n1"
        if path.endswith("sync") and isinstance(case.body, dict):
            case.body["wait_s"] = 0
        if isinstance(case.body, dict):
            _keep_together(case.body.get("spec"))
            _number(case.body.get("devices"))
        head = {"Authorization": f"Bearer {token}"}
        answer = case.call(stage.serving.url, headers=head, timeout=PATIENCE_S)
        answers.append((answer.status_code, answer.text))

    probe()
    refused = [text for status, text in answers if status in (400, 422)]
    assert len(refused) <= len(answers) / 4, refused[:20]
