"""`rota submit` and `rota run`: what is sent, what is said, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_play import DETAIL, NOW_S, Answer, Asked, Canned, job, log_of, refusal
from shell_play import check_golden, rota

from rota.cli.live.caller import pass_on
from rota.cli.live.job_output import exit_code
from rota.cli.quick import left_over
from rota.wire.job import JobSpec
from rota.wire.views import DryRun, JobView, ReasonView, Why

SUBMITTED = Answer(201, {"jobs": [job("17").model_dump(mode="json")]})


@pytest.fixture
def desk(cluster: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Canned:
    """A folder to submit from, and a controller that takes everything."""
    monkeypatch.chdir(tmp_path)
    cluster.replies["POST /v1/jobs"] = SUBMITTED
    return cluster


def sent(desk: Canned) -> JobSpec:
    """The specification that arrived, as the controller reads it."""
    return JobSpec.model_validate(desk.bodies("POST", "/v1/jobs")[-1]["spec"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"gpus": 1}),
        ("--gpus 2 --gpus-range 1:4", {"gpus": 2, "gpus_min": 1, "gpus_max": 4}),
        ("--gpus-range 2:4 --counts any", {"gpus": 2, "gpus_min": 2, "gpus_max": 4}),
        ("--gpu-type A100,H100 --gpu-memory 16GiB", {"gpu_types": ["A100", "H100"], "gpu_memory_gib": 16}),
        ("--share 0.5 --cpus 2 --mem 8GiB", {"gpu_share": 0.5, "cpus": 2, "memory_gib": 8}),
        ("--gpus 4 --share 0.5", {"gpus": 4, "gpu_share": 0.5}),
        ("--gpus 0 --kind opportunistic", {"gpus": 0, "kind": "opportunistic"}),
        ("--time 3h --priority 5 --begin 1795341600", {"time_s": 10800, "priority": 5, "begin_s": NOW_S}),
        ("--deadline 2026-11-23T10:00:00+00:00", {"deadline_s": NOW_S + 86400}),
        ("--array 1-20%4 --hold --trial", {"array": "1-20%4", "hold": True, "trial": True}),
        (
            "--ranks node --grace 30s --notice USR1@60s",
            {"ranks": "node", "grace_s": 30, "notice_signal": "USR1"},
        ),
        (
            "--retries 5 --user-retries 1 --requeue-code 3",
            {"retries": 5, "user_retries": 1, "requeue_code": 3},
        ),
        (
            "--checkpoint own --no-preempt --self-fence",
            {"checkpoint": "own", "preemptible": False, "self_fence": True},
        ),
        (
            "--name a --tenant vision --workload w --group g",
            {"name": "a", "tenant": "vision", "workload": "w"},
        ),
        ("--batch-size 256 --comment hello", {"batch_size": 256, "comment": "hello"}),
    ],
)
def test_options(options: str, expected: dict[str, Any], desk: Canned) -> None:
    done = rota("submit", *options.split(), "--", "python", "train.py", "--gpus", "x")
    assert (done.status, done.out, done.err) == (0, "submitted job 17\n", "")
    spec = sent(desk)
    assert spec.command == ["python", "train.py", "--gpus", "x"]
    assert {name: getattr(spec, name) for name in expected} == expected


def test_what_has_no_effect_is_said(desk: Canned) -> None:
    """On standard error; a number alone stays a number alone."""
    body = {"jobs": [job("17").model_dump(mode="json")], "warnings": ["priority 5 has no effect"]}
    desk.replies["POST /v1/jobs"] = Answer(201, body)
    done = rota("submit", "-q", "--priority", "5", "--", "a")
    assert (done.status, done.out, done.err) == (0, "17\n", "rota: priority 5 has no effect\n")


def test_a_folder_that_is_not_there_is_said(desk: Canned) -> None:
    done = rota("submit", "-q", "--output", "/nodir/x", "--", "a")
    assert (done.status, done.out) == (0, "17\n")
    assert done.err.startswith("rota: output=/nodir/x: there is no folder /nodir, and none is made, on this")


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            {"promised_s": NOW_S + 100.0, "expected_s": NOW_S + 40.0},
            "its deadline is promised: by 2026-11-22T10:01:40, 1m to spare",
        ),
        (
            {"state": "OFFERED", "offered_s": NOW_S + 200.0, "offered_until_s": NOW_S + 600.0},
            "not by 2026-11-22T10:01:40; by 2026-11-22T10:03:20 if you accept within 10m: rota accept 17"
            "\n(rota why 17 says why)",
        ),
        (
            {"state": "CANCELLED", "cause": "the policy refused it: no room"},
            "not by 2026-11-22T10:01:40: the policy refused it: no room",
        ),
    ],
    ids=["promised", "offered", "refused"],
)
def test_what_the_policy_says_to_a_deadline(
    said: dict[str, Any], line: str, desk: Canned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.cli.live.submit.now_s", lambda: NOW_S)
    view = job("17", **({"deadline_s": NOW_S + 100.0} | said)).model_dump(mode="json")
    desk.replies["POST /v1/jobs"] = Answer(
        201, {"jobs": [job("17").model_dump(mode="json")], "answers": True}
    )
    desk.replies["GET /v1/jobs/17"] = Answer(200, {"job": view})
    done = rota("submit", "--deadline", "2026-11-23T10:00:00+00:00", "--", "a")
    assert (done.status, done.err) == (0, "")
    assert done.out == f"submitted job 17\n{line}\n"


SLOTS = "GPUs are given out when the next inner slot begins"
REFUSED = "its deadline cannot be promised; it runs on GPUs that no lease needs, when there are some"


@pytest.mark.parametrize(
    ("why", "said"), [(SLOTS, f"its deadline is not promised so far; {SLOTS}"), (REFUSED, REFUSED)]
)
def test_a_deadline_that_nobody_promises_at_once(
    desk: Canned, monkeypatch: pytest.MonkeyPatch, why: str, said: str
) -> None:
    """Chronus looks when its next slot begins, and lets whom it refuses run beside: what is so is said."""
    monkeypatch.setattr("rota.cli.live.submit.ANSWER_S", 0.0)
    desk.replies["POST /v1/jobs"] = Answer(
        201, {"jobs": [job("17").model_dump(mode="json")], "answers": True}
    )
    desk.replies["GET /v1/jobs/17"] = Answer(200, {"job": job("17").model_dump(mode="json")})
    reasons = [ReasonView(code="Policy", sentence=why)]
    desk.replies["GET /v1/jobs/17/why"] = Why(job="17", state="PENDING", reasons=reasons)
    done = rota("submit", "--deadline", "+2h", "--", "a")
    assert done.out.splitlines()[1] == f"{said} (rota show 17)"


def test_moments_from_now(desk: Canned) -> None:
    before_s = time.time()
    assert rota("submit", "--deadline", "+2h", "--begin", "+10m", "--", "a").status == 0
    spec = sent(desk)
    assert spec.deadline_s is not None
    assert spec.begin_s is not None
    assert 0 <= spec.deadline_s - before_s - 7200 < 60
    assert spec.deadline_s - spec.begin_s == pytest.approx(6600, abs=1)


def test_dependencies(desk: Canned) -> None:
    assert rota("submit", "--after", "12", "--after", "13:any,14:failed", "--", "a").status == 0
    assert [(after.job, after.when) for after in sent(desk).after] == [
        ("12", "ok"),
        ("13", "any"),
        ("14", "failed"),
    ]


def test_environment(desk: Canned, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What programs need to be found is passed on, secrets only when asked for, the caller's token never."""
    for name, value in {
        "CONDA_PREFIX": "/conda",
        "WANDB_API_KEY": "secret",
        "ROTA_TOKEN": "id.s",
        "A": "1",
    }.items():
        monkeypatch.setenv(name, value)
    rota("submit", "-e", "A", "--env", "B=2=3", "--", "a")
    env = sent(desk).env
    assert (env["PATH"], env["HOME"], env["CONDA_PREFIX"]) == (
        os.environ["PATH"],
        os.environ["HOME"],
        "/conda",
    )
    assert (env["A"], env["B"]) == ("1", "2=3")
    assert not {"WANDB_API_KEY", "ROTA_TOKEN"} & env.keys()
    rota("submit", "--env-all", "--", "a")
    assert sent(desk).env["WANDB_API_KEY"] == "secret"
    assert not {name for name in sent(desk).env if name.startswith("ROTA_")}
    assert sent(desk).workdir == str(tmp_path)
    assert desk.asked[-1].token == "id.s"


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        ("", {"PATH": "p", "LC_ALL": "C"}),
        ("NONE", {}),
        ("ALL", {"PATH": "p", "LC_ALL": "C", "KEY": "k"}),
        ("KEY,B=1", {"KEY": "k", "B": "1"}),
        ("ALL,B=1", {"PATH": "p", "LC_ALL": "C", "KEY": "k", "B": "1"}),
        ("ROTA_TOKEN", {}),
    ],
)
def test_export(export: str, expected: dict[str, str]) -> None:
    """sbatch's --export."""
    assert pass_on({"PATH": "p", "LC_ALL": "C", "KEY": "k", "ROTA_TOKEN": "t"}, export) == expected


def test_job_file(desk: Canned, tmp_path: Path) -> None:
    """Options come before the file; words behind it go to its program."""
    (tmp_path / "job.yaml").write_text(
        "name: resnet\ngpus: 2\ntime: 1h\npreemptible: no\nworkdir: sub\nenv: {A: 1, B: 1}\nrun: ./go $1\n"
    )
    assert rota("submit", "job.yaml", "--gpus", "4", "--preempt", "--env", "B=2", "--", "x y").status == 0
    spec = sent(desk)
    assert (spec.name, spec.gpus, spec.time_s, spec.preemptible) == ("resnet", 4, 3600, True)
    assert spec.command == ["/bin/sh", "-c", "./go $1", "rota", "x y"]
    assert (spec.env["A"], spec.env["B"], spec.workdir) == ("1", "2", str(tmp_path / "sub"))


def test_sbatch(desk: Canned, tmp_path: Path) -> None:
    (tmp_path / "go.sh").write_text(
        "#!/bin/bash\n#SBATCH --partition=gpu\n#SBATCH --gres=gpu:2 --export=NONE\n#SBATCH -J a\n./go $1\n"
    )
    done = rota("submit", "--sbatch", "go.sh", "--time", "2h", "data")
    assert (done.status, done.out) == (0, "submitted job 17\n")
    assert done.err == (
        "rota: line 2: --partition is ignored: there are no partitions; "
        "--node names nodes or their labels, --gpu-type types of devices\n"
    )
    spec = sent(desk)
    assert (spec.gpus, spec.ranks, spec.name, spec.time_s, spec.command[-1]) == (2, "node", "a", 7200, "data")
    assert "PATH" not in spec.env
    assert spec.env["SLURM_SUBMIT_DIR"] == str(tmp_path)


def test_what_is_printed(desk: Canned) -> None:
    assert rota("submit", "--quiet", "--", "a").out == "17\n"
    assert json.loads(rota("submit", "--json", "--", "a").out)["jobs"][0]["id"] == "17"
    desk.replies["POST /v1/jobs"] = Answer(
        201, {"jobs": [job(f"17_{index}").model_dump(mode="json") for index in (1, 2, 3)]}
    )
    assert rota("submit", "--array", "1-3", "--", "a").out == "submitted 3 jobs: 17_1 to 17_3\n"
    assert rota("submit", "--array", "1-3", "-q", "--", "a").out == "17\n"


def test_key(desk: Canned) -> None:
    """Each submission has a key of its own, so that a broken connection makes no second job."""
    rota("submit", "--key", "mine", "--", "a")
    rota("submit", "--", "a")
    rota("submit", "--", "a")
    mine, first, second = [body["key"] for body in desk.bodies("POST", "/v1/jobs")]
    assert mine == "mine"
    assert first != second
    assert len(first) == 32


DRY = DryRun(
    feasible=True,
    position=3,
    reasons=[
        ReasonView(code="Priority", sentence="2 jobs of a higher priority come first", remedy="a higher one")
    ],
    start_s=NOW_S + 600,
    basis="by the time limits of users",
    warnings=["no time limit is set: the job is taken to run for 1h"],
)


def test_dry_run(desk: Canned) -> None:
    desk.replies["POST /v1/jobs"] = DRY
    done = rota("submit", "--dry-run", "--", "a")
    assert (done.status, desk.asked[-1].query) == (0, {"dry_run": "true"})
    check_golden("live_dry_run.txt", done.out)
    assert json.loads(rota("submit", "--dry-run", "--json", "--", "a").out)["position"] == 3
    reason = ReasonView(
        code="Resources", sentence="needs 99 GPUs; the cluster has 8", remedy="ask for 8 or fewer"
    )
    desk.replies["POST /v1/jobs"] = DryRun(feasible=False, reasons=[reason])
    assert rota("submit", "--dry-run", "--gpus", "99", "--", "a").out == (
        "it can never run on this cluster:\n  needs 99 GPUs; the cluster has 8\n"
        "    To change that: ask for 8 or fewer\nnothing was submitted\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "there is nothing to run; expected `-- PROGRAM ARGUMENT...`, a job file or --sbatch FILE"),
        ("--time 90 -- a", "--time: '90' is not a duration; expected a unit"),
        ("--gpus x -- a", "--gpus: 'x' is no number of GPUs"),
        ("--deadline soon -- a", "--deadline: 'soon' is not a moment; expected +2h"),
        ("--after 17:never -- a", "--after: '17:never' names no job to wait for"),
        ("--env NOT_SET_HERE -- a", "--env: 'NOT_SET_HERE' is not set here"),
        ("--share 2 -- a", "share=2.0 will not do: input should be less than or equal to 1"),
        ("--retries=-1 -- a", "retries=-1 will not do: input should be greater than or equal to 0"),
        ("--notice KILL -- a", "notice='KILL' will not do: expected USR1"),
        ("--token-file missing.token -- a", "missing.token: there is no such file; expected a token"),
        ("--gpus 0 --share 0.5 -- a", "gpu_share=0.5 goes with one number of GPUs, 1 or more; got 0:0"),
        ("--gpus-range 1:2 --share 0.5 -- a", "gpu_share=0.5 goes with one number of GPUs, 1 or more; got 1"),
        ("--name a!b -- a", "name='a!b' will not do: expected letters, digits and _ . @ : + / -"),
        ("--array 5-1 -- a", "array '5-1': '5-1' is no range"),
        ("missing.yaml", "missing.yaml: there is no such file; expected a job file"),
        ("--sbatch missing.sh", "missing.sh: there is no such file; expected an sbatch script"),
    ],
)
def test_wrong(words: str, sentence: str, desk: Canned) -> None:
    """One sentence, and nothing is submitted."""
    done = rota("submit", *words.split())
    assert done.status == 2
    assert done.err.startswith("rota: " + sentence)
    assert done.err.count("\n") == 1
    assert desk.asked == []


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (job("1", "COMPLETED", exit_code=0), 0),
        (job("1", "FAILED", exit_code=3), 3),
        (job("1", "FAILED", signal=11), 139),
        (job("1", "OUT_OF_MEMORY", signal=9), 137),
        (job("1", "TIMEOUT", signal=15), 124),
        (job("1", "CANCELLED", signal=15), 130),
        (job("1", "NODE_FAIL"), 1),
    ],
)
def test_exit_codes(ended: JobView, code: int) -> None:
    assert exit_code(ended) == code


def story(*views: JobView) -> Callable[[Asked], JobView]:
    """One view after the other; the last one stays."""
    left = list(views)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_run(desk: Canned) -> None:
    """The output of all attempts, what happens in between, and the code of the end."""
    desk.replies["GET /v1/jobs/17/wait"] = story(
        job("17", reason="Resources"),
        job("17", "RUNNING", attempt=1),
        job("17", "SUSPENDED", attempt=1, cause="suspended for job 18"),
        job("17", "RUNNING", attempt=1),
        job("17", "PENDING", attempt=1, cause="preempted for job 18"),
        job("17", "RUNNING", attempt=2),
        job("17", "FAILED", attempt=2, end_s=NOW_S, exit_code=3, cause="rank 0 exited with code 3"),
    )
    desk.replies["GET /v1/jobs/17"] = DETAIL
    desk.replies["GET /v1/jobs/17/logs"] = log_of({(1, 0): "one\n", (2, 0): "twö\nno end"})
    done = rota("run", "--", "a")
    assert (done.status, done.out) == (3, "one\ntwö\nno end")
    assert done.err.splitlines() == [
        "rota: submitted job 17",
        "rota: job 17 waits: Resources; `rota why 17` says more",
        "rota: job 17 is suspended: suspended for job 18",
        "rota: job 17 runs again",
        "rota: job 17 was stopped and waits: preempted for job 18",
        "rota: job 17: attempt 2 begins: preempted for job 14",
        "rota: job 17 ended: failed, rank 0 exited with code 3",
    ]


def test_run_all_ranks(desk: Canned) -> None:
    """Each line behind its rank; lines are whole."""
    desk.replies["GET /v1/jobs/17/wait"] = job("17", "COMPLETED", attempt=2, end_s=NOW_S, exit_code=0)
    desk.replies["GET /v1/jobs/17"] = DETAIL
    ranks = {(1, rank): f"first {rank}\n" for rank in range(4)}
    desk.replies["GET /v1/jobs/17/logs"] = log_of({**ranks, (2, 0): "a\nb", (2, 1): "c\n"})
    done = rota("run", "--all-ranks", "--quiet", "--", "a")
    assert done.out == "".join(f"{rank}: first {rank}\n" for rank in range(4)) + "0: a\n1: c\n0: b\n"
    assert (done.status, done.err) == (0, "")


@pytest.mark.slow
def test_run_through_a_restart_of_the_controller(desk: Canned, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that is away for a while is waited for; the job goes on meanwhile."""
    monkeypatch.setattr("rota.cli.live.job_output.SLOW_S", 0.01)
    end = job("17", "COMPLETED", attempt=1, end_s=NOW_S, exit_code=0)
    answers: list[Any] = [job("17", "RUNNING", attempt=1), *[refusal(503, "the store is away")] * 2, end]
    desk.replies["GET /v1/jobs/17/wait"] = lambda _: answers.pop(0)
    desk.replies["GET /v1/jobs/17/logs"] = log_of({(1, 0): "all of it\n"})
    done = rota("run", "--quiet", "--", "a")
    assert (done.status, done.out) == (0, "all of it\n")
    assert done.err == "rota: the store is away; job 17 goes on, trying again\n"


@pytest.mark.parametrize(("state", "code"), [("TIMEOUT", 124), ("CANCELLED", 130)])
def test_run_waits_for_the_grace_of_a_job(state: str, code: int, desk: Canned) -> None:
    """What was told to end has an end on record at once, and writes on until its processes have gone."""
    desk.replies["GET /v1/jobs/17/wait"] = story(
        job("17", "RUNNING", attempt=1),
        job("17", "COMPLETING", attempt=1, end_s=NOW_S, cause="it has to go"),
        job("17", state, attempt=1, end_s=NOW_S, cause="it has to go"),
    )
    desk.replies["GET /v1/jobs/17/logs"] = log_of({(1, 0): "saved\n"})
    done = rota("run", "--quiet", "--", "a")
    assert done.status == code
    assert done.err == f"rota: job 17 ended: {state.lower()}, it has to go\n"


def test_run_refuses_arrays(desk: Canned) -> None:
    done = rota("run", "--array", "1-3", "--", "a")
    assert done.status == 2
    assert "use `rota submit`" in done.err
    assert desk.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_interrupts(times: int, desk: Canned) -> None:
    """The first Ctrl-C cancels the job, and its end is waited for; the second leaves."""
    gone = False

    def wait(call: Asked) -> JobView:
        time.sleep(min(float(call.query["wait_s"]), 0.05))
        ended = {"state": "CANCELLED", "end_s": NOW_S} if gone and times == 1 else {"state": "RUNNING"}
        return job("17", attempt=1, **ended)

    def cancel(_: Asked) -> JobView:
        nonlocal gone
        gone = True
        return job("17", "COMPLETING", attempt=1)

    desk.replies["GET /v1/jobs/17/wait"] = wait
    desk.replies["GET /v1/jobs/17/logs"] = log_of({(1, 0): "hello\n"})
    desk.replies["POST /v1/jobs/17/cancel"] = cancel
    process = subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "run", "--", "true"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "hello\n"
    process.send_signal(signal.SIGINT)
    said = [process.stderr.readline(), process.stderr.readline()]
    assert said == ["rota: submitted job 17\n", "rota: cancelling job 17; Ctrl-C again leaves it to itself\n"]
    if times == 2:
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert gone or times == 2
    if times == 1:
        assert err == "rota: job 17 ended: cancelled\n"
    else:
        assert err.startswith("rota: job 17 is left to itself; `rota attach 17` follows it again\n")


class GoneError(Exception):
    """Ends a call without an answer."""


def unanswered(_: Asked) -> Answer:
    raise GoneError


@pytest.mark.parametrize("command", ["submit", "run"])
@pytest.mark.parametrize("reply", [unanswered, refusal(503, "the database is out of reach")])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_submission_without_an_answer_names_its_key(desk: Canned, command: str, reply: Any) -> None:
    """Under which it may be on record; sent once more with that key, it is one job."""
    desk.replies["POST /v1/jobs"] = reply
    ended = rota(command, "--", "sleep", "1")
    assert ended.status == 1
    [key] = {body["key"] for body in desk.bodies("POST", "/v1/jobs")}
    assert (
        f"the job may be on record all the same, under the key {key}: the same command with --key {key}"
        in (" ".join(ended.err.split()))
    )
    desk.replies["POST /v1/jobs"] = SUBMITTED
    assert rota("submit", "--key", key, "--", "sleep", "1").out == "submitted job 17\n"


def test_a_submission_that_was_not_sent_names_none(desk: Canned, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is refused."""
    desk.replies["POST /v1/jobs"] = refusal(400, "no")
    assert "key" not in rota("submit", "--", "sleep", "1").err
    monkeypatch.setenv("ROTA_URL", "/nowhere/controller.sock")
    assert "key" not in rota("submit", "--", "sleep", "1").err


@pytest.mark.parametrize("quickly", [True, False])
def test_an_interrupted_submission_names_its_key(
    desk: Canned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quickly: bool
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    if quickly:
        monkeypatch.setattr("rota.cli.quick._call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            left_over(["submit", "--key", "k1", "--", "x"])
        said = capsys.readouterr().err
    else:
        monkeypatch.setattr("rota.client.Client.call", interrupted)
        said = rota("submit", "--key", "k1", "--", "x").err
    assert "under the key k1: the same command with --key k1" in " ".join(said.split())
