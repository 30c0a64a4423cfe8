"""`rota advise`: as text, JSON and page, and what it says of wrong words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell_play import rota, rota_process

from rota.reports.advice.goals import GOALS

WORDS = ["--cluster", "4x8", "--policy", "fifo,srtf", "--seeds", "1", "-j", "1"]


def test_text_and_page(hundred: Path, tmp_path: Path) -> None:
    page = tmp_path / "advice.html"
    done = rota("advise", hundred, *WORDS, "--goal", "jct=2,tail=1", "--slurm", "--out", page)
    assert (done.status, done.err) == (0, "")
    assert "fifo:skip=yes (now)" in done.out
    assert "Goal tail: how long the hundredth of the jobs waits" in done.out
    assert "The trace records no starts" in done.out
    assert f"Page: {page}" in done.out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_as_json(hundred: Path) -> None:
    facts = json.loads(rota("advise", hundred, *WORDS, "--json").out)
    assert {one["policy"] for one in facts["policies"]} == {"fifo:skip=yes", "fifo", "srtf"}
    assert facts["present"] == "fifo:skip=yes"
    assert facts["part"]["jobs"] == 100
    assert facts["out"] is None


@pytest.mark.parametrize(
    ("words", "remarks"),
    [
        ("", []),
        ("--can checkpoint --elastic 1:4", ["--elastic has no effect: fifo:skip=yes, fifo, srtf"]),
        ("--knowledge throughput=assumed", ["--knowledge throughput=assumed has no effect: fifo:skip=yes"]),
    ],
    ids=["nothing", "can", "throughput"],
)
def test_what_nobody_reads(hundred: Path, words: str, remarks: list[str]) -> None:
    """Only what its user said, and what neither the present policy nor a candidate reads, is remarked."""
    done = rota("advise", hundred, *WORDS, *words.split(), "--json")
    said = [remark for remark in json.loads(done.out)["remarks"] if "has no effect" in remark]
    assert len(said) == len(remarks)
    assert all(one.startswith(beginning) for one, beginning in zip(said, remarks, strict=True))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--goal speed", "rota: --goal: 'speed' is no goal; expected jct, tail, fairness"),
        ("--goal deadlines", "has one; expected --deadlines 0.5:1.5 to draw some, or another goal"),
        ("--goal energy --power 60:300", "rota: --power: '60:300' is no power; expected BUSY:IDLE watts"),
        ("--present tiresia", "rota: there is no policy 'tiresia'; did you mean 'tiresias'?"),
        ("--window soon", "rota: --window: 'soon'"),
        ("--out /", "rota: --out: / is a folder; expected the name of a file"),
        ("--seeds 0", "rota: --seeds: 0 seeds; expected from 1 to 10,000"),
        (f"--seeds {10**20}", "rota: --seeds: 100,000,000,000,000,000,000 seeds; expected from 1 to 10,000"),
        ("--policy fifo:skip=yes", "rota: --policy: fifo:skip=yes is what is there; expected another policy"),
    ],
)
def test_what_is_wrong(hundred: Path, words: str, sentence: str) -> None:
    done = rota("advise", hundred, "--cluster", "4x8", *words.split())
    assert done.status == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1


@pytest.mark.soak
def test_the_example_of_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of docs/advise.md print what stands there, but for the time that they took."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs/advise.md").read_text(encoding="utf-8")
    example = text.partition("<!-- example -->")[2].partition("<!-- end of example -->")[0]
    commands = example.partition("```sh\n")[2].partition("```")[0].replace("\\\n", " ").splitlines()
    printed = example.partition("```text\n")[2].partition("```")[0]
    last = None
    for command in commands:
        last = rota_process(*command.split()[1:])
        assert (last.status, last.err) == (0, "")
    assert last is not None

    assert all(f"| `{goal.key}` | {goal.means} |" in text for goal in GOALS.values())

    def settled(said: str) -> list[str]:
        return [line.rstrip() for line in said.splitlines() if not line.startswith("Replayed in")]

    assert settled(last.out) == settled(printed)
