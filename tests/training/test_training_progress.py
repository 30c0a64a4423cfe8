"""What a program says of how far it is stays true when its workers or its batch become others."""

from __future__ import annotations

from pathlib import Path

import pytest

import rota.training as training
from rota.training import protocol


@pytest.fixture(autouse=True)
def outside_rota(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROTA_CHECKPOINT_DIR", "ROTA_RESTORE_DIRS"):
        monkeypatch.delenv(name, raising=False)


def ranks(folder: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> list[training.Job]:
    """As many ranks of a plain loop as `size`, in this process, with their reports in `folder`."""
    protocol.prepare(folder)
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(folder))
    monkeypatch.setenv("WORLD_SIZE", str(size))
    jobs = []
    for rank in range(size):
        monkeypatch.setenv("RANK", str(rank))
        jobs.append(training.attach(state={}, checkpoint_dir=folder.parent / "checkpoints", batch_size=8))
    return jobs


def told(folder: Path) -> float:
    """Samples that all ranks together say they have used."""
    return sum(one.samples for one in protocol.ranks(folder, range(4)).values())


def test_samples_are_counted_once_whatever_the_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attempt, (size, samples) in enumerate([(1, 24), (4, 48), (2, 72)]):
        jobs = ranks(tmp_path / str(attempt), size, monkeypatch)
        for _ in range(3):
            for job in jobs:
                job.step(samples=8 / size)
        for job in jobs:
            job.finish()
        jobs[0].save(together=False)
        assert told(tmp_path / str(attempt)) == samples


def test_the_steps_to_come_follow_the_batch() -> None:
    """100 samples in 10 epochs by 10; from the second step of the second epoch on by 20."""
    sampler = training.Sampler(100, 10)
    job = training.attach(sampler=sampler)
    for _ in job.epochs(10):
        for _ in sampler:
            job.step()
            if job.step_count == 12:
                assert job.status.total_steps == 100
                job.change_batch_size(20)
                assert job.status.total_steps == 12 + 4 + 8 * 5
    assert job.step_count == job.status.total_steps


def test_what_a_program_says_of_its_steps_holds() -> None:
    sampler = training.Sampler(100, 10)
    job = training.attach(sampler=sampler, total_steps=7)
    next(job.epochs(10))
    job.change_batch_size(20)
    assert job.status.total_steps == 7
