"""What becomes of jobs on a real cluster: ends and causes, limits, holds, order, arrays, updates, logs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster
from shared import FAST, attempts, detail, emptied, log_of, python, refused, written

from rota.cli.live.show import detail_text
from rota.model.reasons import Code
from rota.wire.views import JobDetail


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path_factory.mktemp("jobs"), devices="cpu:2", **FAST) as live:
        yield live


@pytest.fixture
def live(cluster: LiveCluster) -> Iterator[LiveCluster]:
    yield from emptied(cluster)


# -- how jobs end --------------------------------------------------------------------------------

ENDS = {
    "success": (["true"], "COMPLETED", 0, None, "finished"),
    "failure": (["sh", "-c", "exit 3"], "FAILED", 3, None, "rank 0 exited with code 3"),
    "crash": (["sh", "-c", "kill -SEGV $$"], "FAILED", None, 11, "rank 0 was ended by SIGSEGV"),
    "no program": (["/does/not/exist"], "FAILED", 127, None, "there is no file '/does/not/exist' to run"),
    "memory": (python("raise MemoryError"), "OUT_OF_MEMORY", 1, None, "out of memory"),
    "mistake": (python("import nothing_of_that_name"), "FAILED", 1, None, "error in the program"),
}


@pytest.mark.parametrize("how", ENDS)
def test_ends_are_told_apart(live: LiveCluster, how: str) -> None:
    """A program's own fault fails at once: one attempt."""
    command, state, code, number, cause = ENDS[how]
    job = live.wait(live.submit(*command))
    assert (job["state"], job["exit_code"], job["signal"]) == (state, code, number)
    assert cause in job["cause"]
    assert job["attempt"] == 1


def test_a_job_shorter_than_a_report_is_shown_as_it_was(live: LiveCluster) -> None:
    """What it used is known although nobody had the time to look at it, and it did not run for `0s`."""
    id = live.submit("true")
    assert live.wait(id)["run_s"] > 0
    (attempt,) = attempts(live, id)
    assert 0 < attempt["cpu_s"] < 5
    assert 0 < attempt["peak_gib"] < 1
    shown = detail_text(JobDetail.model_validate(detail(live, id)))
    assert "ran, waited  0s" not in shown
    assert " of CPU, " in shown


def test_a_fault_of_the_infrastructure_is_tried_again_after_a_pause(live: LiveCluster) -> None:
    code = "os.kill(os.getpid(), signal.SIGKILL) if os.environ['ROTA_ATTEMPT'] == '1' else None"
    id = live.submit(*python(code))
    assert live.wait(id)["state"] == "COMPLETED"
    first, second = attempts(live, id)
    assert first["end"] == "lost"
    assert "SIGKILL" in first["cause"]
    assert second["wanted_s"] - first["end_s"] >= 0.19


def test_retries_come_to_an_end(live: LiveCluster) -> None:
    id = live.submit(*python("os.kill(os.getpid(), signal.SIGKILL)"), retries=1)
    assert live.wait(id)["state"] == "NODE_FAIL"
    assert len(attempts(live, id)) == 2


def test_a_user_may_ask_for_retries_of_the_programs_own_faults(live: LiveCluster) -> None:
    id = live.submit("sh", "-c", '[ "$ROTA_ATTEMPT" = 2 ]', user_retries=2)
    assert live.wait(id)["state"] == "COMPLETED"
    assert [attempt["end"] for attempt in attempts(live, id)] == ["failed", "finished"]


def test_one_rank_that_fails_takes_the_others_along(live: LiveCluster) -> None:
    code = "sys.exit(7) if os.environ['RANK'] == '1' else time.sleep(600)"
    job = live.wait(live.submit(*python(code), gpus=2))
    assert (job["state"], job["exit_code"]) == ("FAILED", 7)
    assert "rank 1" in job["cause"]


# -- going -----------------------------------------------------------------------------------------

DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write("ready")
time.sleep(600)
"""
GOES = """
told = {signal.SIGUSR1, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, told)
open(sys.argv[1], "a").write("ready\\n")
while True:
    number = signal.sigwait(told)  # one after the other, however late it gets to run
    notice = open(os.environ["ROTA_NOTICE_FILE"]).read()
    open(sys.argv[1], "a").write(number.name + " " + notice + "\\n")
    number == signal.SIGTERM and sys.exit(1)
"""


def test_the_time_limit_ends_a_job(live: LiveCluster) -> None:
    job = live.wait(live.submit("sleep", "600", time_s=1.0))
    assert job["state"] == "TIMEOUT"
    assert job["cause"] == "reached its time limit of 1s"


def test_the_notice_signal_comes_before_sigterm(live: LiveCluster, tmp_path: Path) -> None:
    id = live.submit(*python(GOES, tmp_path / "said"), notice_signal="USR1", notice_s=0.4)
    written(live, tmp_path / "said", "ready")
    began = time.monotonic()
    live.act(id, "cancel", reason="enough")
    assert live.wait(id)["state"] == "CANCELLED"
    assert time.monotonic() - began >= 0.4
    usr1, term = (tmp_path / "said").read_text().splitlines()[1:]
    assert usr1.startswith('SIGUSR1 {"reason": "cancelled"')
    assert "enough" in usr1
    assert term.startswith("SIGTERM")


def test_grace_is_the_time_between_sigterm_and_sigkill(live: LiveCluster, tmp_path: Path) -> None:
    id = live.submit(*python(DEAF, tmp_path / "said"), grace_s=0.7)
    written(live, tmp_path / "said", "ready")
    began = time.monotonic()
    live.act(id, "cancel")
    job = live.wait(id)
    assert (job["state"], job["signal"]) == ("CANCELLED", 9)
    assert time.monotonic() - began >= 0.7


def test_force_knows_no_grace(live: LiveCluster, tmp_path: Path) -> None:
    id = live.submit(*python(DEAF, tmp_path / "said"), grace_s=600)
    written(live, tmp_path / "said", "ready")
    live.act(id, "cancel")
    assert live.job(id)["state"] == "COMPLETING"
    live.act(id, "cancel", force=True)
    assert live.wait(id)["signal"] == 9


# -- before they start -------------------------------------------------------------------------------


def test_hold_and_release(live: LiveCluster) -> None:
    id = live.submit("true", hold=True)
    live.until(lambda: live.job(id)["reason"] == Code.HELD, "a job that is held")
    live.act(id, "release")
    assert live.wait(id)["state"] == "COMPLETED"
    running = live.submit("sleep", "600")
    live.reaches(running, "RUNNING")
    assert "it is running" in str(refused(live, "POST", f"/v1/jobs/{running}/hold", {}))


def test_a_job_begins_not_before_its_time(live: LiveCluster) -> None:
    begin_s = time.time() + 0.6
    id = live.submit("true", begin_s=begin_s)
    job = live.wait(id)
    assert job["start_s"] >= begin_s - 0.01


FOLLOWERS = {
    "ok after success": ("true", "ok", "COMPLETED"),
    "ok after failure": ("false", "ok", "CANCELLED"),
    "any after failure": ("false", "any", "COMPLETED"),
    "failed after failure": ("false", "failed", "COMPLETED"),
    "failed after success": ("true", "failed", "CANCELLED"),
}


@pytest.mark.parametrize("how", FOLLOWERS)
def test_a_job_after_another(live: LiveCluster, tmp_path: Path, how: str) -> None:
    program, when, state = FOLLOWERS[how]
    first = live.submit("sh", "-c", f"until [ -e {tmp_path / 'go'} ]; do sleep 0.02; done; {program}")
    second = live.submit("true", after=[{"job": first, "when": when}])
    live.reaches(first, "RUNNING")
    assert live.job(second)["state"] == "PENDING"
    (tmp_path / "go").touch()
    job = live.wait(second)
    assert job["state"] == state
    if state == "CANCELLED":
        assert f"job {first}, which it was to run after, did not end as asked" in job["cause"]
    else:
        assert job["start_s"] >= live.job(first)["end_s"] - 0.05


def test_an_array_runs_as_many_at_once_as_it_says(live: LiveCluster, tmp_path: Path) -> None:
    code = """
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(out, b"+"); time.sleep(0.2); os.write(out, b"-")
open(sys.argv[1] + os.environ["ROTA_ARRAY_INDEX"], "w").write(os.environ["ROTA_ARRAY_JOB_ID"])
"""
    id = live.submit(*python(code, tmp_path / "said"), array="3-6%1")
    first = id.partition("_")[0]
    assert [live.wait(f"{first}_{index}")["state"] for index in (3, 4, 5, 6)] == ["COMPLETED"] * 4
    assert (tmp_path / "said").read_text() == "+-" * 4
    assert [(tmp_path / f"said{index}").read_text() for index in (3, 4, 5, 6)] == [first] * 4


def test_a_job_after_an_array(live: LiveCluster, tmp_path: Path) -> None:
    """And what is asked of an array that is not there is refused."""
    work = f"until [ -e {tmp_path / 'go'} ]; do sleep 0.02; done; [ $ROTA_ARRAY_INDEX != 2 ]"
    array = live.submit("sh", "-c", work, array="1-3").partition("_")[0]
    assert f"{array} is an array; name one of its jobs" in str(refused(live, "GET", f"/v1/jobs/{array}/why"))
    finished, ended = (live.submit("true", after=[{"job": array, "when": when}]) for when in ("ok", "any"))
    said = "waits for 3 of the 3 jobs"
    live.until(lambda: said in live.why(ended)["reasons"][0]["sentence"], "what it waits for is on record")
    (tmp_path / "go").touch()
    assert (live.wait(finished)["state"], live.wait(ended)["state"]) == ("CANCELLED", "COMPLETED")
    last_s = max(live.job(f"{array}_{index}")["end_s"] for index in (1, 2, 3))
    assert live.job(ended)["start_s"] >= last_s - 0.05
    spec = {"command": ["true"], "after": [{"job": "99999"}]}
    error = refused(live, "POST", "/v1/jobs", {"spec": spec})
    assert "there is no job '99999'" in str(error)


def test_what_is_done_to_an_array_is_done_to_its_jobs(live: LiveCluster, tmp_path: Path) -> None:
    """In one command; those that have ended are counted, and a job beside it runs on."""
    code = f"[ $ROTA_ARRAY_INDEX = 1 ] || until [ -e {tmp_path / 'go'} ]; do sleep 0.02; done"
    first = live.submit("sh", "-c", code, array="1-3")
    array, beside = first.partition("_")[0], live.submit("sleep", "600", hold=True)
    live.wait(first)
    live.reaches(f"{array}_2", "RUNNING")
    held = live.act(array, "suspend")
    assert (held["array"], held["ended"], held["refused"]) == (array, 1, [])
    assert [job["id"] for job in held["jobs"]] == [f"{array}_2", f"{array}_3"]
    live.act(array, "resume")
    done = live.act(array, "cancel", reason="enough")
    assert len(done["jobs"]) == 2
    assert {live.wait(job["id"])["state"] for job in done["jobs"]} == {"CANCELLED"}
    events = [event for event in live.client.call("GET", "/v1/events") if event["kind"] == "cancel"]
    assert {event["job"] for event in events[-2:]} == {f"{array}_2", f"{array}_3"}
    again = live.act(array, "cancel")
    assert (again["jobs"], again["ended"]) == ([], 3)
    assert f"all jobs of array {array} have ended" in str(refused(live, "POST", f"/v1/jobs/{array}/hold", {}))
    assert live.job(beside)["state"] == "PENDING"
    live.act(beside, "cancel")


def test_a_trial_catches_what_fails_at_once(tmp_path: Path) -> None:
    """At once: before a trial is over that is longer than any start takes."""
    code = "open(sys.argv[1], 'a').write(os.environ['WORLD_SIZE'] + '\\n'); sys.exit(4)"
    with LiveCluster(tmp_path, devices="cpu:2", trial=600.0) as live:
        job = live.wait(live.submit(*python(code, tmp_path / "said"), gpus=2, trial=True))
    assert (job["state"], job["exit_code"]) == ("FAILED", 4)
    assert "in its trial on one device" in job["cause"]
    assert (tmp_path / "said").read_text() == "1\n"


def test_who_passes_the_trial_gets_what_it_asked_for(live: LiveCluster) -> None:
    id = live.submit(*python('os.environ["WORLD_SIZE"] == "1" and time.sleep(600)'), gpus=2, trial=True)
    assert live.wait(id)["state"] == "COMPLETED"
    assert [len(attempt["devices"]) for attempt in attempts(live, id)] == [1, 2]


# -- changes ---------------------------------------------------------------------------------------


def test_a_running_job_gets_another_limit(live: LiveCluster, tmp_path: Path) -> None:
    """It hears why it has to go."""
    id = live.submit(*python(GOES, tmp_path / "said"))
    written(live, tmp_path / "said", "ready")
    live.client.call("PATCH", f"/v1/jobs/{id}", {"time_s": 0.5, "comment": "shorter"})
    assert live.wait(id)["state"] == "TIMEOUT"
    assert 'SIGTERM {"reason": "timeout"' in (tmp_path / "said").read_text()
    assert detail(live, id)["spec"]["comment"] == "shorter"
    assert len(attempts(live, id)) == 1


def test_a_waiting_job_gets_another_size(live: LiveCluster) -> None:
    blocker = live.submit("sleep", "600")
    live.reaches(blocker, "RUNNING")
    id = live.submit("true", gpus=2)
    assert live.job(id)["state"] == "PENDING"
    live.client.call("PATCH", f"/v1/jobs/{id}", {"gpus_min": 1, "name": "smaller"})
    spec = detail(live, id)["spec"]
    assert (spec["gpus_min"], spec["gpus"], spec["name"]) == (1, 2, "smaller")
    live.act(blocker, "cancel")
    assert live.wait(id)["name"] == "smaller"


def test_drain_lets_jobs_run_on_and_no_others_in(live: LiveCluster, tmp_path: Path) -> None:
    code = "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"
    running = live.submit(*python(code, tmp_path / "go"))
    live.reaches(running, "RUNNING")
    live.client.call("POST", "/v1/nodes/n1/drain", {"reason": "new fan"})
    try:
        waiting = live.submit("true")
        (node,) = live.client.call("GET", "/v1/nodes")
        assert node["state"] in ("draining", "drained")
        assert node["reason"] == "new fan"
        (tmp_path / "go").touch()
        assert live.wait(running)["state"] == "COMPLETED"
        assert live.job(waiting)["state"] == "PENDING"
    finally:
        live.client.call("POST", "/v1/nodes/n1/undrain", {})
    assert live.wait(waiting)["state"] == "COMPLETED"


# -- stopping in place -------------------------------------------------------------------------------

COUNTS = """
while True:
    open(sys.argv[1], "a").write(".")
    time.sleep(0.02)
"""


def test_a_suspended_job_goes_on_where_it_was_on_another_slot(live: LiveCluster, tmp_path: Path) -> None:
    """The same processes: what they had in memory is still there."""
    file = tmp_path / "count"
    id = live.submit(*python(COUNTS, file))
    written(live, file, "...")
    (where,) = live.reaches(id, "RUNNING")["devices"]
    live.act(id, "suspend")
    live.reaches(id, "SUSPENDED")
    other = live.submit("sleep", "600")  # takes the slot, the first free one
    assert live.reaches(other, "RUNNING")["devices"] == [where]
    before = file.stat().st_size
    live.act(id, "resume")
    assert live.reaches(id, "RUNNING")["devices"] != [where]
    live.until(lambda: file.stat().st_size > before, "the job goes on")
    assert len(attempts(live, id)) == 1


def test_a_suspended_job_may_be_cancelled(live: LiveCluster, tmp_path: Path) -> None:
    id = live.submit(*python(GOES, tmp_path / "said"))
    written(live, tmp_path / "said", "ready")
    live.act(id, "suspend")
    live.reaches(id, "SUSPENDED")
    live.act(id, "cancel")
    assert live.wait(id)["state"] == "CANCELLED"
    assert 'SIGTERM {"reason": "cancelled"' in (tmp_path / "said").read_text()


def test_requeue_starts_it_again(live: LiveCluster) -> None:
    id = live.submit("sleep", "600")
    live.reaches(id, "RUNNING")
    live.act(id, "requeue")
    live.until(
        lambda: attempts(live, id)[-1]["number"] == 2 and attempts(live, id)[-1]["start_s"], "attempt 2"
    )
    assert attempts(live, id)[0]["end"] == "preempted"


# -- what ranks see, and logs ------------------------------------------------------------------------


def test_ranks_see_what_torchrun_would_show_them(live: LiveCluster) -> None:
    names = (
        "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR ROTA_GPUS CUDA_VISIBLE_DEVICES"
        " ROTA_LOCAL_DEVICES"
    )
    code = f"print(*(os.environ[n] or '-' for n in '{names}'.split()), len(os.sched_getaffinity(0)))"
    id = live.submit(*python(code), gpus=2)
    live.wait(id)
    assert log_of(live, id, rank=0) == "0 0 2 2 127.0.0.1 2 - 0 1\n"
    assert log_of(live, id, rank=1) == "1 1 2 2 127.0.0.1 2 - 1 1\n"


def test_a_log_can_be_followed_while_it_grows(live: LiveCluster, tmp_path: Path) -> None:
    code = """
print("one", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
print("two", flush=True)
"""
    id = live.submit(*python(code, tmp_path / "go"))
    first = followed(live, id, 0)
    assert first["text"] == "one\n"
    (tmp_path / "go").touch()
    assert followed(live, id, first["offset"] + len(first["text"]))["text"] == "two\n"
    live.wait(id)
    assert log_of(live, id) == "one\ntwo\n"
    assert "it has no rank" in str(
        refused(live, "GET", f"/v1/jobs/{id}/logs?rank=5")
    ) or "has no rank 5" in str(refused(live, "GET", f"/v1/jobs/{id}/logs?rank=5"))


def followed(live: LiveCluster, id: str, offset: int) -> dict[str, Any]:
    """A piece of a log, as soon as there is one."""
    path = f"/v1/jobs/{id}/logs?offset={offset}&wait_s=60"
    piece: dict[str, Any] = live.client.call("GET", path, timeout_s=90.0)
    return piece


def test_output_in_files_of_the_users_choice(live: LiveCluster, tmp_path: Path) -> None:
    """By job and rank, from the job's folder; its log has the same, and a file that cannot be is named."""
    (tmp_path / "logs").mkdir()
    command = ["sh", "-c", "echo out; echo err >&2"]
    asked = {"workdir": str(tmp_path), "output": "logs/%x-%j-%t.out", "error": "logs/%j%%.err"}
    id = live.submit(*command, gpus=2, name="a", **asked)
    assert live.wait(id)["state"] == "COMPLETED"
    found = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert found == {f"a-{id}-0.out": "out\n", f"a-{id}-1.out": "out\n", f"{id}%.err": "err\nerr\n"}
    assert sorted(log_of(live, id, rank=1).splitlines()) == ["err", "out"]
    id = live.submit(*command, workdir=str(tmp_path), output="no/such/folder")
    assert live.wait(id)["state"] == "FAILED"
    assert "/no/such/folder' cannot be written on this machine: No such file" in live.job(id)["cause"]


def test_logs_have_a_limit_by_tenant(tmp_path: Path) -> None:
    """The beginning and the end of a log are kept, and the program that writes too much runs on."""
    with LiveCluster(tmp_path, caps={"log_mib": 2, "tenants": {"vision": {"log_mib": 1}}}) as live:
        command = ["sh", "-c", "echo first; yes | head -c 5000000; echo last"]
        for tenant, most in (("speech", 2 << 20), ("vision/ann", 1 << 20)):
            id = live.submit(*command, tenant=tenant)
            assert live.wait(id)["state"] == "COMPLETED"
            row = int(id) - 1
            text = (live.agent_home() / f"attempts/{row}/1/logs/rank-0.log").read_text()
            assert text.startswith("first\ny\n")
            assert text.endswith("y\nlast\n")
            assert most <= len(text) < most + 200
            assert f"bytes are left out here: this file may have {most}\n" in text


def test_wait_returns_when_a_job_ends(live: LiveCluster) -> None:
    id = live.submit("sleep", "0.3")
    began = time.monotonic()
    assert live.client.call("GET", f"/v1/jobs/{id}/wait?wait_s=60", timeout_s=90.0)["state"] == "COMPLETED"
    assert time.monotonic() - began < 55, "not only when its patience is over"


# -- preemption ------------------------------------------------------------------------------------


def test_a_successor_waits_until_its_predecessor_has_left(tmp_path: Path) -> None:
    """The device is free in the controller's table at once; on the machine one comes after the other."""
    slow = """
def go(number, frame):
    time.sleep(0.6)
    open(sys.argv[1], "a").write("left\\n")
    sys.exit(85)
signal.signal(signal.SIGTERM, go)
open(sys.argv[1], "a").write("began\\n")
time.sleep(600)
"""
    with LiveCluster(tmp_path, devices="cpu:1", policy="srtf", knowledge="duration=user") as live:
        first = live.submit(*python(slow, tmp_path / "said"), checkpoint="own", time_s=600.0)
        written(live, tmp_path / "said", "began")
        second = live.submit("sh", "-c", f"echo second >> {tmp_path / 'said'}", time_s=60.0)
        assert live.wait(second)["state"] == "COMPLETED"
        assert (tmp_path / "said").read_text().splitlines()[:3] == ["began", "left", "second"]
        live.until(lambda: len(attempts(live, first)) == 2, "a second attempt")
        gone = attempts(live, first)[0]
        assert (gone["exit_code"], gone["end"]) == (85, "preempted")
        assert gone["cause"].startswith(f"preempted for job {second}")
