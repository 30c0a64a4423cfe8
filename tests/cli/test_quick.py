"""What is typed most goes without the whole command line, and means the same as with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from live_play import Answer, Asked, Canned, job, refusal
from shell_play import rota

from rota.cli.quick import left_over
from rota.wire import cluster_clock
from rota.wire.job import JobSpec
from rota.wire.views import JobView

SUBMITTED = Answer(201, {"jobs": [job("17").model_dump(mode="json")], "warnings": []})
SUBMIT, LS = "POST /v1/jobs", "GET /v1/jobs"


@pytest.fixture
def desk(cluster: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Canned:
    """A folder to submit from, and a controller that takes everything."""
    monkeypatch.chdir(tmp_path)
    cluster.replies |= {SUBMIT: SUBMITTED, LS: [job("17"), job("18", "RUNNING", nodes=["n1"], gpus_now=1)]}
    return cluster


@pytest.mark.parametrize(
    "words",
    [
        "-- python train.py",
        "python train.py",
        "-- python --gpus 3",
        "--gpus 2 --time 1h30m --name a --priority 5 -- x",
        "--gpus=2 --time=1-12:00:00 -- x",
        "--tenant vision/a --group g --comment hello --hold -- x",
        "--array 1-20%4 -e A=1 --env B=2=3 -e C= -- x y",
        "-q --gpus 0 x",
        "--gpus 1 --gpus 3 -- x",
        "--name a",  # nothing to run
        "-- job.yaml",
    ],
)
def test_same_job_as_by_the_whole_command_line(words: str, desk: Canned) -> None:
    """Field by field, and word for word what is said; what is not understood is left alone."""
    asked = ["submit", *words.split()]
    left = left_over(asked)
    quickly = desk.bodies("POST", "/v1/jobs")
    whole = rota(*asked)
    if left is not None:
        assert (left, quickly) == (asked, [])
        return
    assert whole.status == 0
    (first, second) = desk.bodies("POST", "/v1/jobs")
    assert JobSpec.model_validate(first["spec"]) == JobSpec.model_validate(second["spec"])
    assert len(first["key"]) == 32


@pytest.mark.parametrize(
    ("words", "out"),
    [("", "submitted job 17\n"), ("-q", "17\n"), ("--quiet", "17\n")],
)
def test_what_is_said(words: str, out: str, desk: Canned, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_over(["submit", *words.split(), "--", "x"]) is None
    assert capsys.readouterr().out == out == rota("submit", *words.split(), "--", "x").out


def test_an_array_and_warnings(desk: Canned, capsys: pytest.CaptureFixture[str]) -> None:
    views = [job(f"17_{i}").model_dump(mode="json") for i in (1, 2)]
    desk.replies[SUBMIT] = Answer(201, {"jobs": views, "warnings": ["no policy reads it"]})
    assert left_over(["submit", "--array", "1-2", "--", "x"]) is None
    said, whole = capsys.readouterr(), rota("submit", "--array", "1-2", "--", "x")
    assert (said.out, said.err) == (whole.out, whole.err)
    assert said.err == "rota: no policy reads it\n"


@pytest.mark.parametrize(
    "words",
    [
        "submit --dry-run -- x",
        "submit --sbatch a.sh",
        "submit job.yaml",
        "submit --gpus two -- x",
        "submit --gpus 1:2 -- x",
        "submit --time 5 -- x",
        "submit --gpus",
        "submit --hold=yes -- x",
        "submit -e PATH -- x",
        "submit --help",
        "submit x --gpus 2",
        "submit",
        "ls --watch",
        "ls --json",
        "ls --mine",
        "ls JOB",
        "ls --state RUNNING",
        "ls --name a&b",
        "--version",
        "",
    ],
)
def test_left_to_the_whole_command_line(words: str, desk: Canned) -> None:
    assert left_over(words.split()) == words.split()
    assert desk.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        refusal(422, "there is no such tenant"),
        refusal(503, "the store does not answer"),
        Answer(201, "{", "application/json"),
    ],
)
def test_what_goes_wrong_is_sent_again_with_the_same_key(answer: Answer, desk: Canned) -> None:
    """So that it is one job if the first one had an effect."""
    desk.replies[SUBMIT] = answer
    left = left_over(["submit", "--gpus", "1", "--", "x"])
    assert left is not None
    desk.replies[SUBMIT] = SUBMITTED
    assert rota(*left).out == "submitted job 17\n"
    first, second = desk.bodies("POST", "/v1/jobs")
    assert first["key"] == second["key"]


@pytest.mark.parametrize("variable", ["ROTA_URL", "_ROTA_COMPLETE"])
def test_other_ways_to_call(variable: str, desk: Canned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://elsewhere:1")
    assert left_over(["submit", "--", "x"]) == ["submit", "--", "x"]


def test_token_of_the_environment(desk: Canned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TOKEN", " secret\n")
    assert left_over(["submit", "--", "x"]) is None
    assert desk.asked[-1].token == "secret"


def test_nobody_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_HOME", str(tmp_path / "nothing"))
    assert left_over(["ls"]) == ["ls"]


@pytest.mark.parametrize("words", ["", "--all", "-a --user alice", "--name train --tenant vision/a"])
def test_list(words: str, desk: Canned, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["ls", *words.split()]
    assert left_over(asked) is None
    assert capsys.readouterr().out == rota(*asked).out
    first, second = (call for call in desk.asked if call.path == "/v1/jobs")
    assert first.query == second.query


def test_idle_by_the_clock_of_the_cluster(
    desk: Canned, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's may be set while the job runs."""
    monkeypatch.setattr(cluster_clock, "_told", None)
    monkeypatch.setattr("rota.cli.live.tables.CLOCK", cluster_clock.now_s)
    desk.now_s = 5000.0
    desk.replies[LS] = [job("17", "RUNNING", nodes=["n1"], idle_since_s=4400.0)]
    assert left_over(["ls"]) is None
    assert "(idle 10m)" in capsys.readouterr().out


def test_a_list_of_an_older_controller(desk: Canned) -> None:
    """Its rows lack a field, which the whole command line knows the default of."""

    def older(_: Asked) -> list[Any]:
        row: dict[str, Any] = JobView.model_dump(job("17"), mode="json")
        return [{name: value for name, value in row.items() if name != "gpus_now"}]

    desk.replies[LS] = older
    assert left_over(["ls"]) == ["ls"]


_MODULES = """
import json, sys
before = set(sys.modules)
from rota.cli.main import main
sys.argv[:] = ["rota", *sys.argv[1:]]
main()
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
LIGHT = {"__future__", "rota", "os", "re", "json", "socket", "math", "copyreg", "types", "datetime", "signal"}
"""Beside what these import themselves: `enum`, `functools` and the like."""
HEAVY = {"typing", "dataclasses", "inspect", "http", "email", "urllib", "asyncio", "shutil", "pathlib"}


@pytest.mark.slow
@pytest.mark.parametrize("words", [["submit", "--time", "1h", "--", "true"], ["ls"]])
def test_imports_little(words: list[str], desk: Canned) -> None:
    """No library at all, and of the standard one nothing that takes long to load."""
    command = [sys.executable, "-I", "-c", _MODULES, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert loaded - sys.stdlib_module_names == {"rota"}
    assert loaded & HEAVY == set()


def test_a_program_that_is_not_there_is_left_to_who_says_so(
    desk: Canned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.cli.quick.why_not_here", lambda name, folder, path: f"there is no {name}")
    assert left_over(["submit", "train.py"]) == ["submit", "train.py"]
    assert desk.asked == []
