"""Plans of stops, and what the record of an end becomes on the wire."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.engines.rota.ending import exit_of
from rota.engines.rota.folder import Folder
from rota.engines.rota.stopping import StopPlan

seconds = st.floats(0, 1e6)
plans = st.builds(
    lambda now, notice, grace, signal: StopPlan.of(now, grace_s=grace, notice_s=notice, signal=signal),
    seconds,
    seconds,
    seconds,
    st.sampled_from(["", "USR1", "SIGUSR2"]),
)


@given(plans, plans)
def test_two_stops_are_the_sooner_of_both(one: StopPlan, two: StopPlan) -> None:
    """No second stop puts anything off, and saying it again changes nothing."""
    both = one.sooner(two)
    assert both.terminate_s == min(one.terminate_s, two.terminate_s)
    assert both.kill_s == min(one.kill_s, two.kill_s)
    assert both.terminate_s <= both.kill_s
    assert both.sooner(two) == both.sooner(one) == both


@given(plans)
def test_a_plan_survives_its_file(plan: StopPlan) -> None:
    """As it is, with what was done."""
    assert StopPlan.read(plan.form()) == plan


def test_signals_have_one_name() -> None:
    """With or without SIG."""
    assert StopPlan.of(0, grace_s=1, signal="USR1") == StopPlan.of(0, grace_s=1, signal="SIGUSR1")


def end(rank: int, code: int | None = 0, signal: int | None = None, ended_s: float = 100.0) -> dict[str, Any]:
    return {"rank": rank, "code": code, "signal": signal, "ended_s": ended_s}


@pytest.mark.parametrize(
    ("ranks", "first", "speaks"),
    [
        ([end(0), end(1)], None, (0, 0, None)),
        ([end(4), end(5)], None, (4, 0, None)),  # another node's ranks begin at 4
        ([end(0, 1), end(1, 2)], 1, (1, 2, None)),  # the first that failed, not the lowest
        ([end(0), end(1, 85)], None, (1, 85, None)),  # one that left by checkpoint wants to run again
        ([end(0, None, 15), end(1, None, 11)], 1, (1, None, 11)),
        ([], None, (0, None, None)),  # none was started
    ],
)
def test_one_rank_speaks_for_all(
    tmp_path: Path, ranks: list[dict[str, Any]], first: int | None, speaks: tuple[int, int | None, int | None]
) -> None:
    """Its code, its signal."""
    found = exit_of(record(ranks, first), Folder(tmp_path, tmp_path), None)
    assert (found.rank, found.code, found.signal) == speaks


def record(ranks: list[dict[str, Any]], first: int | None, oom_kills: int = 0) -> dict[str, Any]:
    return {
        "ended_s": 101.0,
        "ranks": ranks,
        "first": first,
        "error": "",
        "infrastructure": False,
        "oom_kills": oom_kills,
    }


@pytest.mark.parametrize(
    ("one", "oom_kills", "killed_s", "log", "oom"),
    [
        (end(0, None, 9), 1, None, "", True),
        (end(0, None, 9), 0, None, "", False),  # the kernel has killed nobody: it was somebody else
        (end(0, None, 9), 1, 99.0, "", False),  # we did it
        (end(0, None, 9), 1, 101.0, "", True),  # before we would have
        (end(0, 137), 1, None, "", True),  # a shell tells of its child
        (end(0, 1), 1, None, "DataLoader worker (pid 3) is killed by signal: Killed.", True),
        (end(0, 1), 1, None, "ValueError", False),
        (end(0, 0), 1, None, "signal: Killed", False),  # it coped
    ],
)
def test_the_kernels_kills_for_memory(
    tmp_path: Path, one: dict[str, Any], oom_kills: int, killed_s: float | None, log: str, oom: bool
) -> None:
    """Told from others as far as can be."""
    folder = Folder(tmp_path, tmp_path)
    folder.logs.mkdir()
    folder.log(0).write_text(log)
    first = 0 if one["code"] else None
    assert exit_of(record([one], first, oom_kills), folder, killed_s).oom is oom


def test_a_log_that_is_a_trap_is_not_read(tmp_path: Path) -> None:
    """The end is known all the same."""
    folder = Folder(tmp_path, tmp_path)
    folder.logs.mkdir()
    folder.log(0).symlink_to("/etc/passwd")
    found = exit_of(record([end(0, 1)], 0), folder, None)
    assert found.code == 1
    assert found.tail.startswith("(the log cannot be read:")
    assert "root:" not in found.tail


@pytest.mark.parametrize(
    ("touched_s", "by_itself"),
    [(None, True), (100.5, True), (100.0, False), (0.0, False)],
    ids=["nothing was done to it", "it was quicker", "at the signal", "it was on its way out"],
)
def test_an_end_before_the_first_signal_is_the_programs_own(
    tmp_path: Path, touched_s: float | None, by_itself: bool
) -> None:
    said = exit_of(record([end(0, 3, ended_s=100.0)], 0), Folder(tmp_path, tmp_path), None, touched_s)
    assert said.by_itself is by_itself


def test_the_first_signal_of_a_plan() -> None:
    assert StopPlan.of(10.0, grace_s=5.0, notice_s=3.0).first_s == 13.0
    assert StopPlan.of(10.0, grace_s=5.0, notice_s=3.0, signal="USR1").first_s == 10.0


def test_the_plan_of_an_older_agent_has_unix_times() -> None:
    form = {**StopPlan.of(time.time() + 5.0, grace_s=10.0).form(), "version": 1}
    plan = StopPlan.read(form)
    assert 0.0 < plan.terminate_s - time.monotonic() <= 5.0
    assert plan.kill_s - plan.terminate_s == pytest.approx(10.0)
