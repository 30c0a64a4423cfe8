"""Cooperative suspension of real device state: the GPU is empty meanwhile, and the numbers are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_programs import FILL, GpuProgram, wait

from rota.engines.rota.devices import NvidiaGpus
from rota.training import protocol

PROGRAM = """
import os, sys, time, torch, rota.training as rota
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(1024, 8192), torch.nn.GELU(), torch.nn.Dropout(), torch.nn.Linear(8192, 1024)
).cuda()
optimizer = torch.optim.AdamW(model.parameters())
job = rota.attach(model=model, optimizer=optimizer, checkpoint_every_s=None)
for step in job.steps(10**9):
    batch = torch.randn(64, 1024, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = (model(batch) - batch).square().mean()
    loss.backward()
    optimizer.step()
    with open(sys.argv[2], "a") as file:
        file.write(f"{step} {loss.item().hex()}\\n")
    job.step(loss=loss)
"""


class Speaker(GpuProgram):
    """A program that speaks `rota.training`, and its folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.training = folder / f"{name}-training"
        protocol.prepare(self.training)
        checkpoints = folder / f"{name}-checkpoints"
        super().__init__(
            PROGRAM,
            name,
            folder / name,
            ROTA_TRAINING_DIR=str(self.training),
            ROTA_CHECKPOINT_DIR=str(checkpoints / "1"),
        )

    def told(self, do: str, state: str) -> protocol.RankState:
        """Have it do something, and wait until it says that it has."""
        number = protocol.command(self.training, protocol.Directive(do))

        def said() -> protocol.RankState | None:
            rank = protocol.read_rank(self.training, 0)
            return rank if rank is not None and rank.state == state and rank.sequence >= number else None

        wait(said)
        rank = said()
        assert rank is not None
        return rank


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[list[Speaker]]:
    """Two of the same; both are ended."""
    found = [Speaker(tmp_path, "disturbed"), Speaker(tmp_path, "undisturbed")]
    yield found
    for one in found:
        one.end()


def test_its_state_goes_to_the_host_and_comes_back_to_the_bit(
    gpus: NvidiaGpus, programs: list[Speaker]
) -> None:
    disturbed, undisturbed = programs
    undisturbed.goes_on(80)
    undisturbed.end()
    disturbed.goes_on()
    running, resident = gpus.load([0], {disturbed.pid}), resident_bytes(disturbed.pid)
    assert running is not None
    for _ in range(3):
        said = disturbed.told("suspend", protocol.SUSPENDED)
        left = gpus.load([0], {disturbed.pid})
        assert left is not None
        assert said.suspended_bytes > 200e6, "weights and two moments, of 16.8 million numbers"
        assert running.memory_gib - left.memory_gib > 0.9 * said.suspended_bytes / 2**30
        assert disturbed.stands()
        disturbed.told("resume", protocol.RUNNING)
        disturbed.goes_on()
        assert resident_bytes(disturbed.pid) - resident < 0.5 * said.suspended_bytes, (
            "host memory is given back"
        )
    steps = min(80, len(disturbed.lines()))
    assert disturbed.lines()[:steps] == undisturbed.lines()[:steps]


def resident_bytes(pid: int) -> int:
    """Host memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_without_room_on_the_device_it_leaves_by_checkpoint(programs: list[Speaker], tmp_path: Path) -> None:
    disturbed, other = programs
    other.end()
    disturbed.goes_on()
    disturbed.told("suspend", protocol.SUSPENDED)
    fill = GpuProgram(FILL.replace("1 << 30", "1 << 27"), "fill", tmp_path / "fill")
    try:
        fill.goes_on(1)
        protocol.command(disturbed.training, protocol.Directive("resume"))
        assert disturbed.process.wait(120) == protocol.LEAVE_CODE
    finally:
        fill.end()
    assert list((tmp_path / "disturbed-checkpoints" / "1").iterdir())


def test_the_benchmark_runs() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "suspend.py"
    command = [sys.executable, str(script), "--state-mb", "10", "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert json.loads(done.stdout)["device"] == "cuda"
