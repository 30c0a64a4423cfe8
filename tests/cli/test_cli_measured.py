"""`--costs measured`: a simulation asks a running cluster what things cost there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from live_play import Canned, controller
from shell_play import rota

COSTS = [{"kind": kind, "count": 9, "seconds": s} for kind, s in (("start", 1.0), ("leave", 2.0))]
TRACE = "job_id,submit_s,gpus,duration_s\n1,0,1,10\n2,0,1,10\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return path


def test_the_cluster_of_this_home(cluster: Canned, trace: Path) -> None:
    cluster.replies["GET /v1/costs"] = COSTS
    done = rota("simulate", trace, "--cluster", "1x1", "--costs", "measured", "--json", "-j", 1)
    assert done.status == 0, done.err
    answer = json.loads(done.out)
    assert answer["runs"][0]["makespan_s"] == 22.0  # two starts of 1 s each
    assert any("rest on no first steps" in remark for remark in answer["remarks"])
    assert [call.path for call in cluster.asked] == ["/v1/costs"]


def test_the_cluster_of_another_home(tmp_path: Path, trace: Path) -> None:
    canned = Canned({"GET /v1/costs": COSTS})
    with controller(tmp_path / "controller.sock", canned):
        done = rota("simulate", trace, "--cluster", "1x1", "--costs", f"measured:{tmp_path}", "-j", 1)
    assert done.status == 0, done.err
    assert canned.asked


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("measured:/nowhere", "no rota is running in /nowhere"),
        ("measured:http://127.0.0.1:1", "127.0.0.1:1"),
        ("measure", "--costs"),
    ],
    ids=["no cluster there", "nobody answers", "another word"],
)
def test_what_cannot_be_asked(given: str, sentence: str, trace: Path) -> None:
    done = rota("simulate", trace, "--cluster", "1x1", "--costs", given)
    assert done.status != 0
    assert sentence in done.err


def test_a_cluster_that_has_run_nothing(cluster: Canned, trace: Path) -> None:
    cluster.replies["GET /v1/costs"] = []
    done = rota("simulate", trace, "--cluster", "1x1", "--costs", "measured")
    assert done.status != 0
    assert "has not measured a single start" in done.err
