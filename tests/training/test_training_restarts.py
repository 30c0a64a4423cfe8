"""What a program computes does not depend on where it was stopped: same losses, each sample once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from rota.training import protocol
from training_kit import EXAMPLES, ROOT, Gang, needs_torch, until

pytestmark = needs_torch


def losses(path: Path) -> dict[int, str]:
    """step -> loss in hexadecimal; a step that was done twice has the later one."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {int(step): loss for step, loss in lines}


@pytest.mark.soak
def test_five_leaves_change_nothing(tmp_path: Path) -> None:
    """100 steps with AdamW, StepLR, dropout, BatchNorm: bit for bit as undisturbed, in 6 processes."""
    script, once, often = EXAMPLES / "torch_loop.py", tmp_path / "once", tmp_path / "often"
    subprocess.run(
        [sys.executable, script, "--losses", once], check=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    folders: list[Path] = []
    for attempt, stop in enumerate([7, 20, 33, 58, 90, None]):  # 20 is the last step of an epoch
        folder, own = tmp_path / str(attempt), tmp_path / "checkpoints" / str(attempt)
        program = [ROOT / "tests" / "training" / "leaver.py", str(stop or 0), script, "--losses", often]
        with Gang(folder, program, checkpoints=own, restore=folders) as gang:
            assert gang.wait() == [0 if stop is None else protocol.LEAVE_CODE], gang.log()
        folders.insert(0, own)
    assert losses(often) == losses(once)
    assert len(losses(once)) == 100


def used(pattern: Path, ranks: int) -> dict[tuple[int, int], set[int]]:
    """(epoch, step) -> samples that all ranks used in it together."""
    found: dict[tuple[int, int], set[int]] = {}
    for rank in range(ranks):
        for line in Path(f"{pattern}.{rank}").read_text().splitlines():
            epoch, step, *samples = map(int, line.split())
            there = found.setdefault((epoch, step), set())
            copied = len(samples) < ranks and there == set(samples)  # fewer than ranks: each takes all
            assert copied or not there & set(samples), "two ranks used a sample in one step"
            there.update(samples)
    return found


def enough(path: Path, lines: int) -> bool:
    return not lines or (path.exists() and path.read_text().count("\n") >= lines)


@pytest.mark.soak
def test_resize_uses_every_sample_once(tmp_path: Path) -> None:
    """2 -> 1 -> 2 -> 3 ranks, with a kill -9 in mid-epoch: in the surviving history each epoch is whole."""
    history: dict[tuple[int, int], set[int]] = {}
    folders: list[Path] = []
    arguments = ["--epochs", "3", "--samples", "38", "--batch-size", "6", "--checkpoint-every-steps", "4"]
    plan = [(2, "leave", 3), (1, "kill", 6), (2, "leave", 3), (3, "end", 0)]
    for attempt, (size, end, steps) in enumerate(plan):
        own, log = tmp_path / "checkpoints" / str(attempt), tmp_path / f"used-{attempt}"
        pace = ["--step-s", "0.3"] if end != "end" else []
        command = [EXAMPLES / "ddp_elastic.py", *arguments, *pace, "--used", log]
        with Gang(tmp_path / str(attempt), command, size, checkpoints=own, restore=folders) as gang:
            path = Path(f"{log}.{size - 1}")
            wanted = partial(enough, path, steps)
            until(wanted, gang.log)
            if end == "leave":
                gang.tell("leave", workers=1, reason="resized")
                assert gang.wait() == [protocol.LEAVE_CODE] * size, gang.log()
            elif end == "end":
                assert gang.wait() == [0] * size, gang.log()
        done = used(log, size)
        first = min(step for _, step in done)
        history = {key: samples for key, samples in history.items() if key[1] < first} | done
        folders.insert(0, own)
    numbers = sorted(step for _, step in history)
    assert numbers == list(range(21)), "a step is missing or was done twice"
    for epoch in range(3):
        counts = Counter(s for (e, _), samples in history.items() if e == epoch for s in samples)
        assert counts == Counter(range(38)), f"epoch {epoch}"
