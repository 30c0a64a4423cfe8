"""`rota analyze`: text, JSON, the page, and three wrong inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell_play import rota

from sacct_site import FAULTS, Site, dump

SITE = Site(jobs=250, days=5)


@pytest.fixture(scope="module")
def sacct(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "sacct.txt"
    path.write_text(dump(3, FAULTS, SITE))
    return path


def test_text_names_the_faults_first(sacct: Path) -> None:
    done = rota("analyze", sacct)
    assert (done.status, done.err) == (0, "")
    lines = [line for line in done.out.splitlines() if line]
    assert any(line.startswith("4 faults") for line in lines[1:4])
    assert [line.split()[1] for line in lines if line.startswith("! ")] == [
        "nlp/idler",
        "Array",
        "bio/wendy",
        "bio/greta",
    ]
    assert max(map(len, lines)) <= 100
    assert "What this data cannot say" in done.out


def test_json_and_page(sacct: Path, tmp_path: Path) -> None:
    done = rota("analyze", sacct, "--json", "--out", tmp_path / "new")
    said = json.loads(done.out)
    assert {one["key"] for one in said["faults"]} == {
        "idle_user",
        "failing_array",
        "wrong_partition",
        "over_asked_limits",
    }
    assert (
        json.loads((tmp_path / "new/analysis.json").read_text(encoding="utf-8")) | {"out": said["out"]}
        == said
    )
    assert "nlp/idler" in (tmp_path / "new/analysis.html").read_text(encoding="utf-8")


def test_a_clean_dump(tmp_path: Path) -> None:
    (tmp_path / "clean.txt").write_text(dump(3, (), SITE))
    out = rota("analyze", tmp_path / "clean.txt").out
    assert "No faults found" in out
    assert "\n! " not in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("none.csv", "rota: none.csv: no such file"),
        (
            "{sacct} --replays many",
            "rota: --replays: 'many' is no number of jobs; expected no, or such as 1000",
        ),
        ("{sacct} --threshold idle=3", "rota: --threshold: 'idle' is no threshold; expected"),
        (
            "{sacct} --threshold idle_utilisation=0.1,idle_utilisation=0.2",
            "rota: --threshold: sets 'idle_utilisation' twice; expected each threshold once",
        ),
        ("{sacct} --knowledge abc", "rota: --knowledge: 'abc' names no source; expected KIND=SOURCE"),
        ("{sacct} --cluster 3y4", "rota: "),
        ("{sacct} --out {sacct}", "rota: --out: "),
    ],
)
def test_wrong(words: str, sentence: str, sacct: Path) -> None:
    done = rota("analyze", *(word.format(sacct=sacct) for word in words.split()))
    assert done.status == 2
    assert done.err.startswith(sentence)
    assert done.err.count("\n") == 1
