"""Builds the documentation as a site: pages of `docs/`, rooms, notebooks, the API from docstrings.

`python website/build.py [FOLDER]` copies all pages to FOLDER/site-source, with their links adjusted, and runs
MkDocs to make FOLDER/site from them; a broken link is an error.  The default of FOLDER is `out`.
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
NAV: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Use it", ("install", "live", "operate", "jobs", "dashboard", "estimates", "training", "cli", "api")),
    (
        "Simulate",
        ("traces", "generator", "cluster", "speeds", "knowledge", "metrics", "report", "analyze", "advise"),
    ),
    ("Systems", ("systems", "policies")),
    ("How good is it", ("fidelity", "headlines", "philly", "agreement", "elastic", "gpu")),
    ("How fast is it", ("performance", "live-performance")),
    ("How it works", ("architecture", "glossary", "contributing", "changelog")),
)
"""Sections with their pages, by name; pages that are not listed go to `More`."""
API: dict[str, tuple[str, ...]] = {
    "simulate": (
        "rota.api.simulation",
        "rota.api.run_options",
        "rota.api.results",
        "rota.api.moments",
        "rota.reports.shown",
        "rota.model.record",
        "rota.model.trace",
    ),
    "policies": (
        "rota.scheduler.snapshot",
        "rota.scheduler.decision",
        "rota.scheduler.policy",
        "rota.stages.priority_policy",
        "rota.knowledge.needs",
        "rota.model.grants",
    ),
    "testing": ("rota.testing",),
    "training": ("rota.training",),
    "client": ("rota.client.http", "rota.wire.job", "rota.wire.views"),
    "errors": ("rota.errors",),
}
"""Pages of the API reference, each with the modules that it shows."""
SHIM = "https://unpkg.com/iframe-worker/shim"
"""A script that the theme loads from elsewhere for pages that are read from a folder."""
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")


def pages() -> dict[str, str]:
    """Every page and figure: its path in the repository -> its path on the site."""
    placed = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
    for path in sorted((ROOT / "docs").rglob("*")):
        inside = path.relative_to(ROOT / "docs").as_posix()
        if path.suffix in (".md", ".svg", ".png"):
            placed[f"docs/{inside}"] = "contents.md" if inside == "README.md" else _index(inside)
    for path in sorted((ROOT / "src" / "rota").rglob("README.md")):
        room = path.parent.relative_to(ROOT / "src" / "rota").as_posix()
        placed[path.relative_to(ROOT).as_posix()] = f"rooms/{room.replace('/', '-')}.md"
    for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        placed[path.relative_to(ROOT).as_posix()] = f"examples/{path.stem}.md"
    return placed


def _index(path: str) -> str:
    return path.removesuffix("README.md") + "index.md" if path.endswith("README.md") else path


def gather(target: Path) -> None:
    """Write all pages to `target` with links between them; a link to no page becomes its text."""
    shutil.rmtree(target, ignore_errors=True)
    placed = pages()
    for origin, path in placed.items():
        source, page = ROOT / origin, target / path
        page.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".ipynb":
            page.write_text(_relinked(notebook_page(source), origin, path, placed), encoding="utf-8")
        elif source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            page.write_text(_relinked(text, origin, path, placed), encoding="utf-8")
        else:
            shutil.copy(source, page)
    for name, modules in API.items():
        page = target / "reference" / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        shown = "\n\n".join(f"::: {module}" for module in modules)
        page.write_text(f"# {name.capitalize()}\n\n{shown}\n", encoding="utf-8")


def _relinked(text: str, origin: str, path: str, placed: dict[str, str]) -> str:
    """`text` of the file `origin` as the page `path`: links outside of code lead to pages of the site."""
    folder = posixpath.dirname(path)

    def target(link: str) -> str | None:
        file, _, anchor = link.partition("#")
        named = posixpath.normpath(posixpath.join(posixpath.dirname(origin), file))
        found = placed.get(named) or placed.get(f"{named}/README.md")
        if found is None:
            return None
        return posixpath.relpath(found, folder or ".") + (f"#{anchor}" if anchor else "")

    def link(match: re.Match[str]) -> str:
        led = target(match[2])
        return match[1] if led is None else f"[{match[1]}]({led})"

    def image(match: re.Match[str]) -> str:
        led = target(match[2])
        return match[1] if led is None else f"![{match[1]}]({led})"

    # MkDocs does not recognise a fence with words after its language.
    text = re.sub(r"^(```[\w-]+) .*$", r"\1", text, flags=re.MULTILINE)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if part.startswith("```") else _plain_brackets(IMAGE.sub(image, LINK.sub(link, part)))
        for part in parts
    )


def _plain_brackets(text: str) -> str:
    """Escape `a[i][j]` outside of code, which MkDocs would read as a link."""
    parts = re.split(r"(`[^`\n]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("][", "]\\[") for part in parts)


def notebook_page(path: Path) -> str:
    """A notebook as a page: its text, its code and its outputs."""
    blocks = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        blocks.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:
                # An empty line would end the block; Markdown would follow.
                body = re.sub(r"\n\s*\n", "\n", "".join(data["text/html"]))
                blocks.append(f'<div class="shown" style="overflow-x:auto">{body}</div>')
            else:
                said = "".join(output.get("text") or data["text/plain"])
                blocks.append(f"```text\n{said.rstrip()}\n```")
    return "\n\n".join(blocks) + "\n"


def slug(heading: str, separator: str) -> str:
    """The anchor of a heading, as web sites of repositories make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def navigation(source: Path) -> list[object]:
    """The navigation: every page once, section by section."""
    every = {path.relative_to(source).as_posix() for path in source.rglob("*.md")}
    nav: list[object] = [{"Home": "index.md"}, {"Contents": "contents.md"}]
    left = every - {"index.md", "contents.md"}
    for title, names in NAV:
        named = [f"{name}.md" for name in names if f"{name}.md" in left]
        if title == "Systems":
            named += [path for path in ("systems/index.md", *_under(left, "systems")) if path in left]
        nav.append({title: list(dict.fromkeys(named))})
        left -= set(named)
    for title, folder in (("Examples", "examples"), ("API reference", "reference"), ("Rooms", "rooms")):
        named = list(_under(left, folder))
        nav.append({title: named})
        left -= set(named)
    return [*nav, {"More": sorted(left)}] if left else nav


def at_home(site: Path) -> None:
    """Replace the script that the theme would load from elsewhere by a local file."""
    shutil.copy(HERE / "frame-worker.js", site / "assets" / "frame-worker.js")
    for page in site.rglob("*.html"):
        here = posixpath.relpath("assets/frame-worker.js", page.parent.relative_to(site).as_posix())
        text = page.read_text(encoding="utf-8")
        page.write_text(
            text.replace(SHIM, "/assets/frame-worker.js" if page.name == "404.html" else here), "utf-8"
        )
    for source_map in site.rglob("*.map"):
        source_map.unlink()


def _under(paths: set[str], folder: str) -> Iterator[str]:
    return iter(sorted(path for path in paths if path.startswith(f"{folder}/")))


def build(out: Path) -> Path:
    """Build the site below `out` and return its first page; a broken link ends the program."""
    from mkdocs.commands.build import build as make
    from mkdocs.config import load_config

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    source, site = out / "site-source", out / "site"
    gather(source)
    config = load_config(
        str(HERE / "mkdocs.yml"),
        docs_dir=str(source.absolute()),
        site_dir=str(site.absolute()),
        nav=navigation(source),
        strict=True,
    )
    config.mdx_configs["toc"]["slugify"] = slug
    make(config)
    at_home(site)
    return site / "index.html"


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out"))
