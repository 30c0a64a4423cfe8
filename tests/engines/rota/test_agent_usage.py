"""Whose a process is, and what it used."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from rota.engines.rota.usage import (
    Process,
    Roots,
    UsageSampler,
    all_processes,
    machine_memory_gib,
    memory_gib,
    owners_of,
)
from rota.testing.engine_controller import PATIENCE_S

A, B = (0, 1), (1, 1)


def process(parent: int, group: int = 0) -> Process:
    return Process(parent=parent, group=group, ticks=0, started=0, pages=1)


@pytest.mark.parametrize(
    ("parts", "processes", "owners", "why"),
    [
        ({A: Roots((10,), 10)}, {1: process(0), 10: process(1, 10)}, {10: A}, "a rank"),
        ({A: Roots((10,), 10)}, {10: process(1, 10), 11: process(10, 11), 12: process(11, 12)},
         {10: A, 11: A, 12: A}, "children in groups of their own"),
        ({A: Roots((10,), 10)}, {1: process(0), 10: process(1, 10), 11: process(1, 10)},
         {10: A, 11: A}, "an orphan of the group"),
        ({A: Roots((10,), 10), B: Roots((20,), 20)},
         {10: process(5, 10), 20: process(5, 20), 21: process(20, 9)},
         {10: A, 20: B, 21: B}, "two parts"),
        ({A: Roots((10, 11), 10)}, {11: process(5, 10)}, {11: A}, "a rank that is gone"),
        ({A: Roots((), None)}, {1: process(0), 2: process(1)}, {}, "not begun"),
        ({A: Roots((10,), 10)}, {3: process(4), 4: process(3), 10: process(3, 10)}, {10: A}, "a pid reused"),
    ],
)  # fmt: skip
def test_owners(
    parts: dict[tuple[int, int], Roots],
    processes: dict[int, Process],
    owners: dict[int, tuple[int, int]],
    why: str,
) -> None:
    assert owners_of(parts, processes) == owners, why


def wait_for_work(pid: int, cpu_s: float) -> None:
    """Until a process has used so much more of a core, however long that takes."""
    one = psutil.Process(pid)
    began_s, end_s = one.cpu_times().user, time.monotonic() + PATIENCE_S
    while one.cpu_times().user < began_s + cpu_s:
        assert time.monotonic() < end_s, "it gets no core"
        time.sleep(0.01)


def test_cpu_and_memory_of_a_real_process() -> None:
    code = "x = bytearray(50 << 20)\nprint('ready', flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        wait_for_work(child.pid, 0.1)
        roots, sampler = {A: Roots((child.pid,), None)}, UsageSampler()
        assert 0.0 < sampler.look(roots, time.monotonic())[A].cpu_cores < 1.5, "since its start"
        wait_for_work(child.pid, 0.5)
        used = sampler.look(roots, time.monotonic())[A]
        child.kill()
    assert 0.0 < used.cpu_cores < 1.5
    assert 50 / 1024 < used.memory_gib < 0.2


def test_memory_of_one_part() -> None:
    assert 0.01 < memory_gib(Roots((os.getpid(),), None)) < machine_memory_gib()
    assert memory_gib(Roots((2**22 + 1,), None)) == 0.0
    assert os.getpid() in all_processes()
