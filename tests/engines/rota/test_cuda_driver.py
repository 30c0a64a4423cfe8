"""The driver's calls in their order, on a toy that answers as a real one was seen to."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_cuda import ToyCuda, install

from rota.engines.rota import cuda_driver
from rota.engines.rota.cuda_driver import (
    LIBRARY,
    CheckpointDriver,
    DriverError,
    ProcessState,
    main,
    resume,
    suspend,
)

S = ProcessState


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyCuda:
    monkeypatch.setattr(cuda_driver, "APART_S", 0.0)
    monkeypatch.setattr(cuda_driver, "LOOK_S", 0.001)
    return install(tmp_path / "toy", monkeypatch)


@pytest.fixture
def driver(toy: ToyCuda) -> CheckpointDriver:
    return CheckpointDriver(ctypes.CDLL(str(toy.folder.parent / LIBRARY)))


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Three processes that have nothing to do."""
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    yield [one.pid for one in processes]
    for one in processes:
        one.kill()
        one.wait()


STATES = (None, S.RUNNING, S.LOCKED, S.CHECKPOINTED)
EACH_OF_THREE = [
    pytest.param(states, marks=pytest.mark.soak if place % 3 else ())
    for place, states in enumerate(itertools.product(STATES, repeat=3))
]


@pytest.mark.parametrize("states", EACH_OF_THREE)
def test_from_whatever_was_left_half_done(
    toy: ToyCuda, driver: CheckpointDriver, pids: list[int], states: tuple[ProcessState | None, ...]
) -> None:
    """Both ways end the same wherever another call had stopped, and ask nothing of who holds no GPU."""
    for pid, state in zip(pids, states, strict=True):
        if state is not None:
            toy.put(pid, state)
    holders = toy.holders()
    for _ in range(2):
        suspend(driver, lambda: pids)
        assert [toy.state(pid) for pid in holders] == [S.CHECKPOINTED] * len(holders)
    for pid, state in zip(pids, states, strict=True):
        if state is not None:
            toy.put(pid, state)
    for _ in range(2):
        resume(driver, lambda: pids)
        assert [toy.state(pid) for pid in holders] == [S.RUNNING] * len(holders)
    assert toy.holders() == holders


def test_one_that_takes_a_gpu_meanwhile_gives_it_back_as_well(
    toy: ToyCuda, driver: CheckpointDriver, pids: list[int]
) -> None:
    looks = itertools.count()

    def find() -> list[int]:
        if next(looks) == 1:
            toy.put(pids[1], S.RUNNING)
        return pids[:2]

    toy.put(pids[0], S.RUNNING)
    suspend(driver, find)
    assert [toy.state(pid) for pid in pids[:2]] == [S.CHECKPOINTED] * 2


@pytest.mark.parametrize("late", [1, 2, 3])
def test_ranks_that_wait_for_one_another_are_let_go_and_tried_again(
    toy: ToyCuda, driver: CheckpointDriver, pids: list[int], late: int
) -> None:
    for pid in pids:
        toy.put(pid, S.RUNNING)
    toy.mark(f"{pids[1]}.late", str(late))
    suspend(driver, lambda: pids)
    assert {toy.state(pid) for pid in pids} == {S.CHECKPOINTED}


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("late", "cannot lock process {}: the driver answered 600 CUDA_ERROR_NOT_READY"),
        ("managed", "cannot checkpoint process {}: the driver answered 801 CUDA_ERROR_TOY"),
    ],
)
def test_all_or_none(toy: ToyCuda, driver: CheckpointDriver, pids: list[int], mark: str, said: str) -> None:
    for pid in pids:
        toy.put(pid, S.RUNNING)
    toy.mark(f"{pids[1]}.{mark}", "99")
    with pytest.raises(DriverError, match=f"^{said.format(pids[1])}$"):
        suspend(driver, lambda: pids)
    assert {toy.state(pid) for pid in pids} == {S.RUNNING}


def test_a_gpu_that_is_still_full(toy: ToyCuda, driver: CheckpointDriver, pids: list[int]) -> None:
    """Who had it may be giving its memory back; nobody waits for ever, and a next try finds all as it was."""
    clock = itertools.count(step=5.0)
    pauses: list[float] = []
    toy.put(pids[0], S.CHECKPOINTED)
    toy.put(pids[1], S.LOCKED)
    toy.mark("full")
    with pytest.raises(DriverError, match=f"cannot restore process {pids[0]}: the driver answered 2"):
        resume(driver, lambda: pids, now=lambda: next(clock), pause=pauses.append)
    assert (toy.state(pids[0]), toy.state(pids[1])) == (S.CHECKPOINTED, S.RUNNING)
    assert len(pauses) == 3
    resume(driver, lambda: pids, pause=lambda _: toy.unmark("full"))
    assert toy.state(pids[0]) is S.RUNNING


@pytest.mark.parametrize("action", [suspend, resume])
def test_one_that_the_driver_has_lost(
    toy: ToyCuda, driver: CheckpointDriver, pids: list[int], action: object
) -> None:
    toy.put(pids[0], S.FAILED)
    with pytest.raises(DriverError, match=f"process {pids[0]} is lost: the driver says that it failed"):
        action(driver, lambda: pids)  # type: ignore[operator]


def test_one_that_ends_meanwhile_is_no_trouble(
    toy: ToyCuda, driver: CheckpointDriver, pids: list[int]
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    toy.put(dead.pid, S.FAILED)
    toy.put(pids[0], S.RUNNING)
    suspend(driver, lambda: [*pids, dead.pid])
    assert toy.state(pids[0]) is S.CHECKPOINTED


def test_a_program_of_its_own_reaches_everything_below_a_process(toy: ToyCuda) -> None:
    """Also what a shell has started; and a process that is stopped has to be let go first."""
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600; true"])
    try:
        children: list[int] = []
        while len(children) < 2:
            text = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(shell.pid)], capture_output=True, text=True, check=False
            )
            children = [int(line) for line in text.stdout.split()]
        for pid in children:
            toy.put(pid, S.RUNNING)
        root = str(os.getpid())
        assert _call("suspend", root) == (0, "")
        assert [toy.state(pid) for pid in children] == [S.CHECKPOINTED] * 2
        assert _call("resume", root) == (0, "")
        assert [toy.state(pid) for pid in children] == [S.RUNNING] * 2
        os.kill(children[0], signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(subprocess.TimeoutExpired):
            _call("suspend", root, within_s=1.0)
        assert time.monotonic() - began < 30.0
        os.kill(children[0], signal.SIGCONT)
        assert _call("suspend", root) == (0, "")
    finally:
        for pid in (*children, shell.pid):
            os.kill(pid, signal.SIGKILL)
        shell.wait()


def test_what_is_no_call(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["suspend"], ["explode", "7"], ["suspend", "x"], ["suspend", "0"], ["resume", "1"]):
        assert main(arguments) == 2
    assert capsys.readouterr().err.count("expected ACTION ROOT with ACTION one of suspend, resume\n") == 5


def test_without_a_driver(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libno-such-driver.so.1")
    assert main(["suspend", str(os.getpid())]) == 1
    assert capsys.readouterr().err.startswith("libno-such-driver.so.1 cannot be loaded: ")


def _call(action: str, root: str, within_s: float = 60.0) -> tuple[int, str]:
    command = [sys.executable, "-m", "rota.engines.rota.cuda_driver", action, root]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=within_s)
    return done.returncode, done.stderr
