"""`rota usage`: of a trace and of the cluster, as text, CSV and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from live_play import NOW_S, Answer, Asked, Canned, job
from shell_play import rota

TRACE = """\
job_id,submit_s,gpus,duration_s,tenant,start_s,end_s,outcome
1,0,2,7200,vision/ann,3600,10800,COMPLETED
2,0,1,3600,vision/bob,0,3600,FAILED
3,0,4,3600,nlp/eve,0,3600,COMPLETED
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(TRACE)
    return tmp_path


def test_of_a_trace(folder: Path) -> None:
    done = rota("usage", "jobs.csv", "--price", "2", "--csv", "out.csv")
    assert (done.status, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["tenant", "jobs", "GPU-hours", "share", "failed", "cancelled", "mean", "wait", "cost"]
    assert lines[1] == ["vision", "2", "5", "55.6%", "20.0%", "0.0%", "30m", "10.00"]
    assert lines[2] == ["nlp", "1", "4", "44.4%", "0.0%", "0.0%", "0s", "8.00"]
    assert lines[3] == ["all", "3", "9", "100.0%", "11.1%", "0.0%", "20m", "18.00"]
    rows = list(csv.DictReader((folder / "out.csv").open()))
    assert [(row["tenant"], float(row["gpu_hours"]), float(row["cost"])) for row in rows] == [
        ("vision", 5.0, 10.0),
        ("nlp", 4.0, 8.0),
    ]


def test_as_json(folder: Path) -> None:
    figures = json.loads(rota("usage", "jobs.csv", "--by", "user,size", "--json").out)
    assert figures["by"] == ["user", "size"]
    assert {" ".join(line["names"]) for line in figures["lines"]} == {
        "vision/ann 2-4 GPUs",
        "vision/bob 1 GPU",
        "nlp/eve 2-4 GPUs",
    }
    assert sum(line["gpu_hours"] for line in figures["lines"]) == pytest.approx(figures["total"]["gpu_hours"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("jobs.csv --by colour", "rota: --by: 'colour' is nothing to count by; expected tenant, user"),
        ("jobs.csv --by month", "rota: jobs.csv has no dates"),
        ("jobs.csv --since yesterday", "rota: --since: 'yesterday' is no day; expected such as 2026-11-01"),
        ("jobs.csv --price free", "rota: --price: 'free' is no price; expected 2.5, or by type"),
        ("none.csv", "rota: none.csv: no such file"),
    ],
)
def test_wrong(words: str, sentence: str, folder: Path) -> None:
    done = rota("usage", *words.split())
    assert done.status == 2
    assert done.err.startswith(sentence)
    assert done.err.count("\n") == 1


def test_of_the_cluster(cluster: Canned, folder: Path) -> None:
    """What jobs held counts, not what would run them again: job 1 had 4 GPUs in place of 2."""
    ended = Answer(200, [_view("1", 4.0), _view("2", 1.0)])

    def history(asked: Asked) -> Answer:
        return Answer(200, TRACE, "text/csv") if asked.query.get("format") == "csv" else ended

    cluster.replies["GET /v1/history"] = history
    cluster.replies["GET /v1/jobs"] = Answer(200, [_view("3", 4.0, state="RUNNING", end_s=None)])
    figures = json.loads(rota("usage", "--by", "month,user", "--json").out)
    hours = {tuple(line["names"]): line["gpu_hours"] for line in figures["lines"]}
    assert hours == {
        ("2026-11", "vision/ann"): 8.0,
        ("2026-11", "nlp/eve"): 8.0,
        ("2026-11", "vision/bob"): 2.0,
    }
    assert figures["total"]["wait_hours"] == pytest.approx(0.5)


def test_of_a_cluster_that_has_done_nothing(cluster: Canned, folder: Path) -> None:
    cluster.replies["GET /v1/history"] = Answer(200, TRACE.splitlines()[0] + "\n", "text/csv")
    done = rota("usage")
    assert (done.status, done.err) == (2, "rota: no job has run on this cluster yet\n")


def _view(id: str, gpus: float, **more: object) -> dict[str, object]:
    """A job that waited for half an hour and has run for two hours."""
    told = {"submit_s": NOW_S, "start_s": NOW_S + 1800.0, "end_s": NOW_S + 9000.0, "run_s": 7200.0}
    return job(id, **{**told, "gpu_s": 7200.0 * gpus, **more}).model_dump(mode="json")
