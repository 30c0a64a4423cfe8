"""What is counted by columns is what is counted one job at a time, whatever has happened."""

from __future__ import annotations

from dataclasses import replace

import pytest
from naive_usage import naive_usage, naive_window
from past_play import DAY_S, NOW_S, RandomPast, random_past
from postgres import postgres  # noqa: F401
from pydantic_core import to_json
from store_place import Place, place  # noqa: F401

from rota.errors import InputError
from rota.reports.usage.prices import parse_prices
from rota.server import history
from rota.server.api import route_parts
from rota.server.api.forms import EndedFilter
from rota.server.api.route_parts import answer
from rota.server.cleanup import Tidier
from rota.server.clocks import Clock
from rota.server.export import history_csv
from rota.server.history import History
from rota.server.records import JobRecords
from rota.server.refusals import NotFound
from rota.server.retention import Keep
from rota.server.roster import StoredRoster
from rota.server.scheduler_view import SchedulerView
from rota.server.store.rows import JobQuery
from rota.server.usage import cluster_usage
from rota.server.views import job_view
from rota.wire.usage import BY
from rota.wire.views import JobView
from tiers import first

WINDOWS = ((None, None), (20 * DAY_S, None), (None, 31 * DAY_S), (10.5 * DAY_S, 40 * DAY_S), (0.0, 1.0))
"""Days after the epoch from which, and up to which, is counted."""


@pytest.mark.parametrize("seed", first(1, range(12)))
def test_usage(place: Place, seed: int) -> None:  # noqa: F811
    """To the last bit: sums are added up in the same order."""
    past = random_past(place, seed)
    epoch_s, shown = past.store.epoch_s, SchedulerView(holding=past.holding)
    prices = parse_prices("2.5") if seed % 2 else None
    for by in (*([word] for word in BY), ["month", "type"], ["user", "month", "outcome"]):
        for low_s, high_s in WINDOWS:
            since = None if low_s is None else epoch_s + low_s
            until = None if high_s is None else epoch_s + high_s
            asked = (past.store, shown, NOW_S, epoch_s, by, since, until, prices)
            assert cluster_usage(*asked) == naive_usage(*asked), (by, low_s, high_s)


def asked_of(past: RandomPast) -> History:
    clock = Clock(past.store.epoch_s, wall=lambda: past.store.epoch_s + NOW_S)
    tidier = Tidier(past.store, StoredRoster(past.store), Keep(), clock)
    shown = SchedulerView(holding=past.holding)
    return History(past.store, shown, JobRecords(past.store, shown, clock, tidier), clock)


def one_by_one(past: RandomPast, low_s: float | None, high_s: float | None) -> list[JobView]:
    """Jobs that ended in that time, each read whole."""
    low, high = low_s or 0.0, NOW_S if high_s is None else high_s
    rows = [
        (row.now.finish_s, row)
        for row in past.store.jobs(JobQuery(live=False))
        if row.now.finish_s is not None and low <= row.now.finish_s <= high
    ]
    epoch_s, rows = past.store.epoch_s, sorted(rows, key=lambda pair: pair[0])
    return [job_view(row, past.holding.get(row.row), epoch_s, NOW_S) for _, row in rows]


@pytest.mark.parametrize("seed", first(2, range(12)))
def test_history(place: Place, seed: int) -> None:  # noqa: F811
    """Whole, page by page, and from its end with a filter."""
    past = random_past(place, seed)
    asked, epoch_s = asked_of(past), past.store.epoch_s
    for low_s, high_s in WINDOWS:
        since = None if low_s is None else epoch_s + low_s
        until = None if high_s is None else epoch_s + high_s
        wanted = one_by_one(past, low_s, high_s)
        assert asked.history(since, until) == wanted
        paged: list[JobView] = []
        while page := asked.history(since, until, 7, paged[-1].id if paged else ""):
            paged += page
        assert paged == wanted
        for which in (
            EndedFilter(limit=5),
            EndedFilter(("FAILED",), "vision", "u1"),
            EndedFilter(tenant="vis"),
        ):
            fitting = [
                one
                for one in wanted
                if one.state in (which.state or one.state)
                and which.user in ("", one.user)
                and f"{one.tenant}/".startswith(f"{which.tenant}/" if which.tenant else "")
            ]
            window = replace(which, since_s=since, until_s=until)
            assert asked.ended(window) == fitting[::-1][: which.limit]


def test_more_than_one_answer_has_is_a_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    past = random_past(place, 0)
    asked, count = asked_of(past), len(one_by_one(past, None, None))
    monkeypatch.setattr(history, "MOST_ENDED", 10)
    with pytest.raises(InputError) as refused:
        asked.history(None, None)
    assert str(refused.value) == (
        f"{count} jobs ended in that time, and one answer has 10 at most; ask for less time, or page by "
        "page: limit=10, then after=JOB with the last one of the page before"
    )
    monkeypatch.setattr(history, "MOST_ENDED", count)
    assert len(asked.history(None, None)) == count


def test_a_page_begins_behind_a_job_that_has_ended(place: Place) -> None:  # noqa: F811
    past = random_past(place, 0)
    alive = next(row for row in past.store.jobs(JobQuery(live=True)))
    with pytest.raises(
        InputError, match=f"after: job {alive.id} is {alive.now.state}; expected a job that has"
    ):
        asked_of(past).history(None, None, 5, alive.id)
    with pytest.raises(NotFound, match="999"):
        asked_of(past).history(None, None, 5, "999")


def test_a_list_is_written_in_pieces_as_if_it_were_whole(
    place: Place,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views = asked_of(random_past(place, 1)).history(None, None)
    monkeypatch.setattr(route_parts, "AT_ONCE", 3)
    for count in (0, 1, 2, 3, 4, 7):
        assert answer(views[:count]).body == to_json(views[:count], inf_nan_mode="null"), count


def test_jobs_since_a_moment_have_been_submitted_or_ended_since(place: Place) -> None:  # noqa: F811
    past = random_past(place, 3)
    since_s = 30 * DAY_S
    found = past.store.jobs(JobQuery(since_s=since_s))
    wanted = [
        row
        for row in past.store.jobs()
        if row.submit_s >= since_s or (row.now.finish_s is not None and row.now.finish_s >= since_s)
    ]
    assert found == wanted
    assert any(row.submit_s < since_s for row in found)


@pytest.mark.parametrize("seed", first(2, range(12)))
def test_trace(place: Place, seed: int) -> None:  # noqa: F811
    """What is left out of what is read makes no difference."""
    past, epoch_s = random_past(place, seed), place.opened[0].epoch_s
    for low_s, high_s in WINDOWS:
        low, high = low_s or 0.0, NOW_S if high_s is None else high_s
        window = naive_window(past.store, low, high)
        whole = replace(window, specs=past.store.specs([row.row for row in window.jobs]))
        wanted = history_csv(whole, epoch_s, NOW_S)
        assert history_csv(past.store.history(low, high), epoch_s, NOW_S) == wanted
