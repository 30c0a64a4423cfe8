"""A stand-alone SVG as the bytes of an SVG, PNG or PDF file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rota.errors import InputError, WorldError
from rota.reports.layout import PER_INCH

_POINTS = 72
"""To the inch."""
_SIZE = re.compile(r'<svg [^>]*width="([\d.]+)in" height="([\d.]+)in"')


def _svg(svg: str, dpi: int) -> bytes:
    return svg.encode()


def _png(svg: str, dpi: int) -> bytes:
    vl_convert = _library()
    png: bytes = vl_convert.svg_to_png(svg, scale=_POINTS / PER_INCH, ppi=dpi)
    return png


def _pdf(svg: str, dpi: int) -> bytes:
    """vl-convert makes a pixel of a picture a point of the page, so a smaller picture frames this one."""
    width, height = (float(inches) for inches in _SIZE.findall(svg)[0])
    framed = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * _POINTS}" height="{height * _POINTS}" '
        f'viewBox="0 0 {width * PER_INCH} {height * PER_INCH}">{svg}</svg>'
    )
    pdf: bytes = _library().svg_to_pdf(framed)
    return pdf


FORMATS: Mapping[str, Callable[[str, int], bytes]] = {".svg": _svg, ".png": _png, ".pdf": _pdf}
"""What makes the bytes of a file from an SVG and the pixels of an inch, by the ending of the file's name."""


def _library() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise WorldError(
            "PNG and PDF files of figures need vl-convert, which is missing; `pip install '.[figures]'` in "
            "the folder of Rota's sources adds it, and SVG files need nothing"
        ) from None
    return vl_convert


def format_of(path: object) -> str:
    """The ending of `path`, in small letters.  InputError if no figure can be written so."""
    ending = "." + str(path).rpartition(".")[2].lower() if "." in str(path) else ""
    if ending not in FORMATS:
        known = ", ".join(FORMATS)
        raise InputError.at(
            "a figure cannot be written so", file=path, expected=f"a name that ends in one of {known}"
        )
    return ending
