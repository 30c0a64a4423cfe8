"""`rota usage`: of a trace and of the cluster, as text, CSV and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from live_play import Answer, Canned, refusal
from shell_play import rota

from rota.wire.usage import UsageLine, UsageView

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
        ("jobs.csv --by colour", "rota: --by: 'colour' is nothing to count by; expected tenant, subtenant"),
        ("jobs.csv --by month", "rota: jobs.csv has no dates"),
        ("jobs.csv --since yesterday", "rota: --since: 'yesterday' is no day; expected such as 2026-11-01"),
        ("jobs.csv --price free", "rota: --price: 'free' is no price; expected 2.5, or by type"),
        (
            "jobs.csv --since 2026-12-01 --until 2026-11-01",
            "rota: --until: 2026-11-01 is not after 2026-12-01; expected a later day than that of --since",
        ),
        ("none.csv", "rota: none.csv: no such file"),
        ("jobs.csv --csv /", "rota: --csv: / is a folder; expected the name of a file"),
        ("jobs.csv --html .", "rota: --html: . is a folder; expected the name of a file"),
    ],
)
def test_wrong(words: str, sentence: str, folder: Path) -> None:
    done = rota("usage", *words.split())
    assert done.status == 2
    assert done.err.startswith(sentence)
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--by colour", "rota: --by: 'colour' is nothing to count by; expected tenant, subtenant"),
        ("--by tenant,colour", "rota: --by: 'colour' is nothing to count by; expected tenant, subtenant"),
        ("--price V100=-1", "rota: --price: 'V100=-1' is no price; expected 2.5, or by type"),
        ("--since 2026-12-01 --until 2026-11-01", "rota: --until: 2026-11-01 is not after 2026-12-01"),
    ],
)
def test_wrong_of_the_cluster(words: str, sentence: str, cluster: Canned, folder: Path) -> None:
    """Said as for a trace, and no controller is asked."""
    done = rota("usage", *words.split())
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert done.err.startswith(sentence)
    assert not cluster.asked


def test_what_the_controller_refuses_is_bad_input(cluster: Canned, folder: Path) -> None:
    cluster.replies["GET /v1/usage"] = refusal(400, "GPU type 'cpu' has no price")
    done = rota("usage", "--price", "V100=1")
    assert (done.status, done.err) == (2, "rota: GPU type 'cpu' has no price\n")


def test_as_a_page(folder: Path) -> None:
    assert rota("usage", "jobs.csv", "--by", "user", "--html", "usage.html").status == 0
    page = (folder / "usage.html").read_text(encoding="utf-8")
    assert "3 jobs held GPUs for 9 GPU-hours: 11.1% of them failed, 0.0% were cancelled." in page
    assert page.count('<div class="bar">') == 3
    assert "vision/<wbr>ann" in page


def test_of_the_cluster(cluster: Canned, folder: Path) -> None:
    """The controller counts; what was asked reaches it."""
    line = UsageLine(names=("2026-11", "ann"), jobs=1, gpu_hours=8.0, share=1.0, preempted_gpu_hours=2.0)
    said = UsageView(
        source="the cluster",
        by=("month", "user"),
        lines=[line],
        total=line.model_copy(update={"names": ("all",)}),
    )
    cluster.replies["GET /v1/usage"] = Answer(200, said.model_dump(mode="json"))
    done = rota("usage", "--by", "month,user", "--since", "2026-11-01", "--price", "A100=3,2")
    assert (done.status, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()][1] == [
        *("2026-11", "ann", "1", "8", "100.0%", "0.0%", "0.0%", "25.0%"),
    ]
    asked = cluster.asked[-1].query
    assert asked["by"] == "month,user"
    assert float(asked["since"]) == 1793491200.0
    assert asked["price"] == "A100=3,2"
    assert "until" not in asked


def test_of_a_cluster_that_has_done_nothing(cluster: Canned, folder: Path) -> None:
    nothing = UsageView(source="the cluster", by=("tenant",), lines=[], total=_none())
    cluster.replies["GET /v1/usage"] = Answer(200, nothing.model_dump(mode="json"))
    done = rota("usage")
    assert (done.status, done.err) == (2, "rota: no job has run on this cluster yet\n")


def _none() -> UsageLine:
    return UsageLine(names=("all",), jobs=0, gpu_hours=0.0)
