"""What agents with other clocks say is told by the controller's."""

from __future__ import annotations

from typing import Any

import pytest

from rota.engines.rota.identity import boot_id
from rota.server.clocks import AGREE_S, TOLD_S, Clock, by_our_clock
from rota.wire.sync import Exit, PartStatus, ProgressReport, Report, SyncRequest, Usage

NOW_S = 1_700_000_000.0


def request(sent_s: float | None) -> SyncRequest:
    """An agent says what happened at 10, 9, 8, … seconds before it asks, by its own clock."""
    clock_s = NOW_S if sent_s is None else sent_s
    full = Report(
        row=1,
        attempt=1,
        status=PartStatus.ENDED,
        since_s=clock_s - 10,
        started_s=clock_s - 9,
        end=Exit(ended_s=clock_s - 8, code=3),
        progress=ProgressReport(steps=5, at_s=clock_s - 7),
        usage=Usage(at_s=clock_s - 6, cpu_cores=0.5),
    )
    bare = Report(row=2, attempt=1, status=PartStatus.WAITING, since_s=clock_s - 5)
    return SyncRequest(incarnation="a", seen=0, controller="c", sent_s=sent_s, reports=[full, bare])


@pytest.mark.parametrize("ahead_s", [-86_400.0, -3.0, 3.0, 86_400.0])
def test_moments_are_told_by_our_clock(ahead_s: float) -> None:
    assert by_our_clock(request(NOW_S + ahead_s), NOW_S) == request(NOW_S)


@pytest.mark.parametrize("late_s", [0.0, AGREE_S / 2, -AGREE_S / 2])
def test_the_way_of_a_request_is_no_difference_of_clocks(late_s: float) -> None:
    said = request(NOW_S - late_s)
    assert by_our_clock(said, NOW_S) is said


def test_an_agent_that_does_not_tell_its_clock_is_taken_at_its_word() -> None:
    said = request(None)
    assert by_our_clock(said, NOW_S + 50.0) is said


def test_one_machine_has_one_monotonic_clock_however_long_a_request_waited() -> None:
    """It may have come while the controller was still starting: an end is not moved by that."""
    said = request(NOW_S - 7.0).model_copy(update={"boot_id": boot_id(), "steady_s": 493.0})
    assert by_our_clock(said, NOW_S, 500.0) is said
    assert by_our_clock(said.model_copy(update={"steady_s": None}), NOW_S, 500.0).reports == said.reports
    elsewhere = said.model_copy(update={"boot_id": "of another machine"})
    assert by_our_clock(elsewhere, NOW_S, 500.0).reports == request(NOW_S).reports


class Machine:
    """A wall clock that somebody sets, and the one that nobody can."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s, self.boot = NOW_S, 500.0, "b1"

    def pass_time(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds

    def clock(self, kept: dict[str, Any] | None = None, last_s: float = 0.0) -> Clock:
        """A controller starts."""
        steady, wall = (lambda: self.steady_s), (lambda: self.wall_s)
        return Clock(NOW_S - 1000.0, kept, last_s, boot=self.boot, wall=wall, steady=steady)


@pytest.mark.parametrize("step_s", [-7200.0, -TOLD_S - 1, TOLD_S + 1, 7200.0])
def test_a_step_changes_no_duration_and_is_told(step_s: float) -> None:
    """While a controller runs, while none does, and after the next has started."""
    machine = Machine()
    first = machine.clock()
    assert (first(), first.trouble()) == (1000.0, "")
    machine.wall_s += step_s
    machine.pass_time(60.0)
    assert first() == 1060.0
    second = machine.clock(first.to_keep(), last_s=1055.0)
    machine.pass_time(60.0)
    assert second() == 1120.0
    way = "ahead of" if step_s > 0 else "behind"
    assert f"{way} the cluster's" in second.trouble()


def test_after_a_boot_the_wall_clock_says_where_the_count_begins() -> None:
    machine = Machine()
    first = machine.clock()
    machine.boot, machine.steady_s, machine.wall_s = "b2", 3.0, NOW_S + 600.0
    assert machine.clock(first.to_keep(), last_s=1000.0)() == 1600.0


def test_a_boot_with_a_clock_that_is_late_does_not_lead_into_the_past() -> None:
    """Nothing on record may lie ahead: run times would be negative."""
    machine = Machine()
    first = machine.clock()
    machine.boot, machine.steady_s, machine.wall_s = "b2", 3.0, NOW_S - 86_400.0
    second = machine.clock(first.to_keep(), last_s=1000.0)
    assert second() == 1000.0
    assert "behind the cluster's" in second.trouble()


def test_a_boot_with_a_clock_that_is_years_ahead_makes_nothing_too_old() -> None:
    """The clock goes on from there, but once the wall clock is right what is kept is kept by that."""
    machine = Machine()
    first = machine.clock()
    assert first.surely() == 1000.0
    machine.boot, machine.steady_s, machine.wall_s = "b2", 3.0, NOW_S + 2e9
    second = machine.clock(first.to_keep(), last_s=1000.0)
    machine.pass_time(60.0)
    machine.wall_s -= 2e9
    assert second() == 1000.0 + 2e9 + 60.0
    assert second.surely() == pytest.approx(1060.0, abs=1e-3)


@pytest.mark.parametrize(
    "kept", [None, {}, {"boot": "b1"}, {"boot": "b1", "offset_s": "x"}, {"offset_s": 5.0}]
)
def test_whatever_was_kept_a_clock_goes(kept: dict[str, Any] | None) -> None:
    assert Machine().clock(kept)() == 1000.0


@pytest.mark.parametrize("step_s", [-3600.0, -0.4, 0.4, 3600.0])
def test_an_agent_of_this_machine_is_told_by_the_clusters_clock(step_s: float) -> None:
    """Its clock began when the machine's had been set, while the cluster's went on."""
    said = request(NOW_S + step_s - 7.0).model_copy(update={"boot_id": boot_id(), "steady_s": 493.0})
    told = by_our_clock(said, NOW_S, 500.0)
    assert told.reports == request(NOW_S - 7.0).reports
