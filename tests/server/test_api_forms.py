"""What is not as it should be is refused with one sentence: field, value, what was expected."""

from __future__ import annotations

import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_toys import Stage

from rota.client import Refused
from rota.server.api.problems import sentence_of
from tiers import examples

OK = {"command": ["x"]}
AT_LEAST = "a number greater than or equal to"
KEY = r"'^[\x21-\x7e]+$'"
SHORT = "expected text with at most 128 characters"
LETTERS = "expected letters, digits and _"
KINDS = "expected 'train', 'opportunistic' or 'service'"
CASES = [
    # body of a submission                             status, sentence
    ({"spec": OK | {"gpus": -1}},                         422, f"spec.gpus is -1; expected {AT_LEAST} 0"),
    ({"spec": {"comand": []}},     422, "spec.comand is no field here; did you mean command? (and 1 more)"),
    ({"spec": OK, "kee": "k"},                            422, "kee is no field here; did you mean key?"),
    ({"spec": OK, "zzz": 1},                    422, "zzz is no field here; expected one of: spec, key"),
    ({"spec": {}},                                        422, "spec.command is missing"),
    ({},                                                  422, "spec is missing"),
    ({"spec": {"command": []}},  422, "spec.command is []; expected a list with at least 1 item, not 0"),
    ({"spec": {"command": "x"}},                          422, 'spec.command is "x"; expected a valid list'),
    ({"spec": {"command": ["x", 1]}},                  422, "spec.command.1 is 1; expected a valid string"),
    ({"spec": OK | {"gpus": 5, "gpus_max": 2}},           422, "spec: gpus=5 is outside the range 5:2"),
    ({"spec": OK | {"gpus": 1e30}}, 422, "spec.gpus is 1e+30; expected a whole number that is not so large"),
    ({"spec": OK | {"gpus": "many"}},               422, 'spec.gpus is "many"; expected a valid integer'),
    ({"spec": OK | {"kind": "big"}},                      422, f'spec.kind is "big"; {KINDS}'),
    ({"spec": OK | {"name": "a" * 200}},                  422, f'spec.name is "{"a" * 78}…; {SHORT}'),
    ({"spec": OK | {"name": "a b"}},                      422, f'spec.name is "a b"; {LETTERS} . @ : + / -'),
    ({"spec": OK | {"comment": "\ud800"}},    422, 'spec.comment is "\\ud800"; expected a valid string'),
    ({"spec": OK | {"time_s": float("nan")}},             422, None),
    ({"spec": OK | {"array": "9-1"}},                     400, None),
    ({"spec": OK, "key": "a b"}, 422, f'key is "a b"; expected text that matches pattern {KEY}'),
    ([1],      422, "the body is no JSON object; send one, with `Content-Type: application/json`"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "sentence"), CASES, ids=range(len(CASES)))
def test_submission(stage: Stage, body: object, status: int, sentence: str | None) -> None:
    raw = json.dumps(body).encode()  # with NaN, which the client would not send
    got, answer = raw_call(stage, raw)
    assert got == status
    assert list(answer) == ["error"]
    if sentence is not None:
        assert answer["error"] == sentence


@pytest.mark.parametrize("name", ["a b", "-a", "a/b"])
def test_names_of_users(stage: Stage, name: str) -> None:
    with pytest.raises(Refused) as caught:
        stage.client("admin").call("POST", "/v1/users", {"name": name})
    first = ", the first a letter, a digit or _"
    assert str(caught.value) == f'name is "{name}"; {LETTERS} . @ + -{first}'


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"{", "the body is no JSON: Expecting property name enclosed in double quotes at character 1"),
        (b'{"spec": nope}', "the body is no JSON: Expecting value at character 9"),
        (b'{"spec": "\xff"}', "the body is no JSON that can be read"),
        (b"[" * 200_000, "the body is no JSON that can be read"),
        (b"1" * 5000, "the body is no JSON that can be read"),
    ],
)
def test_bad_json(stage: Stage, raw: bytes, sentence: str) -> None:
    assert raw_call(stage, raw) == (400, {"error": sentence})


def test_no_body(stage: Stage) -> None:
    assert raw_call(stage, b"") == (422, {"error": "the request needs a body in JSON"})


def test_body_of_a_form(stage: Stage) -> None:
    """What `curl -d` sends if it is not told the type."""
    status, answer = raw_call(stage, b'{"spec": {}}', "application/x-www-form-urlencoded")
    assert status == 422
    assert "Content-Type: application/json" in answer["error"]


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/v1/jobs?limit=x", 422, 'parameter limit is "x"; expected a valid integer'),
        ("/v1/jobs?limit=0", 422, 'parameter limit is "0"; expected a number greater than or equal to 1'),
        (
            "/v1/jobs?limit=1001",
            422,
            'parameter limit is "1001"; expected a number less than or equal to 1000',
        ),
        ("/v1/jobs?since=nan", 422, 'parameter since is "nan"; expected a finite number'),
        ("/v1/history?format=xml", 422, "parameter format is \"xml\"; expected 'json' or 'csv'"),
        (
            "/v1/jobs?state=RUNING",
            400,
            "parameter state: 'RUNING' is no state; expected PENDING, OFFERED, RUNNING, SUSPENDED, "
            "COMPLETING, REQUEUED, COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY",
        ),
        ("/v1/jobs?stat=x", 400, "'stat' is no parameter of this call; did you mean state?"),
        ("/v1/nodes?x=1", 400, "'x' is no parameter of this call; it has none"),
        ("/v1/nix", 404, "there is no GET /v1/nix; GET /openapi.json lists what there is"),
        ("/v1/jobs/", 404, "there is no GET /v1/jobs/; GET /openapi.json lists what there is"),
        ("/v1/whatif", 405, "GET /v1/whatif is not possible; GET /openapi.json lists what is"),
    ],
)
def test_parameters(stage: Stage, path: str, status: int, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        stage.client().call("GET", path)
    assert (caught.value.status, str(caught.value)) == (status, sentence)


def test_no_http(stage: Stage) -> None:
    with socket.create_connection(("127.0.0.1", stage.serving.port), 5) as sock:
        sock.sendall(b"hello\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 400 ")


@examples(40)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "loc": st.lists(st.text() | st.integers(), min_size=1, max_size=4).map(tuple),
                "type": st.sampled_from(["missing", "extra_forbidden", "other"]),
                "msg": st.text() | st.just("Input should be a valid list") | st.just("Value error, no"),
                "input": st.none() | st.text() | st.floats() | st.lists(st.binary()),
            }
        ),
        min_size=1,
    )
)
def test_any_error_has_a_sentence(errors: list[dict[str, object]]) -> None:
    assert sentence_of(errors)


def raw_call(stage: Stage, body: bytes, kind: str = "application/json") -> tuple[int, dict[str, str]]:
    """POST bytes as they are to /v1/jobs."""
    head = (
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: Bearer {stage.tokens['alice']}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", stage.serving.port), 10) as sock:
        sock.sendall(head.encode() + body)
        with sock.makefile("rb") as file:
            top, _, content = file.read().partition(b"\r\n\r\n")
    answer: dict[str, str] = json.loads(content)
    return int(top.split()[1]), answer
