"""What is done to jobs, their logs, and how a command finds its controller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from live_play import DETAIL, NOW_S, Answer, Asked, Canned, job, log_of, refusal
from shell_play import rota, rota_process
from typer.testing import CliRunner

from rota.cli.app import app
from rota.cli.commands import LIVE, SECTIONS
from rota.cli.lazy import load
from rota.cli.live.connect import complete_job
from rota.cli.live.job_output import already
from rota.wire.views import ArrayDone, JobView, RefusedJob, Updated


@pytest.mark.parametrize(
    ("command", "call", "body", "line"),
    [
        (
            "cancel 17 --reason x --force",
            "cancel",
            {"reason": "x", "force": True},
            "job 17 cancelled: pending",
        ),
        ("hold 17", "hold", {"reason": "", "force": False}, "job 17 held: pending"),
        ("release 17", "release", {"reason": "", "force": False}, "job 17 released: pending"),
        ("suspend 17", "suspend", {"reason": "", "force": False}, "job 17 told to suspend"),
        ("resume 17", "resume", {"reason": "", "force": False}, "job 17 told to resume"),
        ("requeue 17 --force", "requeue", {"reason": "", "force": True}, "job 17 told to requeue"),
    ],
)
def test_acts(command: str, call: str, body: object, line: str, cluster: Canned) -> None:
    cluster.replies[f"POST /v1/jobs/17/{call}"] = job("17")
    assert rota(*command.split()).out == line + "\n"
    assert cluster.asked[-1].body == body
    assert json.loads(rota(*command.split(), "--json").out)[0]["id"] == "17"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            {"promised_s": 5e9, "expected_s": 5e9 - 60.0},
            "its deadline is promised: by 2128-06-11T08:53:20, 1m to spare",
        ),
        (
            {"state": "OFFERED", "offered_s": 6e9, "offered_until_s": 0.0},
            "not by 2128-06-11T08:53:20 any more, as others were promised theirs since; "
            "by 2160-02-18T10:40:00 if you accept within 0s: rota accept 17\n(rota why 17 says why)",
        ),
    ],
    ids=["promised", "others were first"],
)  # fmt: skip
def test_accept_says_what_comes_of_it(said: dict[str, Any], line: str, cluster: Canned) -> None:
    cluster.replies["POST /v1/jobs/17/accept"] = job("17")
    view = job("17", **({"deadline_s": 5e9} | said)).model_dump(mode="json")
    cluster.replies["GET /v1/jobs/17"] = Answer(200, {"job": view})
    assert rota("accept", "17").out == f"job 17 asks for its later deadline\n{line}\n"
    assert json.loads(rota("accept", "17", "--json").out)[0]["id"] == "17"


def test_several_jobs(cluster: Canned) -> None:
    """Those that can be are, the others are named, and the command fails in the end."""
    cluster.replies["POST /v1/jobs/17/cancel"] = job("17")
    cluster.replies["POST /v1/jobs/18/cancel"] = refusal(409, "job 18 has ended")
    cluster.replies["POST /v1/jobs/19_3/cancel"] = job("19_3")
    done = rota("cancel", "17", "18", "19_3")
    assert (done.status, done.err) == (1, "rota: job 18 has ended\n")
    assert done.out == "job 17 cancelled: pending\njob 19_3 cancelled: pending\n"


def test_cancelling_what_has_ended_is_told_as_that(cluster: Canned) -> None:
    """A job that completed was called cancelled."""
    cluster.replies["POST /v1/jobs/17/cancel"] = job("17", state="COMPLETED")
    assert rota("cancel", "17").out == "job 17 had ended already: completed\n"


def test_an_array(cluster: Canned) -> None:
    """A line for each of few jobs, a count of many or where some had ended; those that refuse are named."""
    members = [job(f"17_{index}", state="CANCELLED") for index in range(1, 13)]
    refused = [RefusedJob(job=one.id, error="it is not running") for one in members]
    cluster.replies["POST /v1/jobs/17/cancel"] = ArrayDone(array="17", jobs=members[:2], ended=0)
    assert rota("cancel", "17").out == "job 17_1 cancelled\njob 17_2 cancelled\n"
    cluster.replies["POST /v1/jobs/17/cancel"] = ArrayDone(array="17", jobs=members, ended=8)
    assert rota("cancel", "17").out == "cancelled 12 jobs of array 17; 8 had ended\n"
    ids = [one["id"] for one in json.loads(rota("cancel", "17", "--json").out)]
    assert ids == [one.id for one in members]
    cluster.replies["POST /v1/jobs/17/cancel"] = ArrayDone(array="17", jobs=[], ended=20)
    assert rota("cancel", "17").out == "cancelled 0 jobs of array 17; 20 had ended\n"
    told = ArrayDone(array="17", jobs=members[:1], ended=3, refused=refused[1:2])
    cluster.replies["POST /v1/jobs/17/requeue"] = told
    done = rota("requeue", "17")
    assert (done.status, done.err) == (1, "rota: job 17_2: it is not running\n")
    assert done.out == "told 1 job of array 17 to requeue; 3 had ended\n"
    cluster.replies["POST /v1/jobs/17/requeue"] = ArrayDone(array="17", jobs=[], ended=0, refused=refused)
    done = rota("requeue", "17")
    assert (done.status, done.out) == (1, "")
    assert done.err == "rota: 12 jobs of array 17: it is not running\n"


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ("--priority 10", {"priority": 10}),
        ("--priority=-3 --name b --comment c", {"priority": -3, "name": "b", "comment": "c"}),
        ("--time 2h --gpus-range 1:4", {"time_s": 7200.0, "gpus_min": 1, "gpus_max": 4}),
        ("--time none --deadline none --begin none", {"time_s": None, "deadline_s": None, "begin_s": None}),
        ("--gpus 4", {"gpus": 4, "gpus_min": None, "gpus_max": None}),
        ("--gpus 2 --gpus-range 1:4", {"gpus": 2, "gpus_min": 1, "gpus_max": 4}),
        ("--gpus-range none", {"gpus_min": None, "gpus_max": None}),
        ("--deadline 1795341600", {"deadline_s": NOW_S}),
        ("--weight 2.5 --batch-range 64:512", {"weight": 2.5, "batch_min": 64.0, "batch_max": 512.0}),
        ("--deadlines none --batch-range none", {"deadlines": [], "batch_min": None, "batch_max": None}),
        ("--deadlines 1795341600=4", {"deadlines": [{"at_s": NOW_S, "value": 4.0}]}),
    ],
)
def test_update(options: str, changes: object, cluster: Canned) -> None:
    cluster.replies["PATCH /v1/jobs/17"] = job("17", name="b")
    assert rota("update", "17", *options.split()).out.startswith("JOB  NAME")
    assert cluster.asked[-1].body == changes


def test_what_of_an_update_has_no_effect_is_said(cluster: Canned) -> None:
    said = "las orders jobs without looking at priorities: priority 5 has no effect under it"
    cluster.replies["PATCH /v1/jobs/17"] = Updated(**job("17").model_dump(), warnings=[said])
    done = rota("update", "17", "--priority", "5")
    assert done.out.startswith("JOB  NAME")
    assert done.err == f"rota: {said}\n"


def test_update_of_nothing(cluster: Canned) -> None:
    done = rota("update", "17")
    assert (done.status, cluster.asked) == (2, [])
    assert "nothing to change; expected --priority" in done.err


TEXT = "".join(f"line {number}, élan\n" for number in range(30_000))


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("logs 17", TEXT),
        ("logs 17 -n 3", "".join(TEXT.splitlines(keepends=True)[-3:])),
        ("logs 17 -n 20000", "".join(TEXT.splitlines(keepends=True)[-20_000:])),
        ("logs 17 -n 0", ""),
        ("logs 17 --attempt 1", "first\n"),
        ("logs 17 -r 1", "other\n"),
        ("logs 17 -f -n 1", TEXT.splitlines(keepends=True)[-1]),
        ("logs 17 -f", "first\n" + TEXT),
        ("attach 17", "".join(TEXT.splitlines(keepends=True)[-10:])),
        ("attach 17 -r 1 -n 5", "other\n"),
    ],
)
def test_logs(command: str, text: str, cluster: Canned) -> None:
    """Whole characters, in pieces, from the start or near the end."""
    cluster.replies["GET /v1/jobs/17/logs"] = log_of({(1, 0): "first\n", (2, 0): TEXT, (2, 1): "other\n"})
    cluster.replies["GET /v1/jobs/17/wait"] = job("17", "COMPLETED", attempt=2, end_s=NOW_S, exit_code=0)
    cluster.replies["GET /v1/jobs/17"] = DETAIL
    done = rota(*command.split())
    assert done.status == 0
    assert done.out == text


def test_no_log(cluster: Canned) -> None:
    cluster.replies["GET /v1/jobs/17/logs"] = log_of({(1, 0): ""})
    done = rota("logs", "17")
    assert (done.status, done.out, done.err) == (0, "", "rota: job 17 has written nothing so far\n")
    done = rota("logs", "17", "--rank", "7")
    assert (done.status, done.err) == (1, "rota: there is no log of rank 7 of attempt 1 on this machine\n")
    done = rota("logs", "17", "-f", "-k", "1")
    assert done.status == 2


@pytest.mark.parametrize("command", ["attach 17", "logs 17 --follow"])
def test_only_who_has_met_a_controller_waits_for_it(command: str, cluster: Canned) -> None:
    """Nothing is known of a job of which nothing was heard yet, so that it cannot be said to go on."""
    cluster.replies["GET /v1/jobs/17/wait"] = refusal(503, "the store is away")
    done = rota(*command.split())
    assert (done.status, done.out, done.err) == (1, "", "rota: the store is away\n")


def test_attach_ends_as_the_job(cluster: Canned) -> None:
    cluster.replies["GET /v1/jobs/17/logs"] = log_of({(1, 0): "x\n"})
    cluster.replies["GET /v1/jobs/17/wait"] = job("17", "FAILED", attempt=1, end_s=NOW_S, signal=9)
    done = rota("attach", "17")
    assert (done.status, done.out, done.err) == (137, "x\n", "rota: job 17 ended: failed by SIGKILL\n")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("COMPLETED", "job 17 has completed already"),
        ("COMPLETING", "job 17 has been told to end: cancelled by ann"),
        ("RUNNING", ""),
        ("FAILED", ""),
    ],
)
def test_who_attaches_late_is_told(state: str, said: str) -> None:
    """Of ends that are no success the end itself is told."""
    assert already(job("17", state, cause="cancelled by ann")) == said


def test_attach_to_what_has_completed(cluster: Canned) -> None:
    cluster.replies["GET /v1/jobs/17/logs"] = log_of({(1, 0): ""})
    cluster.replies["GET /v1/jobs/17/wait"] = job("17", "COMPLETED", attempt=1, end_s=NOW_S, exit_code=0)
    done = rota("attach", "17")
    assert (done.status, done.out, done.err) == (0, "", "rota: job 17 has completed already\n")


# How the controller is found


def test_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, whether there never was a controller or its socket is left over."""
    monkeypatch.delenv("ROTA_URL", raising=False)
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    path = tmp_path / "controller.sock"
    done = rota("ls")
    assert (done.status, done.out) == (1, "")
    assert done.err == f"rota: no rota is running here (there is no {path}); start it with 'rota up'\n"
    path.touch()
    done = rota("ls")
    assert (done.status, done.err) == (
        1,
        "rota: no rota is running here (no process listens at its socket); start it with 'rota up'\n",
    )
    done = rota("ls", "--url", "http://127.0.0.1:1")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "http://127.0.0.1:1" in done.err


def test_url_and_tokens(cluster: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--token-file, then $ROTA_TOKEN, then the file of the user's name, then the admin's."""
    socket = Path(os.environ["ROTA_HOME"]) / "controller.sock"
    cluster.replies["GET /v1/jobs"] = []
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "alice")

    def token(*options: object) -> str:
        assert rota("ls", "--url", f"unix:{socket}", *options).status == 0
        return cluster.asked[-1].token

    assert token() == ""
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "admin").write_text("id.admin\n")
    assert token() == "id.admin"
    (tmp_path / "tokens" / "alice").write_text("id.alice\n")
    assert token() == "id.alice"
    monkeypatch.setenv("ROTA_TOKEN", "id.environment")
    assert token() == "id.environment"
    file = tmp_path / "mine"
    file.write_text("id.file\n")
    assert token("--token-file", file) == "id.file"
    file.write_text("")
    done = rota("ls", "--token-file", file)
    assert (done.status, done.err) == (2, f"rota: {file}: is empty; expected a token\n")
    monkeypatch.setenv("ROTA_URL", str(socket))
    assert rota("ls").status == 0
    cluster.replies["GET /v1/status"] = refusal(503, "asked all the same")
    assert (rota("status").status, cluster.asked[-1].path) == (1, "/v1/status")
    monkeypatch.delenv("ROTA_URL")
    (tmp_path / "controller.json").write_text(json.dumps({"url": f"unix:{socket}", "pid": 1}))
    assert rota("ls").status == 0


def test_the_own_socket_needs_no_token(cluster: Canned) -> None:
    cluster.replies["GET /v1/jobs"] = []
    (Path(os.environ["ROTA_HOME"]) / "tokens").mkdir()
    (Path(os.environ["ROTA_HOME"]) / "tokens" / "admin").write_text("id.admin\n")
    rota("ls")
    assert cluster.asked[-1].token == ""


def test_completion(cluster: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.replies["GET /v1/jobs"] = [job("17", name="a"), job("18", name="b"), job("170", name="c")]
    assert complete_job("17") == [("17", "a"), ("170", "c")]
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    assert complete_job("") == []


# The commands as a whole


@pytest.mark.parametrize("name", LIVE)
def test_help(name: str) -> None:
    """The line in the list is the first of the help, which has an example; each has one section."""
    command = load(LIVE[name].target, name)
    assert (command.help or "").splitlines()[0] == LIVE[name].summary
    assert sum(name in names for names in SECTIONS.values()) == 1
    done = rota(name, "--help")
    assert done.status == 0
    assert "Example" in done.out or not LIVE[name].target.startswith("rota.cli.live.")


def test_misspelt() -> None:
    done = rota("submti")
    assert done.status == 2
    assert "Did you mean 'submit'" in done.err.replace("\n", " ")


@pytest.mark.slow
def test_nothing_is_imported_for_the_help() -> None:
    """The list of commands names those of the live cluster without loading them."""
    done = rota_process("--help")
    assert done.out.index("\nJobs:\n") < done.out.index("\nCluster:\n") < done.out.index("\nSimulation:\n")
    code = "import sys; from rota.cli.app import app; from typer.testing import CliRunner as R;"
    code += "R().invoke(app, ['--help']); print(*[m for m in sys.modules if m.startswith('rota.cli.live')])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "\n"
    )


def test_typer_sees_the_same_command() -> None:
    """Parameters that decorators add are parsed like others."""
    result = CliRunner().invoke(app, ["ls", "--limit", "x"], prog_name="rota")
    assert result.exit_code == 2
    assert "invalid value for '--limit'" in result.stderr


def test_answers_may_say_more(cluster: Canned) -> None:
    """A newer controller's extra fields do no harm."""

    def reply(_: Asked) -> list[dict[str, object]]:
        return [{**job("17").model_dump(mode="json"), "colour": "blue"}]

    cluster.replies["GET /v1/jobs"] = reply
    assert JobView.model_validate(json.loads(rota("ls", "--json").out)[0]).id == "17"
