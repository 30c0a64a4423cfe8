"""Only whole checkpoints are seen; a bad disk costs the newest, never the ones before."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

import rota.training as training
from rota.training import checkpoint
from rota.training.checkpoint import CheckpointError, Checkpoints, Summing, Voided


@pytest.fixture(autouse=True)
def outside_rota(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "ROTA_TRAINING_DIR", "ROTA_CHECKPOINT_DIR", "ROTA_RESTORE_DIRS"):
        monkeypatch.delenv(name, raising=False)


def put(checkpoints: Checkpoints, step: int, text: bytes = b"state") -> None:
    checkpoints.publish(step, lambda file: [file.write(text), None][1])


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in folder.glob("step-*"))


def test_keeps_the_newest(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 5, 9):
        put(checkpoints, step)
    assert steps(tmp_path) == [5, 9]
    found = checkpoints.newest()
    assert found is not None
    assert (found.step, found.state.read_bytes(), found.bytes) == (9, b"state", 5)
    assert list(tmp_path.glob(".new*")) == []


def test_later_steps_of_a_history_given_up_go(tmp_path: Path) -> None:
    """After falling back from step 9 to 5, step 7 is newer than the damaged 9."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (5, 9, 7):
        put(checkpoints, step)
    assert steps(tmp_path) == [5, 7]


def cut(path: Path) -> None:
    (path / "state").write_bytes(b"sta")


def flip(path: Path) -> None:
    (path / "state").write_bytes(b"stats")


def lose(path: Path) -> None:
    (path / "state").unlink()


def lose_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def scribble(path: Path) -> None:
    (path / "manifest.json").write_text("[1, 2")


def newer(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"version": 99}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "3 bytes instead of 5"),
        (flip, "its checksum does not match"),
        (lose, "No such file"),
        (lose_manifest, "its manifest is missing or unreadable"),
        (scribble, "its manifest is missing or unreadable"),
        (newer, "its form has version 99, this library reads 1"),
    ],
)
def test_falls_back_with_a_message(
    damage: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = Checkpoints(tmp_path)
    put(checkpoints, 1)
    put(checkpoints, 2)
    damage(tmp_path / "step-000000000002")
    found = checkpoints.newest()
    assert found is not None
    assert found.step == 1
    said = capsys.readouterr().err
    assert message in said
    assert f"using {tmp_path / 'step-000000000001'} instead" in said


def test_earlier_attempts_come_after_the_own(tmp_path: Path) -> None:
    """The newest attempt with a whole checkpoint, whatever its step: later steps may be a lost history."""
    for attempt, step in (("1", 50), ("2", 30)):
        put(Checkpoints(tmp_path / attempt), step)
    third = Checkpoints(tmp_path / "3", [tmp_path / "2", tmp_path / "1"])
    found = third.newest()
    assert found is not None
    assert found.step == 30
    flip(tmp_path / "2" / "step-000000000030")
    found = third.newest()
    assert found is not None
    assert found.step == 50


def test_nothing_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest() is None
    assert capsys.readouterr().err == ""
    put(checkpoints, 1)
    cut(tmp_path / "step-000000000001")
    assert checkpoints.newest() is None
    assert "starting from the beginning" in capsys.readouterr().err


@pytest.mark.parametrize("call", ["fsync", "rename", "write"])
def test_full_disk_keeps_the_old_one_and_the_job(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At any point of writing: a message, no debris, the next attempt to save may work."""

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    job = training.attach(state={"a": 1}, checkpoint_dir=tmp_path, checkpoint_every_steps=10)
    for step in range(1, 36):
        if step == 20:
            patch = (Summing, "write") if call == "write" else (os, call)
            monkeypatch.setattr(*patch, full)
        if step == 30:
            assert steps(tmp_path) == [10]
            assert job.status.checkpoint_error.endswith("the one before is as it was")
            monkeypatch.undo()
        job.step()
    assert steps(tmp_path) == [10, 30]
    assert job.status.checkpoint_error == ""
    assert "No space left on device; the one before is as it was; the job goes on" in capsys.readouterr().err
    assert list(tmp_path.glob(".new*")) == []


def test_torch_hides_no_disk_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch turns an error of the file into one of its own; ours names the disk."""
    torch = pytest.importorskip("torch")

    class Full:
        def write(self, piece: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self) -> None: ...

    def write(file: Summing) -> None:
        file._file = Full()  # type: ignore[assignment]
        torch.save({"a": torch.zeros(100_000)}, file)

    with pytest.raises(CheckpointError, match="No space left on device"):
        Checkpoints(tmp_path).publish(3, write)
    assert list(tmp_path.iterdir()) == []


def test_void_from_the_start_and_in_the_middle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """VOID is looked for once more just before the rename."""
    checkpoints = Checkpoints(tmp_path)
    put(checkpoints, 1)

    def write(file: Summing) -> None:
        file.write(b"late")
        (tmp_path / "VOID").touch()

    with pytest.raises(Voided) as refused:
        checkpoints.publish(2, write)
    assert refused.value.code == 86
    with pytest.raises(Voided):
        put(checkpoints, 3)
    assert steps(tmp_path) == [1]
    assert f"{tmp_path} is void" in capsys.readouterr().err


def test_debris_of_the_dead_is_removed(tmp_path: Path) -> None:
    """A killed writer leaves `.new-...`; it is never read, and goes at the next start."""
    (tmp_path / ".new-7-123").mkdir(parents=True)
    (tmp_path / ".new-7-123" / "state").write_bytes(b"half")
    assert Checkpoints(tmp_path).newest() is None
    training.attach(state={}, checkpoint_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_other_names_are_refused(tmp_path: Path) -> None:
    job = training.attach(state={}, checkpoint_dir=tmp_path)
    job.checkpoint()
    with pytest.raises(ValueError, match=r"holds \['state'\], this program attaches \['model'\]"):
        training.attach(model={}, checkpoint_dir=tmp_path)


def test_a_checkpoint_at_the_end_of_an_epoch_counts_it_as_done(tmp_path: Path) -> None:
    """`job.checkpoint()` at the end of the body: a restart begins with the next epoch."""
    sampler = training.Sampler(10, 4)
    job = training.attach(sampler=sampler, checkpoint_dir=tmp_path)
    for _ in job.epochs(3):
        for _ in sampler:
            job.step()
        job.checkpoint()
        break
    sampler = training.Sampler(10, 4)
    again = training.attach(sampler=sampler, checkpoint_dir=tmp_path)
    assert again.restored
    assert list(again.epochs(3)) == [1, 2]
    assert again.step_count == 3


def test_keep_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Checkpoints(tmp_path, keep=0)
    assert checkpoint.VERSION == 1
