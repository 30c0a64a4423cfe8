"""The driver's checkpoint of real programs: the GPU is free meanwhile, and the numbers are the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_programs import FILL, MANAGED, RANK, TRAIN, GpuProgram

from rota.engines.rota.cuda_checkpoint import CudaCheckpoint, probe
from rota.engines.rota.devices import NvidiaGpus
from rota.engines.rota.processes import below, continue_tree, stop_tree

Start = Callable[..., GpuProgram]
GIB = float(2**30)


@pytest.fixture(scope="module")
def driver(gpus: NvidiaGpus) -> CudaCheckpoint:
    found = probe(gpus.driver())
    if not found.works:
        pytest.skip(found.why)
    return CudaCheckpoint(found)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program; all are ended."""
    begun: list[GpuProgram] = []

    def one(text: str, kind: str = "plain", name: str = "steps", **more: object) -> GpuProgram:
        begun.append(GpuProgram(text, kind, tmp_path / name, **more))  # type: ignore[arg-type]
        return begun[-1]

    yield one
    for program in begun:
        program.end()


def root() -> int:
    """All programs of a test are below the test, as those of a job are below its shim."""
    return os.getpid()


def held_gib(gpus: NvidiaGpus) -> float:
    """Device memory of all that is below us."""
    load = gpus.load([0], {stat.pid for stat in below(root())})
    assert load is not None
    return load.memory_gib


@pytest.mark.parametrize(
    ("kind", "shell"), [("plain", False), ("plain", True), ("workers", False), ("graph", False)]
)
def test_it_goes_on_with_the_same_numbers(
    gpus: NvidiaGpus, driver: CudaCheckpoint, start: Start, kind: str, shell: bool
) -> None:
    undisturbed = start(TRAIN, kind, "undisturbed")
    undisturbed.goes_on(60)
    undisturbed.end()
    program = start(TRAIN, kind, shell=shell)
    program.goes_on()
    for _ in range(3):
        assert held_gib(gpus) > 0.1
        assert driver.suspend(root()) == ""
        stop_tree(root())
        assert held_gib(gpus) == 0.0
        assert program.stands()
        continue_tree(root())
        assert driver.resume(root()) == ""
        program.goes_on()
    steps = min(60, len(program.lines()))
    assert program.lines()[:steps] == undisturbed.lines()[:steps]


def test_managed_memory_is_refused_and_the_program_runs_on(driver: CudaCheckpoint, start: Start) -> None:
    program = start(MANAGED)
    program.goes_on()
    problem = driver.suspend(root())
    assert problem.startswith("cannot checkpoint process ")
    program.goes_on()


def test_a_gpu_that_is_full_again(gpus: NvidiaGpus, driver: CudaCheckpoint, start: Start) -> None:
    """It waits for the room, and takes it when it is there."""
    program = start(TRAIN)
    program.goes_on()
    assert driver.suspend(root()) == ""
    other = start(FILL, name="other")
    other.goes_on(1)
    problem = driver.resume(root())
    other.end()
    assert driver.resume(root()) == "", problem
    program.goes_on()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_suspended_program_can_be_ended(driver: CudaCheckpoint, start: Start, number: int) -> None:
    program = start(TRAIN)
    program.goes_on()
    assert driver.suspend(root()) == ""
    program.signal(number)
    assert program.process.wait(10.0) == -number


def test_two_ranks_that_wait_for_one_another(driver: CudaCheckpoint, start: Start) -> None:
    """NCCL between two processes of one GPU, which takes them for two machines by NCCL_HOSTID."""
    place = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29631",
        "NCCL_SOCKET_IFNAME": "lo",
    }
    ranks = [
        start(RANK, name=f"rank-{rank}", RANK=str(rank), NCCL_HOSTID=f"host-{rank}", **place)
        for rank in (0, 1)
    ]
    for rank in ranks:
        rank.goes_on()
    for _ in range(3):
        assert driver.suspend(root()) == ""
        assert all(rank.stands(0.2) for rank in ranks)
        assert driver.resume(root()) == ""
        for rank in ranks:
            rank.goes_on()
    assert {line.split()[1] for rank in ranks for line in rank.lines()} == {"3.0"}
