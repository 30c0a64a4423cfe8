"""How heavy the report is, and how soon it answers, in headless Chromium.

    rota simulate TRACE --cluster 80x8:V100 --policy fifo,sjf,srtf,srsf,tiresias --out out/
    python benchmarks/report.py out/ [--times 5]

Needs `pip install playwright` and Chromium on the path.  Prints the table of docs/report.md: medians of the
times, from the start of loading.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from rota.reports.files import load
from rota.reports.report import write_report

ZOOM = """() => new Promise((done) => {
  const began = performance.now();
  rota.around((rota.view[0] + rota.view[1]) / 2, 0.5);
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
})"""
"""Milliseconds from a step of zooming to the next picture."""


def measure(browser: Browser, page_file: Path, times: int) -> dict[str, float]:
    """Medians, in milliseconds."""
    rows = []
    for _ in range(times):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(page_file.as_uri())
        page.wait_for_selector("#nodes.drawn")
        drawn = page.evaluate("performance.now()")
        entry = page.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
        page.locator("#nodes").scroll_into_view_if_needed()
        zoomed = statistics.median(page.evaluate(ZOOM) for _ in range(5))
        rows.append(
            {
                "read and laid out": entry["domInteractive"],
                "tables, figures and zoom answer": entry["domContentLoadedEventEnd"],
                "jobs on the nodes answer": drawn,
                "a step of zooming": zoomed,
            }
        )
        page.close()
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    records = load(options.results)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = Path(folder) / "report.html"
        began = time.process_time()
        write_report(records, path)
        made_s = time.process_time() - began
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        answers = measure(browser, path, options.times)
        browser.close()
        data = path.read_bytes()
    print(f"{len(records)} policies, {len(records[0].jobs):,} jobs")
    print(f"weight: {len(data) / 1000:,.0f} kB ({len(gzip.compress(data, 9)) / 1000:,.0f} kB compressed)")
    print(f"written in {made_s:.1f} s of CPU time")
    for name, took_ms in answers.items():
        print(f"{name}: {took_ms:.0f} ms")


if __name__ == "__main__":
    main()
