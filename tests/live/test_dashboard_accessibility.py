"""What axe-core has to say of every page, wide and on a phone, light and dark: nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_play import signed_in
from live_cluster import LiveCluster

from browser import faults_of, needs_axe

pytestmark = [pytest.mark.soak, needs_axe]
TALKING = str(Path(__file__).parents[1] / "server" / "talking_job.py")
PAGES = {
    "/": "#grid[data-drawn='2']",
    "/queue?state=all": "tr[data-row]",
    "/jobs": "main a",
    "/jobs/1": "[data-curve=loss] canvas",
    "/jobs/2": "main h1",
    "/policy": "#policy h1",
    "/tenants": ".chart canvas",
    "/usage": "main table",
    "/history": "main table",
    "/api": "main details",
    "/nothing": "main h1",
}
"""What is there once the page is whole."""


@pytest.fixture(scope="module")
def live(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A job that trains, one that is held, one that ended, one that nobody can place now."""
    with LiveCluster(tmp_path_factory.mktemp("axe"), devices="cpu:2", policy="fifo") as cluster:
        cluster.submit(sys.executable, TALKING, "600", name="talks")
        cluster.submit(hold=True, name="held")
        cluster.reaches(cluster.submit(sys.executable, "-c", "exit(3)", name="fails"), "FAILED")
        cluster.submit(gpus=2, time_s=600, name="waits")
        yield cluster


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page(chromium: Any, live: LiveCluster, width: int, scheme: str) -> None:
    with signed_in(chromium, live, width=width, scheme=scheme, quiet=False) as opened:
        page = opened("/")
        root, said = page.url.rstrip("/"), {}
        for path, whole in PAGES.items():
            page.goto(root + path)
            page.wait_for_selector(whole)
            said[path] = faults_of(page)
        page.goto(f"{root}/policy")
        page.fill("#candidate", "srtf")
        page.press("#candidate", "Enter")
        page.wait_for_selector("#ahead svg >> nth=1")
        said["what-if"] = faults_of(page)
        page.goto(f"{root}/queue")
        page.get_by_role("button", name="Cancel job 4").click()
        page.wait_for_selector("#confirm[open]")
        said["a question"] = faults_of(page)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        said["sign in"] = faults_of(page)
        assert {path: faults for path, faults in said.items() if faults} == {}
