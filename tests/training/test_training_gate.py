"""The gate costs microseconds, and each directive does what its name says at one step boundary."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rota.training as training
from rota.training import protocol, torch_state
from training_kit import EXAMPLES, ROOT, Gang, needs_torch, until

HERE = ROOT / "tests" / "training"
STEPPER = HERE / "stepper.py"


@pytest.fixture(autouse=True)
def outside_rota(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "ROTA_TRAINING_DIR", "ROTA_CHECKPOINT_DIR", "ROTA_RESTORE_DIRS"):
        monkeypatch.delenv(name, raising=False)


def gang(folder: Path, steps: int = 10**9, pace_s: float = 0.002, size: int = 1, **more: object) -> Gang:
    command = ["-S", STEPPER, str(steps), str(pace_s)]
    env = {"STEP_LOG": str(folder / "steps")}
    return Gang(folder, command, size, checkpoints=folder / "checkpoints", env=env, **more)  # type: ignore[arg-type]


def test_outside_rota_a_step_costs_little() -> None:
    """No folder, no file, a few microseconds (generous: machines differ)."""
    job = training.attach(state={})
    began = time.thread_time()
    for _ in range(20_000):
        job.step(samples=1)
    assert (time.thread_time() - began) / 20_000 < 20e-6
    assert (job.step_count, job.world_size, job.should_leave, job.batch_size) == (20_000, 1, False, None)


def test_inside_rota_a_step_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing asked: one word is read; half-second reports included."""
    protocol.prepare(tmp_path)
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(tmp_path))
    job = training.attach(state={})
    began = time.thread_time()
    for _ in range(20_000):
        job.step(samples=1)
    assert (time.thread_time() - began) / 20_000 < 20e-6
    assert protocol.ranks(tmp_path, [0])[0].state == "running"


@needs_torch
@pytest.mark.filterwarnings("error")
def test_a_loss_that_has_a_gradient_is_told_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the example of the page gives it, after `backward`."""
    import torch

    protocol.prepare(tmp_path)
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(tmp_path))
    job = training.attach(state={})
    loss = (torch.ones(2, requires_grad=True) * 3.0).sum()
    job.step(loss=loss, samples=1)
    assert protocol.ranks(tmp_path, [0])[0].loss == 6.0
    assert loss.requires_grad


@pytest.mark.parametrize(
    ("started_s", "ready"),
    [
        (lambda: f"{time.time() - 5.0:.6f}", True),
        (lambda: None, False),
        (lambda: "yesterday", False),
        (lambda: "nan", False),
    ],
    ids=["5 s ago", "outside", "nonsense", "nan"],
)
def test_ready_counts_from_the_command_to_the_first_step(
    started_s: Callable[[], str | None], ready: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured once, by the program itself, and not again at later steps."""
    protocol.prepare(tmp_path)
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(tmp_path))
    monkeypatch.delenv("ROTA_STARTED_S", raising=False)
    if (said := started_s()) is not None:
        monkeypatch.setenv("ROTA_STARTED_S", said)
    job = training.attach(state={})
    assert "ready" not in protocol.ranks(tmp_path, [0])[0].costs
    job.step()
    first = protocol.ranks(tmp_path, [0])[0].costs.get("ready")
    assert (first is not None) == ready
    if first is not None:
        assert 5.0 <= first[0] < 65.0
    time.sleep(0.02)
    job.step()
    job.finish()
    assert protocol.ranks(tmp_path, [0])[0].costs.get("ready") == first


@pytest.mark.parametrize("do", ["pause", "suspend"])
def test_pause_and_resume(do: str, tmp_path: Path) -> None:
    """A stopped program does no step; it goes on where it stood, and finishes."""
    with gang(tmp_path) as one:
        one.wait_states("running", step=1)
        number = one.tell(do)
        (state,) = one.wait_states("paused" if do == "pause" else "suspended", sequence=number)
        lines = (tmp_path / "steps.0").read_text().count("\n")
        time.sleep(0.05)
        assert (tmp_path / "steps.0").read_text().count("\n") == lines == state.step == state.at_step
        if do == "suspend":  # on a CPU there is nothing to move, and it says so
            assert state.costs["suspend"][1] == state.suspended_bytes == state.residual_bytes == 0
        number = one.tell("resume")
        one.wait_states("running", sequence=number, step=state.step + 1)
        (tmp_path / "steps.0.end").touch()
        assert one.wait() == [0], one.log()
        assert one.states()[0].state == "finished"
        steps = [int(line.split()[0]) for line in (tmp_path / "steps.0").read_text().splitlines()]
        assert steps == list(range(one.states()[0].step))


def test_leave_and_restart(tmp_path: Path) -> None:
    """85 with a checkpoint of that very step; the next attempt does the rest, random numbers included."""
    with gang(tmp_path, pace_s=0.004) as one:
        one.wait_states("running", step=1)
        one.tell("leave", reason="preempted by job 12")
        assert one.wait() == [85], one.log()
        assert "preempted by job 12" in one.log()
        (state,) = one.states()
        assert state.state == "leaving"
        assert state.checkpoint_step == state.step
        assert state.costs["checkpoint"][1] > 0
    with gang(tmp_path, steps=state.step + 20, pace_s=0) as one:
        one.tell("run")
        assert one.wait() == [0]
        (again,) = one.states()
        assert again.costs["restore"][1] > 0
    steps = [int(line.split()[0]) for line in (tmp_path / "steps.0").read_text().splitlines()]
    assert steps == list(range(state.step + 20))


def test_pause_ends_by_leaving_at_its_deadline(tmp_path: Path) -> None:
    """Only if the directive has one."""
    with gang(tmp_path) as one:
        one.wait_states("running", step=1)
        one.tell("suspend", deadline_s=time.time() + 0.3)
        assert one.wait() == [85], one.log()
        assert one.states()[0].checkpoint_step == one.states()[0].step


def test_batch_size_and_checkpoint(tmp_path: Path) -> None:
    """Both are obeyed in passing."""
    with gang(tmp_path) as one:
        one.wait_states("running", step=1)
        number = one.tell("batch_size", batch_size=16)
        assert one.wait_states("running", sequence=number)[0].batch_size == 16
        number = one.tell("checkpoint")
        (state,) = one.wait_states("running", sequence=number)
        assert state.checkpoint_step is not None
        one.tell("leave")
        assert one.wait() == [85], one.log()
    batches = [line.split()[2] for line in (tmp_path / "steps.0").read_text().splitlines()]
    assert batches[0] == "8"
    assert batches[-1] == "16"


def test_plain_ranks_stop_at_one_step(tmp_path: Path) -> None:
    """Two ranks of different speed and no process group: announced, agreed by the agent, ten times."""
    with gang(tmp_path, size=2) as two:
        two.wait_states("running", step=1)
        for _ in range(10):
            number = two.tell("pause")
            states = two.wait_states("paused", sequence=number)
            assert states[0].at_step == states[1].at_step
            number = two.tell("run")
            two.wait_states("running", sequence=number)
        two.tell("leave")
        assert two.wait() == [85, 85], two.log()
        assert len({state.step for state in two.states()}) == 1


def test_a_directive_taken_back_before_it_was_agreed(tmp_path: Path) -> None:
    """The ranks run on, and the next directive is agreed as any other."""
    with gang(tmp_path, size=2) as two:
        until(lambda: len(two.states()) == 2 and all(one.step > 0 for one in two.states()), lambda: "a step")
        two.tell("pause")
        until(lambda: all(one.state == "announced" for one in two.states()), lambda: "announcements")
        number = two.tell("run")
        two.wait_states("running", sequence=number)
        number = two.tell("pause")
        states = two.wait_states("paused", sequence=number)
        assert states[0].at_step == states[1].at_step


def test_void_refuses(tmp_path: Path) -> None:
    """A void attempt says so and ends with 86, publishing nothing; `except Exception` does not hold it."""
    checkpoints = tmp_path / "checkpoints"
    with gang(tmp_path) as one:
        one.wait_states("running", step=1)
        checkpoints.mkdir()
        (checkpoints / "VOID").touch()
        one.tell("checkpoint")
        assert one.wait() == [protocol.VOID_CODE]
        assert "is void: another attempt of this job has taken over" in one.log()
    assert [path.name for path in checkpoints.iterdir()] == ["VOID"]


@pytest.mark.parametrize("python", ["python3.9", "python3.12", sys.executable])
def test_runs_from_a_copied_folder(python: str, tmp_path: Path) -> None:
    """Alone on PYTHONPATH, without site-packages, on old and new Pythons."""
    usable = (
        subprocess.run([python, "-c", ""], capture_output=True, check=False) if shutil.which(python) else None
    )
    if usable is None or usable.returncode:
        pytest.skip(f"no {python} here")
    package = tmp_path / "alone" / "rota"
    shutil.copytree(ROOT / "src" / "rota" / "training", package / "training")
    (package / "__init__.py").touch()
    env = os.environ | {"PYTHONPATH": str(tmp_path / "alone"), "STEP_LOG": str(tmp_path / "steps")}
    done = subprocess.run(
        [python, "-S", STEPPER, "5", "0"], env=env, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "steps.0").read_text().count("\n") == 5


def test_steps_wants_a_step() -> None:
    """A body that forgets job.step() would loop for ever."""
    job = training.attach(state={})
    with pytest.raises(RuntimeError, match=r"must call job\.step\(\) once"):
        list(job.steps(3))


def test_what_cannot_be_saved_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="model=int: give a dict, or an object with state_dict"):
        training.attach(model=3)


def test_should_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By directive, or by a notice."""
    protocol.prepare(tmp_path)
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(tmp_path))
    monkeypatch.setenv("ROTA_NOTICE_FILE", str(tmp_path / "notice.json"))
    job = training.attach(state={})
    assert not job.should_leave
    (tmp_path / "notice.json").write_text("{}")
    assert job.should_leave
    (tmp_path / "notice.json").unlink()
    protocol.command(tmp_path, protocol.Directive("leave"))
    assert job.should_leave

    def leave() -> None:  # the real one would end this process
        raise SystemExit(protocol.LEAVE_CODE)

    monkeypatch.setattr("rota.training.gate.leave_now", leave)
    with pytest.raises(SystemExit) as left:
        job.step()
    assert left.value.code == 85


def test_leaving_loses_nothing_written(tmp_path: Path) -> None:
    """`finally`, exit handlers, unflushed files are served; a stubborn thread does not hold the program."""
    program = tmp_path / "messy.py"
    program.write_text(
        "import atexit, sys, threading, time, rota.training as rota\n"
        "from rota.training import leaving\n"
        "leaving.EXIT_WITHIN_S = float(sys.argv[2])\n"
        "if sys.argv[2] != '10': threading.Thread(target=time.sleep, args=(30,)).start()\n"
        "log = open(sys.argv[1], 'w')\n"
        "atexit.register(lambda: log.write('handler '))\n"
        "job = rota.attach(state={})\n"
        "try:\n"
        "    for step in job.steps(10**9): time.sleep(0.001); job.step()\n"
        "except Exception: log.write('caught ')\n"
        "finally: log.write('finally ')\n"
    )
    for patience, expected in (("10", "finally handler "), ("1", "finally ")):
        folder, log = tmp_path / patience, tmp_path / f"log-{patience}"
        with Gang(folder, ["-S", program, log, patience]) as one:
            one.wait_states("running", step=1)
            one.tell("leave")
            assert one.wait() == [85]
        assert log.read_text() == expected


def test_a_folder_that_is_not_there_stops_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(tmp_path / "nowhere"))
    job = training.attach(state={})
    job.step()
    assert "cannot be used" in capsys.readouterr().err
    (tmp_path / "somewhere").mkdir()
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(tmp_path / "somewhere"))
    job = training.attach(state={})
    shutil.rmtree(tmp_path / "somewhere")
    for _ in range(2):
        job.finish()
    assert capsys.readouterr().err.count("progress cannot be reported") == 1


def test_environment_that_makes_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ValueError, match="WORLD_SIZE='two' in the environment is no whole number"):
        training.attach(state={})


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        ("plain_loop.py", ["--steps", "30"], "loss after 30 steps: "),
        ("paced.py", ["--steps", "3", "--step-s", "0.01"], "3 steps of 0.01 s"),
    ],
)
def test_examples_run_anywhere(script: str, arguments: list[str], said: str, tmp_path: Path) -> None:
    """Without Rota, saving to a folder; a second start has nothing left to do."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, EXAMPLES / script, *arguments, "--checkpoint-dir", tmp_path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert said in done.stdout


def test_the_first_rank_may_finish_first(tmp_path: Path) -> None:
    """Plain ranks of different speed: those left still pause, agree and go on without their leader."""
    with gang(tmp_path, pace_s=0.004, size=3) as three:
        three.wait_states("running", step=1)
        (tmp_path / "steps.0.end").touch()
        until(lambda: three.ranks[0].poll() is not None, three.log)
        three.tell("pause")

        def paused() -> bool:
            three.settle()
            return [one.state for one in three.states()] == ["finished", "paused", "paused"]

        until(paused, lambda: f"two pauses; {three.states()}")
        assert three.states()[1].at_step == three.states()[2].at_step
        three.tell("run")
        for rank in (1, 2):
            (tmp_path / f"steps.{rank}.end").touch()
        assert three.wait() == [0, 0, 0], three.log()


@pytest.mark.soak
def test_a_changed_batch_survives_a_restart(tmp_path: Path) -> None:
    """It stays changed, and the rate is scaled once; if the program asks for another one, that holds."""
    torch = pytest.importorskip("torch")

    def start(batch: int) -> tuple[training.Job, training.Sampler, float]:
        optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1.0)
        sampler = training.Sampler(100, batch)
        job = training.attach(
            optimizer=optimizer, sampler=sampler, checkpoint_dir=tmp_path, learning_rate="linear"
        )
        return job, sampler, optimizer.param_groups[0]["lr"]

    job, sampler, _ = start(8)
    job.change_batch_size(16)
    assert sampler.batch_size == 16
    job.step()
    job.checkpoint()
    job, sampler, rate = start(8)
    assert (job.batch_size, sampler.batch_size, rate) == (16, 16, 2.0)
    job, sampler, rate = start(32)
    assert (job.batch_size, sampler.batch_size, rate) == (32, 32, 4.0)


def test_random_directives(tmp_path: Path) -> None:
    """A hundred directives as fast as they can be written, many never seen: the last one holds."""
    draw = random.Random(5)
    with gang(tmp_path, pace_s=0.0005, size=2) as two:
        two.wait_states("running", step=1)
        for _ in range(100):
            two.tell(draw.choice(["pause", "suspend", "run", "checkpoint", "resume"]))
            time.sleep(draw.choice([0.0, 0.001, 0.004]))
            two.settle()
        number = two.tell("pause")
        states = two.wait_states("paused", "suspended", sequence=number)
        assert states[0].at_step == states[1].at_step
        two.tell("leave")
        assert two.wait() == [85, 85], two.log()


def test_no_room_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device that filled up meanwhile: saved from host memory, and away with 85."""

    def full(self: torch_state.Suspension) -> int:
        raise RuntimeError("CUDA out of memory")

    def leave() -> None:
        raise SystemExit(protocol.LEAVE_CODE)

    protocol.prepare(tmp_path)
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(tmp_path))
    monkeypatch.setattr(torch_state.Suspension, "restore", full)
    monkeypatch.setattr("rota.training.gate.leave_now", leave)
    job = training.attach(state={"a": 1}, checkpoint_dir=tmp_path / "own")
    protocol.command(tmp_path, protocol.Directive("suspend"))

    def resume() -> None:
        until(lambda: protocol.ranks(tmp_path, [0])[0].state == "suspended", lambda: "the suspension")
        protocol.command(tmp_path, protocol.Directive("resume"))

    with ThreadPoolExecutor(1) as other:
        done = other.submit(resume)
        with pytest.raises(SystemExit):
            job.step()
        done.result()
    assert "device state cannot come back (CUDA out of memory): leaving" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["step-000000000001"]
    assert protocol.ranks(tmp_path, [0])[0].state == "leaving"
