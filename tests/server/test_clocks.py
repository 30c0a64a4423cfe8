"""What agents with other clocks say is told by the controller's."""

from __future__ import annotations

import pytest

from rota.agent.identity import boot_id
from rota.server.clocks import AGREE_S, by_our_clock
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


def test_one_machine_has_one_clock_however_long_a_request_waited() -> None:
    """It may have come while the controller was still starting: an end is not moved by that."""
    said = request(NOW_S - 7.0).model_copy(update={"boot_id": boot_id()})
    assert by_our_clock(said, NOW_S) is said
    elsewhere = request(NOW_S - 7.0).model_copy(update={"boot_id": "of another machine"})
    assert by_our_clock(elsewhere, NOW_S).reports == request(NOW_S).reports
