"""This rota and a controller of another version: what does not fit is no mistake of a user's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from live_play import DETAIL, Canned, refusal
from shell_play import rota

from rota import __version__
from rota.model.revision import full_version

OLDER = "runs an older Rota than this one"
UPGRADE = "upgrade the controller, or use its version here"


def health(version: str) -> dict[str, Any]:
    return {"ok": True, "version": version, "protocol": 1}


def test_a_parameter_that_an_older_controller_does_not_know(cluster: Canned) -> None:
    cluster.replies["GET /health"] = health(__version__)
    cluster.replies["GET /v1/jobs/4"] = refusal(400, "'reason' is no parameter of this call; it has none")
    done = rota("show", "4")
    assert (done.status, done.out) == (1, "")
    assert f"{OLDER}: {UPGRADE} ('reason' is no parameter" in done.err
    assert done.err.count("\n") == 1


def test_a_call_that_an_older_controller_does_not_have(cluster: Canned) -> None:
    """With its version, where the numbers differ."""
    cluster.replies["GET /health"] = health("0.0.9")
    sentence = "there is no GET /v1/usage; GET /openapi.json lists what there is"
    cluster.replies["GET /v1/usage"] = refusal(404, sentence)
    done = rota("usage")
    assert f"{OLDER} (version 0.0.9, here {full_version()}): {UPGRADE} (there is no GET /v1/usage" in done.err


def test_an_answer_that_lacks_what_is_read_here(cluster: Canned) -> None:
    """Not a page of pydantic's, nor a traceback."""
    cluster.replies["GET /health"] = health(__version__)
    answer = json.loads(DETAIL.model_dump_json())
    del answer["job"]["submit_s"]
    cluster.replies["GET /v1/jobs/15"] = answer
    done = rota("show", "15")
    assert (done.status, done.out) == (1, "")
    assert f"{OLDER}: {UPGRADE} (its answer lacks JobDetail.job.submit_s: field required)" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(("version", "is_told"), [("0.0.9", True), (__version__, False)])
def test_a_field_is_told_only_where_versions_differ(cluster: Canned, version: str, is_told: bool) -> None:
    """It may be the user's own word."""
    cluster.replies["GET /health"] = health(version)
    cluster.replies["POST /v1/jobs"] = refusal(422, "spec.colour is no field here")
    done = rota("submit", "--", "true")
    assert (OLDER in done.err) == is_told
    assert "spec.colour is no field here" in done.err


def test_what_is_not_there_is_no_matter_of_versions(cluster: Canned) -> None:
    cluster.replies["GET /v1/jobs/4"] = refusal(404, "there is no job 4")
    done = rota("show", "4")
    assert (done.status, done.err) == (2, "rota: there is no job 4\n")
    assert [call.path for call in cluster.asked] == ["/v1/jobs/4"]
