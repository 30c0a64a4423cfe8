"""The page of one job: what it shows to whom, and its life as a picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dashboard_play import ask, get, sign_in
from memory_controller import LOG
from serving_toys import Stage

from rota.server.dashboard.job import HEIGHT, MOST_BARS, strip
from rota.wire.timeline import Doing, StretchView


def submit(stage: Stage, who: str = "alice", **spec: object) -> str:
    answer = stage.client(who).call("POST", "/v1/jobs", {"spec": {"command": ["x"], **spec}})
    return str(answer["jobs"][0]["id"])


def test_the_page(stage: Stage) -> None:
    """No script or style of its own, and what a user typed stays text."""
    evil = "<script>alert(1)</script>"
    job = submit(stage, name="resnet", comment=evil, command=["python", f"--x={evil}"])
    text = get(stage, f"/jobs/{job}")
    assert f"Job {job}" in text
    assert "no device is free" in text
    assert evil not in text
    assert text.count("&lt;script&gt;") == 2
    assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", text)


@pytest.mark.parametrize("path", ["", "/now", "/more", "/log"])
def test_others_do_not_see_it(stage: Stage, path: str) -> None:
    job = submit(stage)
    answer = ask(stage, "GET", f"/jobs/{job}{path}", cookie=sign_in(stage, "bob"))
    assert answer.status == 403
    assert "Not for you" in answer.text


@pytest.mark.parametrize(
    ("path", "status"), [("/jobs/999", 404), ("/jobs/x", 404), ("/jobs/1_", 404), ("/jobs/../1", 404)]
)
def test_no_such_job(stage: Stage, path: str, status: int) -> None:
    answer = ask(stage, "GET", path, cookie=sign_in(stage))
    assert answer.status == status
    assert "<h1>" in answer.text


def test_what_may_be_done(stage: Stage) -> None:
    """What fits its state, for those who may; and when it is over, nothing."""
    job = submit(stage)
    assert set(re.findall(rf"/act/{job}/(\w+)", get(stage, f"/jobs/{job}/now"))) == {"hold", "cancel"}
    stage.client().call("POST", f"/v1/jobs/{job}/cancel")
    assert "/act/" not in get(stage, f"/jobs/{job}/now")


def test_a_way_to_jobs(stage: Stage) -> None:
    job, other = submit(stage, name="mine"), submit(stage, "bob", name="theirs")
    text = get(stage, "/jobs")
    assert f'href="/jobs/{job}"' in text
    assert f'href="/jobs/{other}"' not in text
    for wanted, path in ((job, f"/jobs/{job}"), (f" #{job} ", f"/jobs/{job}"), ("//evil.org", "/jobs")):
        answer = ask(
            stage, "GET", "/jobs?id=" + wanted.replace(" ", "+").replace("#", "%23"), cookie=sign_in(stage)
        )
        assert (answer.status, answer.headers["location"]) == (303, path)


def test_a_whole_log(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Piece after piece, as a file and never as a page."""
    monkeypatch.setattr("rota.server.dashboard.job.PIECE_BYTES", 5)
    answer = ask(stage, "GET", f"/jobs/{submit(stage)}/log?rank=1", cookie=sign_in(stage))
    assert answer.text == LOG.decode()
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert re.fullmatch(
        r'attachment; filename="job-\d+-attempt-newest-rank-1.log"', answer.headers["content-disposition"]
    )


# -- its life as a picture -------------------------------------------------------------------------


def stretch(
    from_s: float, to_s: float | None, doing: Doing = Doing.RUNNING, gpus: int = 0, **more: object
) -> StretchView:
    return StretchView(doing=doing, from_s=from_s, to_s=to_s, gpus=gpus, **more)  # type: ignore[arg-type]


def test_bars() -> None:
    """As wide as they lasted, as high as they held devices."""
    life = [
        stretch(0, 10, Doing.WAITING),
        stretch(10, 30, gpus=4, nodes=["n0"], end="preempted", why="preempted for job 2", starting_s=5),
        stretch(30, None, gpus=2, nodes=["n1"]),
    ]
    shown = strip(life, 40.0)
    assert [(bar.left, bar.width) for bar in shown.bars] == [(0, 25), (25, 50), (75, 25)]
    assert shown.bars[1].height == HEIGHT > shown.bars[2].height > shown.bars[0].height
    assert all(bar.top + bar.height == pytest.approx(HEIGHT) for bar in shown.bars)
    assert shown.bars[1].title == "running 20s on n0 (4 devices), preempted: preempted for job 2"
    assert (shown.bars[1].starting, shown.bars[1].is_cut_short) == (12.5, True)
    assert [tick.text for tick in shown.ticks] == ["+10s", "+20s", "+30s", "+40s"]


@pytest.mark.parametrize("seconds", [0.001, 1, 59, 3600, 1e6, 1e9])
def test_axes(seconds: float) -> None:
    """A few round moments, whatever the span; nothing beyond the edges, however short or long."""
    shown = strip([stretch(5.0, 5.0 + seconds), stretch(5.0 + seconds, None)], 5.0 + seconds)
    assert len(shown.ticks) <= 9
    assert all(0 < tick.left <= 100 for tick in shown.ticks)
    assert all(bar.left >= 0 and bar.left + bar.width <= 100.001 and bar.width > 0 for bar in shown.bars)


def test_a_long_life() -> None:
    life = [stretch(float(i), float(i + 1), gpus=1) for i in range(3 * MOST_BARS)]
    shown = strip(life, 1e4)
    assert (len(shown.bars), shown.left_out, shown.from_s) == (MOST_BARS, 2 * MOST_BARS, 2.0 * MOST_BARS)
    assert strip([], 5.0).bars == []


def test_its_scripts_never_write_markup() -> None:
    """What a job says is put into pages as text alone."""
    folder = Path(__file__).parents[2] / "src" / "rota" / "server" / "dashboard" / "static"
    for name in ("logs.js", "curves.js", "api.js"):
        text = (folder / name).read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text), name
