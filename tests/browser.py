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
