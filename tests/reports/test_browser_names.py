"""Names as sites really have them, in a real browser: long ones, alike in their beginnings, of one domain."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from report_toys import queue_by_count, toy_trace

from rota.reports.report import write_report
from tiers import first

pytestmark = pytest.mark.slow

POLICIES = ("fifo:skip=yes", "tiresias:limits=1000/2000/4000/8000/16000/32000/64000/128000")
TENANT = "an-account-of-a-department/someone_with_" + "x" * 60
HOSTS = [f"superpod-rack-01-gpu-node-{number:02d}.cluster.example" for number in range(6)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = toy_trace(60, 7, 130_000.0, 9000.0, (TENANT, "solo"))
    runs = [
        queue_by_count(
            trace, (4,) * 6, policy=policy, key=lambda row: trace[row]["duration_s"], backfill=is_short
        )
        for policy, is_short in zip(POLICIES, (False, True), strict=True)
    ]
    for run in runs:
        run.jobs.replace_column(
            run.jobs.get_column_index("job_id"), run.jobs["job_id"].str.pad_start(70, "_").alias("job_id")
        )
    runs = [replace(run, cluster={**run.cluster, "node_names": HOSTS}) for run in runs]
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(runs, path)
    return path


@pytest.fixture(scope="module")
def open_page(chromium: Any, report: Path) -> Any:
    """The report at a width; one page for all tests at it."""

    @cache
    def opened(width: int) -> Any:
        page = chromium.new_context(viewport={"width": width, "height": 900}, offline=True).new_page()
        page.goto(report.as_uri())
        page.wait_for_selector("#nodes.drawn")
        return page

    return opened


BROKEN = """() => {
  const lines = (part) => {
    const range = document.createRange();
    range.selectNode(part);
    return range.getClientRects().length;
  };
  const names = [...document.querySelectorAll('.name')].filter((name) => name.offsetParent);
  const short = names.filter((name) => name.textContent === 'fifo:skip=yes');
  const parts = short.flatMap((name) => [...name.childNodes]);
  return parts.filter((part) => part.nodeType === Node.TEXT_NODE && lines(part) > 1).map((part) => part.data);
}"""
"""Parts of the shorter policy's name that stand on two lines."""


@pytest.mark.parametrize("width", first(1, [390, 1440]))
def test_long_names_stick_out_nowhere_and_break_between_their_parts(open_page: Any, width: int) -> None:
    page = open_page(width)
    for menu in page.locator("details").all():
        menu.evaluate("menu => { menu.open = true; }")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(BROKEN) == []
    cut = "cells => cells.filter(cell => cell.getBoundingClientRect().right > innerWidth).length"
    assert width > 390 or page.locator(".cards td, .cards th, h3, select").evaluate_all(cut) == 0


def test_short_names_stay_on_one_line_in_columns(open_page: Any) -> None:
    name = open_page(1440).locator("table.headline .short").first
    assert name.inner_text() == POLICIES[0]
    assert name.evaluate("name => name.offsetHeight / parseFloat(getComputedStyle(name).fontSize)") < 2


def test_labels_of_nodes_tell_them_apart(open_page: Any) -> None:
    """Without the domain that all have, and from the end that differs; the whole name is said at a touch."""
    page = open_page(1440)
    page.locator("figure.gantt").first.scroll_into_view_if_needed()
    page.wait_for_selector("figure.gantt.painted")
    labels = page.locator("figure.gantt").first.locator(".yticks span")
    assert labels.all_inner_texts() == [host.partition(".")[0] for host in HOSTS]
    assert labels.first.get_attribute("title") == HOSTS[0]
    ends = (
        "span => { const edge = span.getBoundingClientRect(), text = span.firstChild.getBoundingClientRect();"
    )
    assert abs(labels.first.evaluate(ends + " return edge.right - text.right; }")) < 1


def test_a_job_is_followed_by_keys(open_page: Any) -> None:
    page = open_page(1440)
    page.select_option("#paint", "size")
    area = page.locator("figure.gantt .area").first
    area.focus()
    for _ in range(12):
        area.press("ArrowUp")
    area.press("ArrowRight")
    for _ in range(24):  # GPUs of the cluster
        if "waited" in page.locator(".tip").inner_text():
            break
        area.press("ArrowDown")
    area.press("Enter")
    job = page.locator(".tip strong").inner_text()
    assert page.locator("#about strong").inner_text() == job


def test_movers_sort_by_tenant(open_page: Any) -> None:
    page = open_page(1440)
    table = page.locator("#duel table").first
    tenants = "table => [...table.tBodies[0].rows].map(row => row.cells[2].textContent)"
    head = table.locator("th", has_text="Tenant").locator("button")
    head.click()
    rising = table.evaluate(tenants)
    head.click()
    assert rising == sorted(rising)
    assert table.evaluate(tenants) == rising[::-1]
    assert set(rising) == {TENANT, "solo"}
