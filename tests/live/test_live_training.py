"""Programs that import `rota.training` on a real cluster: sent away, restored, resized; with any Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster
from shared import attempts, detail, emptied, log_of, python, refused, written

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
LOOP = """
import rota.training as rota
job = rota.attach(state={"x": 1}, checkpoint_every_steps=2)
for step in job.steps(10**6):
    if os.path.exists(sys.argv[1] + ".go"):
        break
    time.sleep(0.02)
    open(sys.argv[1], "a").write(f"{os.environ['ROTA_ATTEMPT']} {step}\\n")
    job.step(samples=1)
job.finish()
"""
"""Goes on until the test has seen what it waits for; its file has a line `attempt step` for each step."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path_factory.mktemp("training"), devices="cpu:2", back_off=0.2) as live:
        yield live


@pytest.fixture
def live(cluster: LiveCluster) -> Iterator[LiveCluster]:
    yield from emptied(cluster)


def steps(live: LiveCluster, id: str) -> int:
    """Steps of the newest attempt, as it says itself."""
    folder = live.agent_home() / "attempts" / str(live.job(id)["row"])
    newest = max((int(path.name) for path in folder.glob("[0-9]*")), default=0)
    return max((state.step for state in states(folder / str(newest) / "training")), default=0)


def states(folder: Path) -> list[Any]:
    """What the ranks of an attempt last said."""
    from rota.training import protocol

    return list(protocol.ranks(folder, range(8)).values()) if folder.exists() else []


@pytest.mark.soak
@pytest.mark.parametrize(
    "program", [[sys.executable, "-S"], ["/usr/bin/python3", "-I", "-S"]], ids=["S", "system"]
)
def test_a_python_without_rota_can_import_it(live: LiveCluster, program: list[str]) -> None:
    if not Path(program[0]).exists():
        pytest.skip(f"{program[0]} is not on this machine")
    program = [flag for flag in program if flag != "-I"]  # isolated: it would not look at PYTHONPATH
    code = "import rota.training as t, os; print(t.VERSION, t.__file__.startswith(os.environ['PYTHONPATH']))"
    id = live.submit(*program, "-c", code)
    assert live.wait(id)["state"] == "COMPLETED", log_of(live, id)
    assert log_of(live, id) == "1 True\n"


def test_a_program_sent_away_goes_on_from_its_checkpoint(live: LiveCluster, tmp_path: Path) -> None:
    """Told to go it checkpoints and leaves with 85; the next attempt restores it: no step is done twice."""
    said = tmp_path / "said"
    id = live.submit(*python(LOOP, said), ranks="node")
    written(live, said, "1 5\n")
    live.until(
        lambda: (detail(live, id)["capability"] or {}).get("checkpoint"), "it says that it can do that"
    )
    live.act(id, "requeue")
    written(live, said, "\n2 ")
    (tmp_path / "said.go").touch()
    assert live.wait(id)["state"] == "COMPLETED", log_of(live, id)
    first, _ = attempts(live, id)
    assert (first["exit_code"], first["end"]) == (85, "preempted"), first
    done = [int(line.split()[1]) for line in said.read_text().splitlines()]
    assert done == list(range(len(done))), "a step is missing or was done twice"


LEARNER = """
import rota.training as rota
job = rota.attach(state={"x": 1}, batch_size=8, statistics=lambda: 1000.0, batch_every_s=0.2)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
    job.step()
job.finish()
"""
"""Its steps take as long whatever its batch, and its gradient is noisy: the largest batch is the best."""


def test_a_job_chooses_its_batch_within_the_range_it_was_submitted_with(
    live: LiveCluster, tmp_path: Path
) -> None:
    """What it measures is on record by size: where it ran, and what follows for two slots."""
    id = live.submit(*python(LEARNER, tmp_path / "go"), batch_size=8, batch_min=8, batch_max=64, gpus_max=2)
    live.until(
        lambda: any(one["batch_size"] == 64 for one in detail(live, id)["sizes"]),
        "the largest batch is on record",
    )
    sizes = detail(live, id)["sizes"]
    told = {one["gpus"]: one["provenance"] for one in sizes}
    assert told == {1: "measured", 2: "predicted"}
    best = next(one for one in sizes if one["batch_size"] == 64)
    assert best["goodput"] == pytest.approx(best["speed"] * 1008 / 1064)
    (tmp_path / "go").touch()
    assert live.wait(id)["state"] == "COMPLETED", log_of(live, id)


def test_its_user_gives_it_another_device_and_it_goes_on(live: LiveCluster, tmp_path: Path) -> None:
    """It leaves by its checkpoint and starts again on two; a program that saves nothing is left alone."""
    said = tmp_path / "said"
    id = live.submit(*python(LOOP, said), ranks="node")
    written(live, said, "1 5\n")
    live.until(lambda: (detail(live, id)["capability"] or {}).get("checkpoint"), "it says that it saves")
    live.client.call("PATCH", f"/v1/jobs/{id}", {"gpus": 2})
    written(live, said, "\n2 ")
    view = live.reaches(id, "RUNNING")
    assert (view["gpus"], view["gpus_now"]) == (2, 2)
    said_why = [reason["sentence"] for reason in live.why(id)["reasons"]]
    assert any("from 1 to 2 devices: it goes on from its checkpoint" in sentence for sentence in said_why)
    (tmp_path / "said.go").touch()
    assert live.wait(id)["state"] == "COMPLETED", log_of(live, id)
    first, _ = attempts(live, id)
    assert "resized by" in first["cause"]
    done = [int(line.split()[1]) for line in said.read_text().splitlines()]
    assert done == list(range(len(done))), "a step is missing or was done twice"


@pytest.mark.soak
def test_a_program_that_saves_nothing_is_not_resized(live: LiveCluster) -> None:
    id = live.submit("sleep", "600")
    live.reaches(id, "RUNNING")
    live.until(lambda: live.why(id)["reasons"][0]["code"] == "Running", "it has begun")
    error = refused(live, "PATCH", f"/v1/jobs/{id}", {"gpus": 2})
    assert f"its program saves nothing, so it would begin anew; if that is meant, `rota requeue {id}`" in str(
        error
    )
    assert "the cluster has 2 it could use" in str(refused(live, "PATCH", f"/v1/jobs/{id}", {"gpus": 3}))
    assert live.job(id)["gpus"] == 1
    live.client.call("PATCH", f"/v1/jobs/{id}", {"gpus_min": 1, "gpus_max": 2})
    assert live.job(id)["state"] == "RUNNING", "it may have what it has"
    assert len(attempts(live, id)) == 1


def test_a_suspended_program_goes_on_in_memory(live: LiveCluster, tmp_path: Path) -> None:
    said = tmp_path / "said"
    id = live.submit(*python(LOOP, said), ranks="node")
    written(live, said, "1 5\n")
    live.until(lambda: (detail(live, id)["capability"] or {}).get("training"), "it says what it is")
    live.act(id, "suspend")
    live.reaches(id, "SUSPENDED")
    at = steps(live, id)
    until_s = time.monotonic() + 0.3
    live.until(lambda: time.monotonic() > until_s, "some time")
    assert steps(live, id) == at == said.read_text().count("\n")
    live.act(id, "resume")
    written(live, said, f"1 {at}\n")
    (tmp_path / "said.go").touch()
    assert live.wait(id)["state"] == "COMPLETED"
    assert len(attempts(live, id)) == 1


@pytest.mark.soak
def test_two_jobs_take_turns_on_one_slot(tmp_path: Path) -> None:
    """Preempted in memory, again and again, both come to their end in one attempt each."""
    with LiveCluster(tmp_path, devices="cpu:1", policy="las:quantum=0.4") as live:
        files = [tmp_path / "one", tmp_path / "two"]
        ids = [live.submit(*python(LOOP, file), ranks="node") for file in files]
        for id, file in zip(ids, files, strict=True):
            written(live, file, "1 5\n")
            live.until(lambda id=id: live.job(id)["preemptions"], "it has been preempted")  # type: ignore[misc]
        for file in files:
            Path(f"{file}.go").touch()
        for id, file in zip(ids, files, strict=True):
            assert live.wait(id)["state"] == "COMPLETED", log_of(live, id)
            done = [int(line.split()[1]) for line in file.read_text().splitlines()]
            assert done == list(range(len(done))), "a step is missing or was done twice"


WAITS = """
import runpy
go, nap, naps = sys.argv[1], time.sleep, []
def sleep(seconds):
    nap(seconds)
    if sys._getframe(1).f_globals["__name__"] == "__main__":
        naps.append(seconds)
        while len(naps) > 2 and not os.path.exists(go): nap(0.02)
time.sleep = sleep
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program that sleeps once in each step; in its third step until the test says go."""


@pytest.mark.slow
def test_a_job_is_resized_and_uses_each_sample_once(tmp_path: Path) -> None:
    """Two workers become one when another job needs room; the epoch goes on where it was."""
    pytest.importorskip("torch")
    program = python(WAITS, tmp_path / "go", EXAMPLES / "ddp_elastic.py", "--epochs", 2, "--samples", 48)
    program += ["--batch-size", "8", "--step-s", "0.05", "--used", str(tmp_path / "used")]
    with LiveCluster(tmp_path, devices="cpu:2", policy="afs") as live:
        id = live.submit(*program, gpus=2, gpus_min=1, gpus_max=2, batch_size=8.0)
        live.until(
            lambda: (detail(live, id)["capability"] or {}).get("resize"), "it says that it can do that"
        )
        written(live, tmp_path / "used.0", "\n0 1 ")
        other = live.submit("sleep", "600")
        live.until(lambda: live.job(id)["gpus_now"] == 1, "one worker is to go on")
        (tmp_path / "go").touch()
        live.reaches(other, "RUNNING")
        assert live.wait(id)["state"] == "COMPLETED", log_of(live, id)
        ends = [(attempt["end"], len(attempt["devices"])) for attempt in attempts(live, id)]
        assert ends == [("resized", 2), ("finished", 1)], attempts(live, id)
    used: dict[int, list[int]] = {0: [], 1: []}
    for file in tmp_path.glob("used.*"):
        for line in file.read_text().splitlines():
            epoch, _, *numbers = map(int, line.split())
            used[epoch] += numbers
    assert [sorted(numbers) for numbers in used.values()] == [list(range(48))] * 2


@pytest.mark.soak
def test_a_checkpoint_that_is_spoilt_is_passed_over(live: LiveCluster, tmp_path: Path) -> None:
    id = live.submit(*python(LOOP, tmp_path / "said"), ranks="node", retries=3)
    written(live, tmp_path / "said", "1 9\n")
    folder = live.agent_home() / "checkpoints" / str(live.job(id)["row"]) / "1"
    live.act(id, "suspend")
    live.reaches(id, "SUSPENDED")
    complete = sorted(path for path in folder.rglob("*") if path.is_file())
    newest = max(complete, key=lambda path: path.stat().st_mtime)
    newest.write_bytes(newest.read_bytes()[:-7] + b"garbage")
    for shim in _shims(live):
        shim.kill()
    live.act(id, "resume")
    written(live, tmp_path / "said", "\n2 ")
    (tmp_path / "said.go").touch()
    assert live.wait(id)["state"] == "COMPLETED", log_of(live, id)
    began = [line for line in (tmp_path / "said").read_text().splitlines() if line.startswith("2 ")]
    assert began[0] != "2 0", "the checkpoint before the spoilt one was used"


def _shims(live: LiveCluster) -> list[Any]:
    import psutil

    ours = str(live.home)
    return [
        one
        for one in psutil.process_iter(["name", "cmdline"])
        if one.info["name"] == "rota-shim" and any(ours in word for word in one.info["cmdline"] or ())
    ]
