"""A row's folders belong to one job: another of the same number neither ends by them nor restores them."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import gone, shell
from rota.engines.rota.folder import AgentFolder, spread
from rota.engines.rota.ownership import OWNER, claim
from rota.engines.rota.supervisor import Supervisor
from rota.wire.sync import PartStatus


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    one = Supervisor(tmp_path / "agent")
    yield one
    for live in one.known():
        one.kill(live)
        gone(one, live)
    one.close()


def run(supervisor: Supervisor, script: str, submit_s: float, attempt: int = 1) -> str:
    """One attempt of the job in row 0, to its end; returns what it wrote."""
    live = gone(supervisor, supervisor.start(shell(0, script, attempt=attempt, submit_s=submit_s)))
    assert live.status is PartStatus.ENDED
    said = live.folder.log(0).read_text()
    supervisor.forget(live)
    return said


SAVE = "echo saved > $ROTA_CHECKPOINT_DIR/state; echo one"
LOOK = "ls $ROTA_CHECKPOINT_DIR; echo two"


def test_a_number_that_comes_again_is_another_job(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    """After a restored backup: it runs, and sees nothing of the one before, which is not deleted either."""
    home = supervisor.home
    assert run(supervisor, SAVE, submit_s=1000.0) == "one\n"
    with caplog.at_level(logging.WARNING):
        assert run(supervisor, LOOK, submit_s=2000.0) == "two\n"
    assert caplog.text.count("what a job left that the store does not know any more") == 2
    (before,) = home.attempts.glob("0.earlier-*")
    assert (before / "1" / "logs" / "rank-0.log").read_text() == "one\n"
    (saved,) = home.checkpoints.glob("0.earlier-*")
    assert (saved / "1" / "state").read_text() == "saved\n"


def test_an_attempt_of_the_same_job_does_not_run_twice(supervisor: Supervisor) -> None:
    assert run(supervisor, SAVE, submit_s=1000.0) == "one\n"
    assert run(supervisor, LOOK, submit_s=1000.0) == "one\n"
    assert run(supervisor, "ls $ROTA_CHECKPOINT_DIR/../1", submit_s=1000.0, attempt=2) == "state\n"


def test_machines_that_share_checkpoints_set_them_aside_once(tmp_path: Path) -> None:
    shared = tmp_path / "checkpoints"
    for node in ("a", "b"):
        claim(AgentFolder(tmp_path / node, shared), shell(0, "", submit_s=1000.0))
    (shared / "0" / "1").mkdir()
    for node in ("a", "b"):
        claim(AgentFolder(tmp_path / node, shared), shell(0, "", submit_s=2000.0))
        (shared / "0" / "new").mkdir(exist_ok=True)
    assert (shared / "0" / "new").is_dir()
    assert [path.name for path in next(iter(shared.glob("0.earlier-*"))).iterdir() if path.is_dir()] == ["1"]


@pytest.mark.parametrize("said", [None, "", '{"version": 1}'])
def test_folders_that_name_nobody_are_the_jobs_own(supervisor: Supervisor, said: str | None) -> None:
    """As an older agent leaves them, or a power cut."""
    assert run(supervisor, SAVE, submit_s=1000.0) == "one\n"
    for root in (supervisor.home.attempts, supervisor.home.checkpoints):
        (root / "0" / OWNER).unlink()
        if said is not None:
            (root / "0" / OWNER).write_text(said)
    assert run(supervisor, LOOK, submit_s=2000.0) == "one\n", "it has run already"
    assert run(supervisor, LOOK, submit_s=3000.0) == "two\n", "now its folders name it"


def test_folders_of_jobs_are_spread(tmp_path: Path) -> None:
    """A hint to the file system, where it takes one; a folder that takes none is as good."""
    spread(tmp_path)
    spread(Path("/proc/self"))
    said = subprocess.run(["lsattr", "-d", str(tmp_path)], capture_output=True, text=True, check=False)
    if said.returncode:
        pytest.skip(f"this file system has no such flags: {said.stderr.strip()}")
    assert "T" in said.stdout.split()[0]
