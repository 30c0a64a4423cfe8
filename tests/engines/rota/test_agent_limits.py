"""Cores and memory that follow the order of a part while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from agent_play import agent_at, python

from rota.engines.rota.folder import Folder
from rota.engines.rota.identity import ProcessIdentity
from rota.engines.rota.limits import LimitKeeper, assign
from rota.engines.rota.live import Live
from rota.engines.rota.processes import below, children, hold_ranks, kill_tree, threads
from rota.testing.engine_controller import StandInController, part
from rota.training import host_limits
from rota.wire.sync import PartStatus, Wanted

A, B, C = (0, 1), (1, 1), (2, 1)


@pytest.mark.parametrize(
    ("wanted", "held", "expected", "why"),
    [
        ({A: 2, B: 1}, {}, {A: (0, 1), B: (2,)}, "the lowest that nobody has"),
        ({A: 1, B: 3}, {A: (0, 1, 2), B: (3,)}, {A: (0,), B: (1, 2, 3)}, "from one to the other"),
        ({A: 3, B: 1}, {A: (1,), B: (0,)}, {A: (1, 2, 3), B: (0,)}, "what it holds stays its own"),
        ({A: 1}, {A: (7,)}, {A: (0,)}, "a core that is none of this machine's any more"),
        ({A: 9}, {}, {A: (0, 1, 2, 3)}, "no more than there are"),
        ({A: 1, B: 1}, {A: (1,), B: (1,)}, {A: (1,), B: (0,)}, "a program that says it had another's core"),
        ({A: 2}, {A: (3, 3, 3)}, {A: (0, 3)}, "one core is one, however often it is named"),
        ({A: 3, B: 3}, {}, {A: (0, 1, 2), B: (0, 1, 3)}, "too many for all: shared, the idle one first"),
    ],
)
def test_who_gets_which_cores(
    wanted: dict[tuple[int, int], int],
    held: dict[tuple[int, int], tuple[int, ...]],
    expected: dict[tuple[int, int], tuple[int, ...]],
    why: str,
) -> None:
    assert assign([0, 1, 2, 3], wanted, held) == expected, why


def test_a_program_reads_what_the_agent_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_TRAINING_DIR", raising=False)
    assert host_limits.limits() == host_limits.Limits(), "nothing outside Rota"
    monkeypatch.setenv("ROTA_TRAINING_DIR", str(tmp_path))
    assert host_limits.limits() == host_limits.Limits(), "nor before anything was said"
    host_limits.tell(tmp_path, host_limits.Limits(2.5, None, (0, 1)))
    assert host_limits.limits() == host_limits.Limits(2.5, None, (0, 1))
    (tmp_path / host_limits.FILE).write_text('{"cores": ["x", 1], "cpus": "many"}')
    assert host_limits.limits() == host_limits.Limits(cores=(1,)), "what it cannot use it does not take"
    (tmp_path / host_limits.FILE).write_text("rubbish")
    assert host_limits.limits() == host_limits.Limits()


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be moved")
def test_cores_move_between_two_parts_that_run(home: Path, controller: StandInController) -> None:
    """One has two cores, then one of them goes to another part; what it has forked comes along."""
    two = sorted(os.sched_getaffinity(0))[:2]
    spin = python("import os, time; os.fork(); time.sleep(600)")
    folder = home / "attempts" / "0" / "1" / "training"
    with agent_at(home, controller):
        controller.order(part(0, run=spin, own_cpus=2.0, own_gib=1.5))
        pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
        controller.until(lambda: cores_of(pid) == two)
        controller.until(lambda: host_limits.read(folder) == host_limits.Limits(2.0, 1.5, tuple(two)))
        controller.change((0, 1), Wanted.RUN, own_cpus=1.0, own_gib=0.5)
        controller.order(part(1, devices=(1,), run=spin, own_cpus=1.0))
        other = controller.status((1, 1), PartStatus.RUNNING).pids[0]
        controller.until(lambda: [cores_of(pid), cores_of(other)] == [[two[0]], [two[1]]])
        controller.until(lambda: all(cores_of(one.pid) == [two[0]] for one in psutil.Process(pid).children()))
        assert host_limits.read(folder).memory_gib == 0.5
        assert controller.reports[0, 1].pids == [pid], "nothing has begun anew"
    with agent_at(home, controller):
        time.sleep(0.5)
        assert [cores_of(pid), cores_of(other)] == [[two[0]], [two[1]]], "another agent leaves them there"


def test_a_part_is_looked_at_again_as_long_as_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon after its cores have changed or something was found elsewhere, then ever more seldom."""
    now, looks, calm = [0.0], list[tuple[float, bool]](), [True]

    def hold(shim: int, ranks: object, cores: object, *, exactly: bool) -> bool:
        looks.append((now[0], exactly))
        return calm[0]

    monkeypatch.setattr("rota.engines.rota.limits.hold_ranks", hold)
    order = part(0, run=["x"], own_cpus=1.0)
    live = Live(order, Folder(tmp_path, tmp_path), PartStatus.RUNNING, 0.0)
    live.shim = live.ranks[0] = ProcessIdentity(7, 0, "")
    live.folder.training.mkdir()
    keeper = LimitKeeper([0, 1], lambda: now[0])

    def follow(until_s: float) -> list[tuple[float, bool]]:
        looks.clear()
        while now[0] <= until_s:
            keeper.follow({live.key: order}, [live])
            now[0] += keeper.next_s() + 1e-9
        return looks[:]

    assert [at_s for at_s, exactly in follow(1.0) if exactly] == pytest.approx([0.0, 0.05, 0.15, 0.35, 0.75])
    settled = follow(30.0)
    assert [later - sooner for (sooner, _), (later, _) in pairwise(settled)][-2:] == pytest.approx([5.0, 5.0])
    assert not settled[-1][1], "threads that its program has pinned stay where they are"
    calm[0] = False
    stormy = follow(now[0] + 0.2)
    assert len(stormy) > 3
    assert stormy[-1][1]
    assert keeper.follow({}, []) == {}
    assert keeper.next_s() == float("inf")


def cores_of(pid: int) -> list[int]:
    return sorted(os.sched_getaffinity(pid))


CHAIN = """
import os, sys, threading, time
def fork_on():
    while True:  # each child is the next to fork; its parent stays, and has threads
        if os.fork():
            time.sleep(600)
        time.sleep(0.0005)
        if os.path.exists(sys.argv[1]):
            time.sleep(600)
threading.Thread(target=time.sleep, args=(600,)).start()
fork_on()
"""


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be moved")
def test_what_is_forked_while_cores_move_comes_along(tmp_path: Path) -> None:
    """A chain of forks outruns two looks at all of it: each child begins on the cores of its parent."""
    one, two = sorted(os.sched_getaffinity(0))[:2]
    shim = subprocess.Popen(
        [sys.executable, "-c", f"import os, sys, time\n{CHAIN}", str(tmp_path / "enough")],
        preexec_fn=lambda: os.sched_setaffinity(0, {one, two}),
    )
    try:
        wait_for(lambda: len(below(shim.pid)) > 20)
        first = children(shim.pid)
        assert hold_ranks(shim.pid, {0: first[0]}, {0: [one]})
        wait_for(lambda: len(below(shim.pid)) > 60)
        (tmp_path / "enough").touch()
        hold_ranks(shim.pid, {0: first[0]}, {0: [one]})
        masks = [os.sched_getaffinity(thread) for stat in below(shim.pid) for thread in threads(stat.pid)]
        assert set(map(frozenset, masks)) == {frozenset({one})}
    finally:
        kill_tree(shim.pid)
        shim.kill()
        shim.wait()


def wait_for(look: Callable[[], object]) -> None:
    end_s = time.monotonic() + 30.0
    while not look():
        assert time.monotonic() < end_s
        time.sleep(0.01)
