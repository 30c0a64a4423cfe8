"""A process is known again, and never mistaken for another with its pid."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rota.engines.rota import shim
from rota.engines.rota.identity import ProcessIdentity, Stat


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_living_process_is_known_again(child: subprocess.Popen[bytes]) -> None:
    """Also from its JSON form, and as the shim writes it."""
    one = ProcessIdentity.of(child.pid)
    assert one is not None
    assert one.alive()
    assert ProcessIdentity.read(one.form()) == one == ProcessIdentity.read(shim.identity(child.pid))


def test_a_zombie_is_dead(child: subprocess.Popen[bytes]) -> None:
    """Its pid is taken, but nothing runs."""
    one = ProcessIdentity.of(child.pid)
    assert one is not None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not one.alive()
    assert one.open() is None
    child.wait()
    assert ProcessIdentity.of(child.pid) is None
    assert one.open() is None


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}], ids=["later", "other boot"])
def test_a_pid_that_came_back_is_another_process(change: dict[str, object]) -> None:
    """Another start time or another boot: not the one we knew."""
    one = ProcessIdentity.of(os.getpid())
    assert one is not None
    other = replace(one, **change)  # type: ignore[arg-type]
    assert not other.alive()
    assert other.open() is None


def test_a_descriptor_of_a_living_process(child: subprocess.Popen[bytes]) -> None:
    """It becomes readable at the end of exactly this process."""
    one = ProcessIdentity.of(child.pid)
    assert one is not None
    fd = one.open()
    assert fd is not None
    os.close(fd)


def test_a_name_with_brackets_and_blanks() -> None:
    """The second field of /proc/PID/stat may hold anything."""
    own = Stat.of(os.getpid())
    with open("/proc/self/comm", "r+") as comm:
        before = comm.read().strip()
        comm.seek(0)
        comm.write("a) Z 1 (b")
    try:
        assert Stat.of(os.getpid()) == replace(own, state="R") if own else False
    finally:
        with open("/proc/self/comm", "w") as comm:
            comm.write(before)


def test_stat_says_what_the_system_says() -> None:
    """Parent, group and session."""
    own = Stat.of(os.getpid())
    assert own is not None
    assert (own.parent, own.group, own.session) == (os.getppid(), os.getpgrp(), os.getsid(0))
