"""An agent that is root works in folders that users may write, and is led nowhere by them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from attempts import gone, shell
from rota.engines.rota.below import entered, opened
from rota.engines.rota.folder import AgentFolder
from rota.engines.rota.launching import User, make_folders, void_checkpoints
from rota.engines.rota.ownership import OWNER, claim
from rota.engines.rota.supervisor import Supervisor
from rota.errors import WorldError
from rota.training import protocol
from rota.training.page import PAGE
from rota.wire.sync import PartStatus

NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="takes files of another account: only root makes them"
)


@pytest.fixture
def home(tmp_path: Path) -> AgentFolder:
    """Of an agent whose checkpoints go to a folder that every user may write."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    return AgentFolder(tmp_path / "agent", shared)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """What nobody but root is to touch."""
    folder = tmp_path / "precious"
    folder.mkdir(mode=0o700)
    (folder / "key").write_text("secret")
    return folder


def user() -> User:
    return User("nobody", NOBODY, NOBODY, [NOBODY], "/", "/bin/sh")


def state(path: Path) -> tuple[int, int, list[str]]:
    """Owner, mode and content of a folder."""
    return path.stat().st_uid, path.stat().st_mode, sorted(one.name for one in path.iterdir())


def test_void_through_a_link_makes_nothing(home: AgentFolder, tmp_path: Path) -> None:
    checkpoint = home.checkpoint(0, 1)
    checkpoint.mkdir(parents=True)
    target = tmp_path / "made by root"
    (checkpoint / protocol.VOID).symlink_to(target)
    void_checkpoints(home, shell(0, "", void=[1]))
    assert not target.exists()


@pytest.mark.parametrize("level", ["row", "attempt"])
def test_void_in_a_linked_folder_makes_nothing(home: AgentFolder, precious: Path, level: str) -> None:
    """Whichever part of the way is a link."""
    link = home.checkpoint(0, 1) if level == "attempt" else home.checkpoint(0, 1).parent
    (precious / "1").mkdir()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(precious)
    before = state(precious), state(precious / "1")
    void_checkpoints(home, shell(0, "", void=[1]))
    assert (state(precious), state(precious / "1")) == before


def test_void_where_it_belongs(home: AgentFolder) -> None:
    home.checkpoint(0, 1).mkdir(parents=True)
    void_checkpoints(home, shell(0, "", void=[1, 2]))
    void_checkpoints(home, shell(0, "", void=[1, 2]))
    assert [path.name for path in home.checkpoint(0, 1).iterdir()] == [protocol.VOID]


@needs_root
def test_a_link_in_the_place_of_an_attempt_gets_nobody_anything(home: AgentFolder, precious: Path) -> None:
    """`ROW/1` made beforehand, as a link: its target keeps its owner, and the sentence names the way out."""
    row = home.checkpoint(0, 1).parent
    row.mkdir()
    (row / "1").symlink_to(precious)
    before = state(precious)
    with pytest.raises(PermissionError, match=r"shared/0/1 is no folder, or a link to one; remove it"):
        make_folders(home.of(0, 1), home, user())
    assert state(precious) == before


@needs_root
def test_a_row_that_a_user_has_made_is_set_aside(home: AgentFolder, precious: Path) -> None:
    """With a link in it, where root would write whose the row is."""
    row = home.checkpoint(0, 1).parent
    row.mkdir()
    (row / OWNER).symlink_to(precious / "key")
    (row / "1").symlink_to(precious)
    os.chown(row, NOBODY, NOBODY)
    claim(home, shell(0, "", submit_s=1000.0))
    with suppress(WorldError):  # this user may not enter the folder of the tests
        make_folders(home.of(0, 1), home, user())
    assert (precious / "key").read_text() == "secret"
    assert home.checkpoint(0, 1).stat().st_uid == NOBODY
    assert row.stat().st_uid == 0
    assert json.loads((row / OWNER).read_text())["submit_s"] == 1000.0
    (aside,) = home.checkpoints.glob("0.foreign-*")
    assert (aside / "1").is_symlink()


def test_a_row_that_is_a_link_is_set_aside(home: AgentFolder, precious: Path) -> None:
    home.checkpoint(0, 1).parent.symlink_to(precious)
    claim(home, shell(0, "", submit_s=1000.0))
    assert sorted(path.name for path in precious.iterdir()) == ["key"]
    assert (home.checkpoint(0, 1).parent / OWNER).exists()


def test_a_pipe_that_says_whose_a_row_is_holds_nobody_up(home: AgentFolder) -> None:
    row = home.checkpoint(0, 1).parent
    row.mkdir()
    os.mkfifo(row / OWNER)
    (row / OWNER).unlink()
    os.mkfifo(row / "other")
    (row / OWNER).symlink_to(row / "other")
    with pytest.raises(OSError, match="symbolic"):
        claim(home, shell(0, "", submit_s=1000.0))


def test_somebody_elses_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    refusal = pytest.raises(PermissionError, match=r"theirs belongs to user \d+; remove it")
    with opened(tmp_path) as top, refusal, entered(top, "theirs", {os.geteuid() + 1}):
        pass


def test_a_log_that_is_another_file_is_not_handed_over(tmp_path: Path, precious: Path) -> None:
    """A hard link where the shim opens the log: the attempt does not begin, and says why."""
    supervisor = Supervisor(tmp_path / "agent")
    try:
        logs = supervisor.home.of(0, 1).logs
        logs.mkdir(parents=True)
        os.link(precious / "key", logs / "rank-0.log")
        live = gone(supervisor, supervisor.start(shell(0, "echo overwritten")))
        assert live.status is PartStatus.ENDED
        assert live.end is not None
        assert "no file of its own" in live.end.error
        assert (precious / "key").read_text() == "secret"
    finally:
        supervisor.close()


@pytest.mark.parametrize(
    "name",
    [PAGE, pytest.param(f"{protocol.DIRECTIVE}.{os.getpid()}.new", id="new directive")],
)
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_directives_are_written_through_no_link(
    tmp_path: Path, precious: Path, name: str, link: object
) -> None:
    folder = tmp_path / "training"
    folder.mkdir()
    assert callable(link)
    link(precious / "key", folder / name)
    try:
        protocol.command(folder, protocol.Directive(do=protocol.LEAVE))
    except OSError:
        assert name == PAGE
    assert (precious / "key").read_text() == "secret"
