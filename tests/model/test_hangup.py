"""A service is sent SIGHUP: its log goes on in a new file, and it never ends of it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rota.testing.engine_controller import PATIENCE_S

SERVICE = """
import logging, os, signal, subprocess, sys, threading
from rota.model.hangup import open_logs_anew_on_hangup
open_logs_anew_on_hangup()
logging.basicConfig(format="%(message)s")
for line in sys.stdin:
    if line == "hangup\\n":
        os.kill(os.getpid(), signal.SIGHUP)
        for thread in threading.enumerate():
            if thread.name == "hangup":
                thread.join()
    else:
        logging.warning(line.strip())
        print(line.strip(), flush=True)
child = "import signal; assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL"
subprocess.run([sys.executable, "-c", child], check=True)
"""


def said_to(service: subprocess.Popen[str], *lines: str) -> None:
    assert service.stdin is not None
    for line in lines:
        service.stdin.write(f"{line}\n")
    service.stdin.flush()


def start(output: int, error: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVICE],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=error,
        text=True,
        start_new_session=True,
    )


def wait_for(service: subprocess.Popen[str], path: Path, text: str) -> None:
    """Until the log at `path` is `text`."""
    until = time.monotonic() + PATIENCE_S
    while not path.exists() or path.read_text() != text:
        assert service.poll() is None
        assert time.monotonic() < until, path.read_text() if path.exists() else "there is none"
        time.sleep(0.01)


def test_the_log_goes_on_in_a_new_file(tmp_path: Path) -> None:
    """As logrotate does it: the file is moved, and then the service told; a moved folder is made anew."""
    path = tmp_path / "logs" / "service.log"
    path.parent.mkdir()
    with path.open("ab") as out:
        service = start(out.fileno(), out.fileno())
    said_to(service, "first")
    wait_for(service, path, "first\nfirst\n")
    path.rename(path.with_name("service.log.1"))
    said_to(service, "second", "hangup", "third")
    wait_for(service, path, "third\nthird\n")
    assert path.with_name("service.log.1").read_text() == "first\nfirst\nsecond\nsecond\n"
    path.parent.rename(tmp_path / "old")
    service.communicate("hangup\nfourth\n", timeout=PATIENCE_S)
    assert service.returncode == 0
    assert path.read_text() == "fourth\nfourth\n"


def test_a_log_that_cannot_be_opened_goes_on_where_it_was(tmp_path: Path) -> None:
    path, old = tmp_path / "service.log", tmp_path / "old.log"
    with path.open("ab") as out:
        service = start(subprocess.DEVNULL, out.fileno())
    said_to(service, "first")
    wait_for(service, path, "first\n")
    path.rename(old)
    path.mkdir()
    service.communicate("hangup\nsecond\n", timeout=PATIENCE_S)
    assert service.returncode == 0
    sentence = f"{path} cannot be opened anew: Is a directory; the log goes on where it was"
    assert old.read_text() == f"first\n{sentence}\nsecond\n"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_terminal_is_none_of_its_business(is_there: bool) -> None:
    """Whether it is still there or closed."""
    ours, theirs = pty.openpty()
    service = start(subprocess.DEVNULL, theirs)
    os.close(theirs)
    if not is_there:
        os.close(ours)
    service.communicate("hangup\nfirst\n", timeout=PATIENCE_S)
    assert service.returncode == 0
    if is_there:
        said = b""
        while b"\n" not in said:
            said += os.read(ours, 100)
        assert said == b"first\r\n"
        os.close(ours)
