"""The site: every page of the repository has its place, and links lead to pages or become words."""

from __future__ import annotations

import json
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = runpy.run_path(str(ROOT / "website" / "build.py"))
PLACED: dict[str, str] = BUILD["pages"]()


def test_every_page_has_one_place() -> None:
    assert len(set(PLACED.values())) == len(PLACED)
    assert PLACED["README.md"] == "index.md"
    assert PLACED["docs/systems/README.md"] == "systems/index.md"
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")} <= set(PLACED)


@pytest.mark.parametrize(
    ("origin", "text", "placed"),
    [
        ("README.md", "[live](docs/live.md#drain)", "[live](live.md#drain)"),
        ("docs/live.md", "[jobs](jobs.md)", "[jobs](jobs.md)"),
        ("docs/live.md", "[home](../README.md)", "[home](index.md)"),
        ("docs/systems/fifo.md", "[all](../systems.md#fifo)", "[all](../systems.md#fifo)"),
        ("docs/systems/fifo.md", "[here](README.md)", "[here](index.md)"),
        ("CONTRIBUTING.md", "[`srtf.py`](src/rota/systems/srtf/system.py)", "`srtf.py`"),
        ("docs/live.md", "[web](https://example.org/x.md)", "[web](https://example.org/x.md)"),
        ("docs/live.md", "```text\n[a](jobs.md)\n```", "```text\n[a](jobs.md)\n```"),
        ("docs/speeds.md", "```csv regimes\na,b\n```", "```csv\na,b\n```"),
        ("docs/live.md", "x[i][j] and `y[i][j]`", "x[i]\\[j] and `y[i][j]`"),
    ],
)
def test_links(origin: str, text: str, placed: str) -> None:
    """To pages of the site from where they stand; to what is no page, the words alone."""
    assert BUILD["_relinked"](text, origin, PLACED[origin], PLACED) == placed


def test_headings_are_named_as_the_pages_name_them() -> None:
    slug = BUILD["slug"]
    assert slug("--regimes FILE", "-") == "--regimes-file"
    assert slug("What is kept, and for how long", "-") == "what-is-kept-and-for-how-long"


def test_a_notebook_becomes_a_page(tmp_path: Path) -> None:
    """An empty line in what a cell shows would end the block."""
    shown = {"output_type": "execute_result", "data": {"text/html": ["<p>a</p>\n", "\n", "<p>b</p>"]}}
    said = {"output_type": "stream", "text": ["1\n"]}
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["f()"], "outputs": [said, shown]},
    ]
    path = tmp_path / "one.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    page = BUILD["notebook_page"](path)
    assert page.startswith("# Title\n\n```python\nf()\n```\n\n```text\n1\n```\n\n<div")
    assert "<p>a</p>\n<p>b</p>" in page


def test_every_page_is_in_the_navigation(tmp_path: Path) -> None:
    """And what the sections name is there."""
    BUILD["gather"](tmp_path)
    named = set(_pages_in(BUILD["navigation"](tmp_path)))
    assert named == {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")}
    for _, names in BUILD["NAV"]:
        assert {f"{name}.md" for name in names} <= named


def test_modules_of_the_reference_are_there() -> None:
    assert [one for modules in BUILD["API"].values() for one in modules if find_spec(one) is None] == []


@pytest.mark.soak
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra [site]")
def test_it_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    BUILD["build"](tmp_path)
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        assert 'src="http' not in page.read_text(encoding="utf-8"), page.name


def _pages_in(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages_in(part)]  # type: ignore[attr-defined]
