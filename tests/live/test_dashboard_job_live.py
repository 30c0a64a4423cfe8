"""The Job page of a real job in a real browser: curves grow, ranks talk, scripts stay text, acts are done."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_play import signed_in, url_of
from live_cluster import LiveCluster

from browser import PALE
from rota.client import route

pytestmark = pytest.mark.soak
TALKING = str(Path(__file__).parents[1] / "server" / "talking_job.py")


def until(page: Any, look: Callable[[], bool], most_s: float = 60.0) -> None:
    """Look until it is so, while the page goes on: its policy lets nobody evaluate conditions in it."""
    end_s = time.monotonic() + most_s
    while not look():
        assert time.monotonic() < end_s, page.locator("main").inner_text()[-2000:]
        page.wait_for_timeout(100)


def log_of(page: Any) -> str:
    return str(page.locator("pre.log").text_content())


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path_factory.mktemp("job"), devices="cpu:4", policy="fifo") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def talking(live: LiveCluster) -> str:
    """Two ranks that train, for as long as the tests may take; a script stands in its comment."""
    comment = "<script>document.title = 'taken'</script>"
    return live.submit(sys.executable, TALKING, "600", gpus=2, name="resnet", comment=comment)


def points_of(page: Any) -> int:
    """Points that the curve of the loss has."""
    said = page.locator("[data-curve=loss]").get_attribute("aria-label")
    return int(said.split()[1])


def test_a_running_job(chromium: Any, live: LiveCluster, talking: str) -> None:
    """Its curves and both of its logs grow without a reload, and nothing it says is taken for markup."""
    with signed_in(chromium, live) as opened:
        page = opened(f"/jobs/{talking}")
        page.wait_for_selector("[data-curve=loss] canvas")
        before = points_of(page)
        until(page, lambda: points_of(page) > before + 1)
        until(page, lambda: points_of(page) > 4)
        told = live.client.call("GET", route("v1", "jobs", talking, "curves"))
        until(page, lambda: points_of(page) >= len(told["at_s"]))
        until(page, lambda: "rank 0 step 20 " in log_of(page))
        assert "<script>document.title='taken'</script> red" in log_of(page)
        page.select_option("[data-rank]", "1")
        until(page, lambda: "rank 1 step 20 " in log_of(page))
        seen = len(log_of(page))
        until(page, lambda: len(log_of(page)) > seen)
        text = log_of(page)
        assert "rank 0" not in text
        assert len(re.findall("rank 1 of 2 begins", text)) == 1, "no line is shown twice"
        assert page.title() == f"Job {talking} resnet · Rota"
        assert page.locator("#job-more script").count() == 0
        page.click("#d-life summary")
        steps = page.locator("#h-attempts ~ div tbody tr").first.inner_text()
        until(page, lambda: page.locator("#h-attempts ~ div tbody tr").first.inner_text() != steps)
        assert page.locator("#d-life").evaluate("one => one.open"), "what is unfolded stays so"
        page.click("[data-follow]")
        held = len(log_of(page))
        page.wait_for_timeout(1500)
        assert len(log_of(page)) == held, "it stands while it is paused"
        with page.expect_download() as download:
            page.click("[data-download]")
        assert Path(download.value.path()).read_text().startswith("rank 1 of 2 begins <script>")


def test_what_is_under_way_at_a_pause_is_not_shown(chromium: Any, live: LiveCluster, talking: str) -> None:
    """Whatever a piece holds that was asked for before; later it follows, and none is left out."""
    under_way: list[Any] = []
    with signed_in(chromium, live) as opened:
        page = opened(f"/jobs/{talking}")
        until(page, lambda: "rank 0 step 0 " in log_of(page))
        page.route(re.compile(r"/logs\?"), lambda one: under_way.append(one))
        until(page, lambda: bool(under_way))
        page.click("[data-follow]")
        held = log_of(page)
        path, read = route("v1", "jobs", talking, "logs"), {"rank": 0, "offset": 0}
        before = live.client.call("GET", path, query=read)["size"]
        live.until(lambda: live.client.call("GET", path, query=read)["size"] > before, "a line more")
        with page.expect_response(re.compile(r"/logs\?")):
            under_way[0].continue_()
        page.wait_for_timeout(300)
        assert log_of(page) == held
        page.unroute(re.compile(r"/logs\?"))
        page.click("[data-follow]")
        until(page, lambda: len(log_of(page)) > len(held))
        steps = [int(step) for step in re.findall("rank 0 step ([0-9]+) ", log_of(page))]
        assert steps == list(range(steps[0], steps[-1] + 1, 20))


def test_cancelled_from_the_page(chromium: Any, live: LiveCluster) -> None:
    """After a question; the page shows it, and offers nothing more."""
    job = live.submit("sleep", "600", gpus=1, name="idle")
    live.reaches(job, "RUNNING")
    with signed_in(chromium, live) as opened:
        page = opened(f"/jobs/{job}")
        page.click("text=Cancel")
        page.click("#confirm button[value=no]")
        assert live.job(job)["state"] == "RUNNING"
        page.click("text=Cancel")
        page.click("#confirm button[value=yes]")
        page.wait_for_selector(".s-cancelled", timeout=60_000)
        page.wait_for_selector("button.act", state="detached", timeout=60_000)
    assert live.wait(job)["state"] == "CANCELLED"


def test_of_another_tenant(chromium: Any, live: LiveCluster, talking: str) -> None:
    """A page that says no: neither the job, nor its curves, nor what it writes."""
    token = live.client.call("POST", "/v1/users", {"name": "eve", "tenant": "other/eve"})["token"]
    with signed_in(chromium, live, token=token, quiet=False) as opened:
        page = opened(f"/jobs/{talking}")
        assert page.locator("h1").text_content() == "Not for you"
        for path in ("curves", "timeline", "logs"):
            answer = page.request.get(f"{url_of(live)}{route('v1', 'jobs', talking, path)}")
            assert answer.status == 403
            assert "resnet" not in answer.text()


def test_a_job_that_writes_much(chromium: Any, live: LiveCluster) -> None:
    """The tab keeps the end of it, and stays at hand."""
    loud = "for i in range(60000): print(i, 'x' * 240)\nprint('\\r50%\\r100%', flush=True); input()"
    job = live.submit(sys.executable, "-c", loud, gpus=1, name="loud", terminal=False)
    with signed_in(chromium, live) as opened:
        page = opened(f"/jobs/{job}")
        until(page, lambda: "100%" in log_of(page), 60.0)
        text = log_of(page)
        assert len(text) < 600_000
        assert "50%" not in text, "a line that was written over"
        assert page.locator("[data-said]").text_content().startswith("Only the end")
    live.act(job, "cancel")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (820, "dark"), (1440, "light")])
def test_it_fits(chromium: Any, live: LiveCluster, talking: str, width: int, scheme: str) -> None:
    """Nothing sticks out at the side, on a phone as little as on a wide screen."""
    with signed_in(chromium, live, width=width, scheme=scheme) as opened:
        for path in (f"/jobs/{talking}", "/jobs", "/api#submit"):
            page = opened("/" if "#" in path else path)
            if "#" in path:
                page.goto(url_of(live) + path)
                assert page.locator("#submit").evaluate("one => one.open")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert page.evaluate(PALE) == [], path
            page.close()


def test_the_api_page_filters(chromium: Any, live: LiveCluster) -> None:
    with signed_in(chromium, live) as opened:
        page = opened("/api")
        page.fill("[data-filter]", "curves")
        shown = page.locator(".call:visible summary code").all_text_contents()
        assert "/v1/jobs/{id}/curves" in shown
        assert len(shown) < 8
