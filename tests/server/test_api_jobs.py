"""Jobs over the API: submit, list, show, change, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest
from serving_toys import Stage

from rota.client import Refused

SPEC = {"command": ["python", "train.py"], "gpus": 2}


def submit(stage: Stage, who: str = "alice", **spec: object) -> str:
    """A job of that one; returns its id."""
    answer = stage.client(who).call("POST", "/v1/jobs", {"spec": {**SPEC, **spec}})
    return str(answer["jobs"][0]["id"])


def refused(stage: Stage, who: str, method: str, path: str, body: object = None, **query: object) -> Refused:
    with pytest.raises(Refused) as caught:
        stage.client(who).call(method, path, body, query)
    return caught.value


def test_submit(stage: Stage) -> None:
    [job] = stage.client().call("POST", "/v1/jobs", {"spec": SPEC | {"name": "resnet"}})["jobs"]
    assert (job["state"], job["user"], job["tenant"]) == ("PENDING", "alice", "vision/alice")
    shown = stage.client().call("GET", f"/v1/jobs/{job['id']}")
    assert shown["spec"]["command"] == SPEC["command"]
    assert shown["job"] == job


def test_array(stage: Stage) -> None:
    jobs = stage.client().call("POST", "/v1/jobs", {"spec": SPEC | {"array": "1-3"}})["jobs"]
    first = jobs[0]["row"] + 1
    assert [job["id"] for job in jobs] == [f"{first}_1", f"{first}_2", f"{first}_3"]
    assert stage.client().call("GET", f"/v1/jobs/{first}_2")["job"]["id"] == f"{first}_2"


def test_key_submits_once(stage: Stage) -> None:
    call: dict[str, Any] = {"spec": SPEC, "key": "once"}
    first, second = (stage.client().call("POST", "/v1/jobs", call) for _ in range(2))
    assert first == second
    assert stage.client("bob").call("POST", "/v1/jobs", call) != first, "keys are each user's own"


def test_dry_run_changes_nothing(stage: Stage) -> None:
    before = stage.client().call("GET", "/v1/jobs")
    assert stage.client().call("POST", "/v1/jobs", {"spec": SPEC}, {"dry_run": True})["feasible"] is True
    assert stage.client().call("GET", "/v1/jobs") == before


def test_list(stage: Stage) -> None:
    mine, other, third = submit(stage, name="listed"), submit(stage, "bob"), submit(stage, name="listed")
    stage.client().call("POST", f"/v1/jobs/{third}/cancel")

    def ids(**query: object) -> set[str]:
        return {job["id"] for job in stage.client().call("GET", "/v1/jobs", None, query)}

    assert {mine, other, third} <= ids()
    assert ids(name="listed") == {mine, third}
    assert ids(name="listed", state="pending,running") == {mine}
    assert ids(name="listed", state=["PENDING", "CANCELLED"]) == {mine, third}
    assert ids(name="listed", limit=1) == {third}
    assert ids(name="listed", limit=1, before=third) == {mine}
    assert ids(name="listed", before=mine) == set()
    assert {other, mine} & ids(user="bob") == {other}
    assert {other, mine} & ids(tenant="vision") == {mine}
    assert ids(since=4e9) == set()


def test_change(stage: Stage) -> None:
    job = submit(stage)
    changed = stage.client().call("PATCH", f"/v1/jobs/{job}", {"priority": 7, "deadline_s": None})
    assert (changed["priority"], changed["name"]) == (7, ""), "what is not named stays"


def test_verbs(stage: Stage) -> None:
    job = submit(stage)
    for verb in ("hold", "release", "suspend", "resume", "requeue"):
        call = stage.client().call("POST", f"/v1/jobs/{job}/{verb}", {"reason": "a test"})
        assert call["id"] == job
    for _ in range(2):  # cancelling twice is no error
        assert stage.client().call("POST", f"/v1/jobs/{job}/cancel")["state"] == "CANCELLED"
    kinds = [event["kind"] for event in stage.client().call("GET", "/v1/events") if event["job"] == job]
    assert kinds == ["hold", "release", "suspend", "resume", "requeue", "cancel", "cancel"]
    error = refused(stage, "alice", "POST", f"/v1/jobs/{job}/hold")
    assert (error.status, str(error)) == (409, f"job {job} has ended: CANCELLED")


def test_why(stage: Stage) -> None:
    assert stage.client().call("GET", f"/v1/jobs/{submit(stage)}/why")["reasons"][0]["code"] == "Resources"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/jobs/{}", None),
        ("GET", "/v1/jobs/{}/logs", None),
        ("GET", "/v1/jobs/{}/wait", None),
        ("PATCH", "/v1/jobs/{}", {"priority": 1}),
        *(("POST", f"/v1/jobs/{{}}/{verb}", {}) for verb in ("cancel", "hold", "release", "suspend")),
    ],
)
def test_other_tenants_jobs(stage: Stage, method: str, path: str, body: object) -> None:
    """Bob may not; Alice may, and an admin."""
    job = submit(stage)
    error = refused(stage, "bob", method, path.format(job), body)
    assert (error.status, str(error)) == (403, f"job {job} is alice's, of tenant vision/alice")
    for who in ("alice", "admin"):
        query = {"wait_s": 0} if path.endswith("wait") else None
        stage.client(who).call(method, path.format(job), body, query)


def test_other_tenants_name(stage: Stage) -> None:
    error = refused(stage, "bob", "POST", "/v1/jobs", {"spec": SPEC | {"tenant": "vision/alice"}})
    assert (error.status, "may not submit for tenant" in str(error)) == (403, True)


@pytest.mark.parametrize("workdir", ["data", "../x", "~/x", "./"])
@pytest.mark.parametrize("query", [{}, {"dry_run": True}])
def test_folder_without_a_root(stage: Stage, workdir: str, query: dict[str, object]) -> None:
    """The client makes it one that begins at /; nobody else knows where it would begin."""
    body = {"spec": SPEC | {"workdir": workdir}}
    error = refused(stage, "alice", "POST", "/v1/jobs", body, **query)
    sentence = f"workdir {workdir!r} is relative; expected an absolute path such as /data, or none"
    assert (error.status, sentence in str(error), "\n" in str(error)) == (422, True, False)


@pytest.mark.parametrize("id", ["0x1", "1_", "-1", "1" * 16, "1%2F2", "%00", "%F0%9F%98%80"])
def test_no_such_id(stage: Stage, id: str) -> None:
    error = refused(stage, "alice", "GET", f"/v1/jobs/{id}/why")
    assert error.status == 404
    assert "\n" not in str(error)


def test_no_such_job(stage: Stage) -> None:
    error = refused(stage, "alice", "GET", "/v1/jobs/999999")
    assert (error.status, str(error)) == (404, "there is no job 999999")
