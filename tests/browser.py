"""Headless Chromium for the tests that look at pages; without Playwright or Chromium they are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("ROTA_CHROMIUM") or next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
PALE = (Path(__file__).parent / "reports" / "pale.js").read_text(encoding="utf-8")
"""Texts of a page that hardly stand out from what is behind them (WCAG AA), as an expression."""
AXE = next(
    (
        path
        for folder in (os.environ.get("ROTA_AXE"), Path(__file__).parents[1] / "node_modules")
        if folder and (path := Path(folder) / "axe-core" / "axe.min.js").exists()
    ),
    None,
)
"""The checks of axe-core: below `node_modules` of the repository, or of the folder that ROTA_AXE names."""
needs_axe = pytest.mark.skipif(
    AXE is None,
    reason="no axe-core: `npm install --no-save axe-core`, or ROTA_AXE names its folder",
)


def faults_of(page: Any) -> list[tuple[str, list[str]]]:
    """What axe-core has to say against the page as it is now: rules, each with the elements that break it."""
    assert AXE is not None
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document).then((said) => said.violations)")
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for the tests of a module, and not for longer: while Playwright is on, its event loop runs in
    this thread, and whoever comes next could not call `asyncio.run`."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright: drives a browser")
    if CHROMIUM is None:
        pytest.skip("no Chromium on the path, and ROTA_CHROMIUM names none")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
