"""The one way to a page: a report as one HTML file, which opens anywhere, offline, and prints."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rota.model.atomic import replacing
from rota.model.units import format_duration
from rota.reports.chart import UNITS
from rota.reports.finding import ReportPage
from rota.reports.name_breaks import breakable, loose
from rota.reports.palette import BARS, DARK, LIGHT, dash
from rota.reports.wording import words

_SCRIPTS = ("core", "charts", "gantt", "pairs", "tables")
"""In this order; each stands on those before it."""


def page_text(page: ReportPage) -> str:
    """The page as HTML."""
    return environment().get_template("page.html").render(title=page.title, page=page, scripted=False)


def write_text(path: Path, text: str) -> None:
    """Write a page, or another file of text, whole or not at all; its folder is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")


@cache
def environment() -> Environment:
    """The templates, and the functions that they can call; they escape all values."""
    made = Environment(
        loader=PackageLoader("rota.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "units": int(UNITS),
        "colours_of": {"light": LIGHT, "dark": DARK, "bars": BARS},
        "dash": dash,
        "words": words,
        "duration": format_duration,
        "plural": lambda count, one, many: f"{count:,} {one if count == 1 else many}",
        "style": _file("report.css"),
        "script": Markup("").join(_file(f"{name}.js") for name in _SCRIPTS),
    }
    made.filters |= {"told": told, "name": breakable, "loose": loose}
    return made


def _file(name: str) -> Markup:
    """A style sheet or script from the templates' folder, to be included in a page unchanged."""
    return Markup((files("rota.reports") / "templates" / name).read_text(encoding="utf-8"))  # ours, not input


_TYPED = re.compile(r"`([^`]+)`|(?<![\w-])(--[a-z][a-z-]*)")
"""Text in backticks, and options, in a sentence written for a terminal."""


def told(sentence: str) -> Markup:
    """`sentence` for a page: text to type is code, and no option is broken over two lines."""

    def code(typed: re.Match[str]) -> str:
        return f'<code class="option">{typed[2]}</code>' if typed[2] else f"<code>{typed[1]}</code>"

    return Markup(_TYPED.sub(code, str(escape(sentence))))
