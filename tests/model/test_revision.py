"""A version says which sources run, with git at hand or without it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from rota import __version__
from rota.model.revision import DIGITS, are_other, built_of, checked_out, full_version

ROOT = Path(__file__).parents[2]


def git(folder: Path, *words: str) -> str:
    named = ["-c", "user.name=n", "-c", "user.email=e@x", "-C", str(folder)]
    return subprocess.run(["git", *named, *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_a_checkout_is_read_as_git_reads_it(tmp_path: Path) -> None:
    """On a branch, with its name packed, with no branch, and in one more worktree."""
    main, other = tmp_path / "main", tmp_path / "other"
    main.mkdir()
    assert checked_out(main) == ""
    git(main, "init", "-b", "a/branch")
    assert checked_out(main) == "", "nothing is committed"
    git(main, "commit", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-b", "second", str(other))
    git(other, "commit", "--allow-empty", "-m", "two")
    places = [main, other]

    def said() -> list[str]:
        return [git(place, "rev-parse", f"--short={DIGITS}", "HEAD") for place in places]

    assert [checked_out(place) for place in places] == said()
    assert len(set(said())) == 2
    git(main, "pack-refs", "--all")
    assert [checked_out(place) for place in places] == said()
    git(main, "checkout", "--detach")
    assert [checked_out(place) for place in places] == said()


@pytest.mark.parametrize("text", ["", "ref: refs/heads/none", "ref: ../../etc/passwd", "no commit at all"])
def test_what_is_no_checkout_has_no_revision(text: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(text)
    assert checked_out(tmp_path) == ""


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("0.1.0", "0.1.0", False),
        ("0.1.0", "0.2.0", True),
        ("0.1.0+ga", "0.1.0+ga", False),
        ("0.1.0+ga", "0.1.0+gb", True),
        ("0.1.0+ga", "0.1.0+ga.changed", True),
        ("0.1.0+ga", "0.1.0", False),
        ("0.1.0+ga", "0.2.0", True),
    ],
)
def test_which_versions_differ(one: str, other: str, differ: bool) -> None:
    """One that does not tell its revision may be the other one."""
    assert are_other(one, other) == are_other(other, one) == differ


@pytest.mark.slow
def test_it_is_what_the_command_says() -> None:
    said = subprocess.run(
        [Path(sys.executable).with_name("rota"), "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert said.startswith(f"rota {full_version()}, engine ")
    assert full_version().startswith(__version__)


def test_a_build_notes_what_it_was_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As whoever builds says."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda **given: None)
    monkeypatch.setenv("ROTA_REVISION", "123456")
    command = runpy.run_path("setup.py")["BuildAnew"](pytest.importorskip("setuptools").Distribution())
    command.build_lib = str(tmp_path / "lib")
    package = tmp_path / "lib" / "rota"
    monkeypatch.setattr("setuptools.command.build.build.run", lambda self: package.mkdir(parents=True))
    command.run()
    assert built_of(package) == "123456"
    assert built_of(tmp_path) == ""
