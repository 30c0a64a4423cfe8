"""`rota figure`: one chart of the runs in a folder, as an SVG, PNG or PDF file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _names(incomplete: str) -> list[str]:
    from rota.reports.shown import DRAWINGS

    return [name for name in DRAWINGS if name.startswith(incomplete)]


def _styles(incomplete: str) -> list[str]:
    from rota.reports.palette import STYLES

    return [name for name in STYLES if name.startswith(incomplete)]


def figure(
    results: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="What `rota simulate --out FOLDER` wrote.")
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="completion, waiting, hours, slack, utilisation, queue, work, kept or nodes.",
            autocompletion=_names,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write it: a name that ends in .svg, .png or .pdf.")
    ],
    width: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH", help="Inches, or with a unit: 3.3, 84mm, 8.4cm, 240pt; 7.9 inches if none."
        ),
    ] = None,
    height: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="As the width; as high as fits if none.")
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(
            help="light, dark or print (black letters, no title, dashes); if none an SVG follows its reader.",
            autocompletion=_styles,
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="Look at jobs submitted in this part, such as 10%:90%."),
    ] = None,
    dpi: Annotated[int, typer.Option(help="Pixels to the inch of a PNG.")] = 300,
) -> None:
    """Draw one chart of a simulation as SVG, PNG or PDF.

    Letters keep their size however wide it is: make it as wide as it will stand on the page or the slide.

    \b
    Examples:
      rota figure out/ completion --out jct.pdf --width 84mm --style print
      rota figure out/ queue --out queue.png --width 6in --style dark
    """
    from rota.reports.files import load
    from rota.reports.shown import figure as drawn
    from rota.reports.window import parse_window

    window = parse_window(measure) if measure else None
    drawn(name, load(results), window).write(out, width=width, height=height, style=style, dpi=dpi)
