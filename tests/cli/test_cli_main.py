"""The command as a whole: help, version, interrupts, pipes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from shell_play import check_golden, cpu_seconds, cpu_seconds_of_libraries, rota, rota_process

from rota.model.revision import full_version

HELP = ["", "simulate", "snapshot", "replay", "systems", "trace", "trace describe", "trace generate"]
HELP += ["trace convert", "trace formats"]


@pytest.mark.parametrize("command", HELP)
def test_help(command: str) -> None:
    """Every command explains itself; those that do something give an example."""
    done = rota(*command.split(), "--help")
    assert done.status == 0
    assert "Usage: rota" in done.out
    if command not in ("trace", "trace formats"):
        assert "Example" in done.out


@pytest.mark.parametrize(("file", "engine"), [("free.py", "interpreted"), ("free.so", "compiled")])
def test_version(monkeypatch: pytest.MonkeyPatch, file: str, engine: str) -> None:
    monkeypatch.setattr("rota.table.compiled.find_spec", lambda _: SimpleNamespace(origin=f"/x/{file}"))
    assert rota("--version").out == f"rota {full_version()}, engine {engine}\n"


@pytest.mark.slow
def test_help_is_quick() -> None:
    """`rota --help` takes less CPU than half of what the heavy libraries take, and loads none of them."""
    assert min(cpu_seconds("--help") for _ in range(3)) < cpu_seconds_of_libraries() / 2
    heavy = (
        "import sys, rota.cli.main; print(*{'numpy', 'polars', 'scipy', 'rich', 'jinja2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another process is about to do."""
    end_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.02)


@pytest.mark.slow
def test_interrupt(tmp_path: Path) -> None:
    """Ctrl-C ends a simulation, its workers included, with 130 and one line, and writes nothing."""
    long = tmp_path / "long.csv"
    assert rota("trace", "generate", "--jobs", "60000", "--out", long).status == 0
    command = [sys.executable, "-m", "rota.cli.main", "simulate", str(long), "--cluster", "40x8"]
    command += ["--policy", "fifo,srtf", "--workers", "2", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: "polars" in Path(f"/proc/{process.pid}/maps").read_text())  # it loads what reads its trace
    loaded_s = psutil.Process(process.pid).cpu_times().user
    until(lambda: psutil.Process(process.pid).cpu_times().user > loaded_s + 0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "rota: interrupted\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_interrupt_of_a_parent_that_waits(tmp_path: Path) -> None:
    """The same once the workers are at work and the parent has nothing to do but wait."""
    long = tmp_path / "long.csv"
    assert rota("trace", "generate", "--jobs", "60000", "--out", long).status == 0
    command = [sys.executable, "-m", "rota.cli.main", "simulate", str(long), "--cluster", "40x8"]
    command += ["--policy", "gandiva,las", "--workers", "2", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("this system does not list the children of a process")
    until(lambda: len(children.read_text().split()) == 2)
    workers = children.read_text().split()
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "rota: interrupted\n")
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_impatient_interrupts() -> None:
    """A second Ctrl-C while Python takes leave changes neither exit code nor words."""
    code = """
import atexit, os, signal, sys
from rota.cli import lazy, main
def interrupted(*_):
    raise KeyboardInterrupt
lazy.LazyGroup.invoke = interrupted
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["rota", "simulate"]
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "rota: interrupted\n")


@pytest.mark.slow
def test_interrupt_within_exec(tmp_path: Path) -> None:
    """Ctrl-C while a dataclass is being made: the exit code is the same however the program was started."""
    (tmp_path / "once.py").write_text(
        """
import sys
from rota.cli import lazy, main
def interrupted(*_):
    exec("raise KeyboardInterrupt")
lazy.LazyGroup.invoke = interrupted
sys.argv = ["rota", "simulate"]
main.main()
"""
    )
    command = [sys.executable, "-m", "once"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "rota: interrupted\n")


@pytest.mark.slow
def test_closed_pipe(hundred: Path) -> None:
    """A reader that stops early is no error."""
    command = f"{sys.executable} -m rota.cli.main trace describe {hundred} --json | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


@pytest.mark.slow
def test_closed_pipe_of_a_table(hundred: Path) -> None:
    """Text is printed by another way than JSON; it ends as quietly when nobody reads it."""
    command = (
        f"{sys.executable} -m rota.cli.main simulate {hundred} --cluster 4x8 --policy fifo,srtf | head -1"
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    """Each shell gets a completion script."""
    done = rota_process("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.status == 0
    assert "rota" in done.out.lower()


def test_completion_of_policies() -> None:
    """Names complete inside a list."""
    from rota.cli.shell import complete_format, complete_policy, complete_semantics, complete_system

    assert "fifo,srtf" in complete_policy("fifo,sr")
    assert complete_system("srt") == ["srtf"]
    assert complete_format("philly-l") == ["philly-list"]
    assert complete_semantics("ex") == ["exact"]


def test_golden_help() -> None:
    check_golden("help.txt", rota("--help").out)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["systems tiresias", "--version"])
def test_output_that_goes_nowhere(command: str) -> None:
    """A full disk behind standard output is told in a sentence; a closed one is no error."""
    full = subprocess.run(
        f"{sys.executable} -m rota.cli.main {command} > /dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (full.returncode, full.stderr) == (
        1,
        "rota: the output cannot be written: No space left on device\n",
    )
    closed = subprocess.run(
        f"{sys.executable} -m rota.cli.main {command} >&- <&-",
        shell=True,
        capture_output=True,
        check=False,
    )
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, b"", b"")
