"""Curves on record: thinned in the store, read by their owners, there after the controller was killed."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import pytest
from postgres import postgres  # noqa: F401
from serving_toys import Stage
from site_play import EPOCH_S, Body, Machine, Site
from store_place import Place, jobs_of, place  # noqa: F401
from test_store import DONE, RUNNING, attempt

from rota.client import Refused
from rota.server.curves import curves_csv, curves_view, newest_point
from rota.server.store.rows import Step
from rota.wire.sync import ProgressReport, Report
from rota.wire.timeline import Doing, StretchView
from rota.worlds.live.curves import FULL, LEAST_S, THINNED, Point


def points(row: int, count: int, first: int = 0) -> list[Point]:
    """One each two seconds."""
    return [
        Point(row, 1, 2.0 * i, 2.0 * i + 1.0, LEAST_S, {"loss": [float(i), float(i), float(i), 1.0]})
        for i in range(first, first + count)
    ]


def test_neighbours_become_one(place: Place) -> None:  # noqa: F811
    """Of one job; what it says later comes after, and the next controller knows how many there are."""
    store = place.open()
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    store.commit(Step(jobs={0: RUNNING}, points=points(0, FULL) + points(1, 3), thinned=[0]))
    store.commit(Step(points=points(0, 1, first=FULL)))
    kept = store.points(0)
    assert len(kept) <= THINNED + 1
    assert (kept[0], kept[-2:]) == (points(0, 1)[0], points(0, 2, first=FULL - 1))
    assert sum(point.curves["loss"][3] for point in kept) == FULL + 1
    assert store.points(1) == points(1, 3)
    assert [point.at_s for point in store.points(0, since_s=2.0 * FULL - 1.0)] == [2.0 * FULL]
    curves = store.load().curves
    assert {row: (one.points, one.spacing_s) for row, one in curves.items()} == {
        0: (len(kept), 2 * LEAST_S),
        1: (3, LEAST_S),
    }


def test_the_oldest_of_jobs_that_are_over_go_first(place: Place) -> None:  # noqa: F811
    store = place.open()
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    store.commit(Step(jobs={0: RUNNING, 1: DONE}, points=points(0, 5) + points(1, 5)))
    assert store.count_points() == 10
    assert store.drop_old_points() == 5
    assert store.drop_old_points() == 0
    assert (store.points(0), store.points(1)) == (points(0, 5), [])


def speaks(site: Site, machine: Machine) -> None:
    """Each report of this machine says what the program's loss is: the work that is left."""
    plain = machine._report

    def report(body: Body) -> Report:
        said = ProgressReport(loss=300.0 - body.done(site.time.now), step_s=0.1, at_s=EPOCH_S + site.time.now)
        return plain(body).model_copy(update={"progress": said})

    machine._report = report  # type: ignore[method-assign]


def test_they_outlive_the_controller(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 1}, "fifo")
    speaks(site, site.machines["n0"])
    site.submit(300)
    for until_s in (30, 60):
        while site.time.now < until_s or site.scheduler.loop is None:
            site.turn()
        seen = [point.at_s for point in site.store.points(0)]
        assert seen == sorted(seen)
        assert 5 <= len(seen) <= until_s / LEAST_S + 2, "and not begun anew"
        site.kill_controller()
    losses = [point.curves["loss"][0] for point in site.store.points(0)]
    assert losses == sorted(losses, reverse=True)


# -- as people get them ----------------------------------------------------------------------------


def test_what_nobody_said_is_none() -> None:
    """Curves share their points; a curve that nobody drew is missing."""
    said = [
        Point(0, 1, 1.0, 2.0, 2.0, {"gpus": [2.0, 1.0, 3.0, 4.0]}),
        Point(0, 2, 5.0, 5.0, 4.0, {"loss": [0.5, 0.5, 0.5, 1.0]}),
    ]
    view = curves_view("1", said, 100.0)
    assert (view.at_s, view.until_s, view.attempt, view.spacing_s) == ([101, 105], [102, 105], [1, 2], 4.0)
    assert list(view.curves) == ["loss", "gpus"]
    assert (view.curves["gpus"].mean, view.curves["gpus"].low) == ([2.0, None], [1.0, None])
    lines = list(csv.DictReader(StringIO(curves_csv(view))))
    assert lines[0] == {
        "at_s": "101.0", "until_s": "102.0", "attempt": "1", "loss": "", "loss_low": "", "loss_high": "",
        "gpus": "2.0", "gpus_low": "1.0", "gpus_high": "3.0",
    }  # fmt: skip
    assert curves_csv(curves_view("1", [], 0.0)) == "at_s,until_s,attempt\n"


def test_gaps_are_where_the_job_held_nothing() -> None:
    """Until the last point: what a job waits for now ends no line."""
    life = [
        StretchView(doing=Doing.WAITING, from_s=100.0, to_s=101.0, attempt=0),
        StretchView(doing=Doing.RUNNING, from_s=101.0, to_s=103.0, attempt=1),
        StretchView(doing=Doing.SUSPENDED, from_s=103.0, to_s=104.5, attempt=1),
        StretchView(doing=Doing.RUNNING, from_s=104.5, to_s=106.0, attempt=1),
        StretchView(doing=Doing.SUSPENDED, from_s=106.0, to_s=None, attempt=1),
    ]
    said = [Point(0, 1, at_s, at_s, 2.0, {"gpus": [2.0, 2.0, 2.0, 1.0]}) for at_s in (1.0, 3.0, 5.0)]
    assert curves_view("1", said, 100.0, life).gaps == [(100.0, 101.0), (103.0, 104.5)]
    assert curves_view("1", [], 100.0, life).gaps == []


@pytest.mark.parametrize(
    ("last_s", "told_s", "now", "at_s", "why"),
    [
        (5.0, 9.0, 10.0, 9.0, "not on record yet"),
        (9.0, 9.0, 10.0, None, "it is on record"),
        (5.0, 9e9, 10.0, 10.0, "a program that says what it likes of the time"),
        (5.0, 0.0, 10.0, None, "likewise"),
    ],
)
def test_the_last_word(last_s: float, told_s: float, now: float, at_s: float | None, why: str) -> None:
    said = ProgressReport(loss=0.5, at_s=100.0 + told_s).model_dump(mode="json")
    row = attempt(0, progress=said, parts={"places": [{"devices": [0, 1]}]})
    newest = newest_point(row, last_s, now, 100.0)
    assert (None if newest is None else newest.at_s) == at_s, why
    assert newest is None or newest.curves["gpus"][0] == 2.0


def test_calls(stage: Stage) -> None:
    """JSON and CSV, and nothing for those whose job it is not."""
    job = stage.client().call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})["jobs"][0]["id"]
    path = f"/v1/jobs/{job}/curves"
    assert stage.client().call("GET", path)["curves"]["loss"]["high"] == [0.75]
    assert stage.client().call("GET", path, query={"since": 2.0})["at_s"] == []
    assert stage.client().text(path, {"format": "csv"}).splitlines()[1] == "1.0,2.0,1,0.5,0.25,0.75"
    for who, where, status in (("bob", path, 403), ("alice", "/v1/jobs/999/curves", 404)):
        with pytest.raises(Refused) as caught:
            stage.client(who).call("GET", where)
        assert caught.value.status == status
