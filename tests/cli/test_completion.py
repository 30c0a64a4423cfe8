"""What shells are told: the lines they read, and what they complete; the man page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from live_play import JOBS, NODES, Canned
from shell_play import rota, rota_process

from rota.cli.commands import LIVE
from rota.cli.live.connect import complete_job, complete_node
from rota.cli.shell import complete_policy


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_lines_for_a_shell(shell: str) -> None:
    """They ask this program, under the name by which it knows that it is asked."""
    said = rota("completion", shell)
    assert said.status == 0
    assert "_ROTA_COMPLETE" in said.out
    assert f"complete_{shell}" in said.out


def test_a_shell_that_is_not_known() -> None:
    said = rota("completion", "tcsh")
    assert said.status == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in said.err


@pytest.mark.slow
def test_bash_completes_a_command(tmp_path: Path) -> None:
    """As the lines make it: words and the place of the last one in the environment."""
    said = rota_process(
        COMP_WORDS="rota po", COMP_CWORD="1", _ROTA_COMPLETE="complete_bash", ROTA_HOME=str(tmp_path)
    )
    assert said.out.split() == ["policy"]


ZSH = """
zmodload zsh/zpty
zpty shell env ZDOTDIR=$HOME zsh -i
zpty -r shell said '*ready>*' && zpty -w -n shell $'rota po\\t'
zpty -r shell said '*rota policy*' && print completed
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_completes_at_the_first_tab(tmp_path: Path) -> None:
    """The file is read by the first question, as docs/install.md puts it there; that one is answered too."""
    (tmp_path / ".zfunc").mkdir()
    (tmp_path / ".zfunc" / "_rota").write_text(rota("completion", "zsh").out)
    (tmp_path / ".zshrc").write_text("fpath+=~/.zfunc; autoload -U compinit; compinit -u\nPROMPT='ready>'\n")
    command = Path(sys.executable).parent / "rota"
    environment = {**os.environ, "HOME": str(tmp_path), "ROTA_HOME": str(tmp_path), "TERM": "dumb"}
    environment["PATH"] = f"{command.parent}:{environment['PATH']}"
    done = subprocess.run(
        ["zsh", "-f", "-c", ZSH], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "completed\n"), done.stderr


def test_policies_nodes_and_jobs_are_completed(cluster: Canned) -> None:
    """Of a list of policies the last; of jobs those that are live, with their names."""
    assert complete_policy("fifo,tires") == ["fifo,tiresias"]
    cluster.replies = {"GET /v1/nodes": NODES, "GET /v1/jobs": JOBS}
    assert complete_node("lap") == ["laptop"]
    assert complete_job("15") == [("15", JOBS[0].name)]


def test_nobody_waits_for_a_controller_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    monkeypatch.delenv("ROTA_URL", raising=False)
    assert (complete_node(""), complete_job("")) == ([], [])


def test_man_page() -> None:
    """Every command has its section, and no line of a help is taken for a request."""
    said = rota("man")
    assert said.status == 0
    sections = {line.split('"')[1] for line in said.out.splitlines() if line.startswith(".SS")}
    assert {f"rota {name}" for name in LIVE} <= sections
    known = (".TH", ".SH", ".SS", ".B", ".I", ".RI", ".TP", ".nf", ".fi")
    assert [
        line for line in said.out.splitlines() if line.startswith(".") and line.split()[0] not in known
    ] == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_man_page_is_set_without_a_complaint(tmp_path: Path) -> None:
    page = tmp_path / "rota.1"
    page.write_text(rota("man").out, encoding="utf-8")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-Kutf8", page], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
