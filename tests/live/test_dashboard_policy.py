"""Policy and History in a real browser: a policy decides because somebody said so there; files come down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_play import WIDTHS, signed_in
from live_cluster import LiveCluster
from shared import python

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """One job that ended, one that runs, one that waits for it."""
    with LiveCluster(tmp_path_factory.mktemp("pages"), devices="cpu:1") as cluster:
        ended = cluster.submit(*python("sys.exit(3)"), name="fails")
        cluster.reaches(ended, "FAILED")
        runs = cluster.submit(*python("time.sleep(600)"), name="runs", time_s=600)
        cluster.reaches(runs, "RUNNING")
        cluster.submit(*python("pass"), name="waits", time_s=60)
        yield cluster


def test_swapping_the_policy_from_its_page(chromium: Any, live: LiveCluster) -> None:
    """What would come of it first, then the question, then the new one decides."""
    with signed_in(chromium, live) as opened:
        page = opened("/policy")
        page.fill("#candidate", "srtf")
        page.click("form.ask button")
        page.wait_for_selector("#ahead svg >> nth=1")
        assert "Mean wait" in page.inner_text("#ahead")
        page.click(".choice button.strong")
        page.wait_for_selector("#confirm[open]")
        assert "in place of" in page.inner_text("#confirm-text")
        page.click("#confirm button[value=no]")
        assert live.client.call("GET", "/v1/policy")["policy"] != "srtf"
        page.click(".choice button.strong")
        page.click("#confirm button[value=yes]")
        page.locator(".toast", has_text="srtf decides now.").wait_for()
        page.wait_for_selector("#policy h1:has-text('srtf')")
    live.until(
        lambda: live.client.call("GET", "/v1/policy/decisions")[-1]["policy"] == "srtf", "a decision of srtf"
    )


def test_a_policy_that_nobody_knows_is_a_sentence(chromium: Any, live: LiveCluster) -> None:
    with signed_in(chromium, live, quiet=False) as opened:
        page = opened("/policy")
        page.fill("#candidate", "strf")
        page.press("#candidate", "Enter")
        page.locator(".toast.wrong", has_text="did you mean 'srtf'").wait_for()


def test_who_is_no_admin_may_look_and_not_swap(chromium: Any, live: LiveCluster) -> None:
    body = {"name": "eve", "tenant": "eve", "admin": False, "account": ""}
    token = live.client.call("POST", "/v1/users", body)["token"]
    with signed_in(chromium, live, token=token, quiet=False) as opened:
        page = opened("/policy")
        page.fill("#candidate", "las")
        page.press("#candidate", "Enter")
        page.wait_for_selector("text=Admins may let it decide")
        assert page.locator("text=Let las decide").count() == 0
        refused = page.evaluate(
            "fetch('/policy?policy=las', {method: 'PUT'}).then((answer) => answer.status)"
        )
        assert refused == 403


def test_files_come_down(chromium: Any, live: LiveCluster, tmp_path: Path) -> None:
    with signed_in(chromium, live) as opened:
        page = opened("/history?state=FAILED")
        with page.expect_download() as coming:
            page.click("text=These jobs as CSV")
        coming.value.save_as(tmp_path / "jobs.csv")
        lines = (tmp_path / "jobs.csv").read_text().splitlines()
        assert len(lines) == 2
        assert ",fails," in lines[1]
        with page.expect_download() as coming:
            page.click("text=This time as a trace")
        coming.value.save_as(tmp_path / "trace.csv")
        assert "submit_s" in (tmp_path / "trace.csv").read_text().splitlines()[0]


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(chromium: Any, live: LiveCluster, width: int) -> None:
    with signed_in(chromium, live, width=width, scheme="dark") as opened:
        page = opened("/tenants")
        page.wait_for_selector(".chart canvas")
        for path in ("/tenants", "/policy", "/history"):
            page.goto(page.url.rpartition("/")[0] + path)
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
