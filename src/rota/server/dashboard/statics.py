"""Scripts and styles of the package, at addresses that name their content, so that they may be cached."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from mimetypes import guess_type

from fastapi import APIRouter
from starlette.responses import Response

from rota.reports.palette import BARS, DARK, LIGHT
from rota.server.refusals import NotFound

FOLDER = "/static/"
router = APIRouter(include_in_schema=False)


@router.get(FOLDER + "{name:path}")
def static(name: str) -> Response:
    """One file; NotFound."""
    content = contents().get(name)
    if content is None:
        raise NotFound(f"there is no file {name[:80]!r}")
    kind = guess_type(name)[0] or "application/octet-stream"
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(content, headers=headers, media_type=kind)


@cache
def asset(name: str) -> str:
    """Where a page finds the file: the address changes with its content."""
    return f"{FOLDER}{name}?{hashlib.sha256(contents()[name]).hexdigest()[:12]}"


def palette() -> str:
    """The colours of the reports, as classes `f0`, `f1` … and variables `--f0`, `--c0` …."""
    variables = "".join(f"--f{i}: {colour}; " for i, colour in enumerate(BARS))
    light, dark = ("".join(f"--c{i}: {one}; " for i, one in enumerate(these)) for these in (LIGHT, DARK))
    fills = "\n".join(f".f{i} {{ background: var(--f{i}); fill: var(--f{i}); }}" for i in range(len(BARS)))
    root = f":root {{ {variables}{light}}}\n"
    return root + f"@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{fills}\n"


@cache
def contents() -> dict[str, bytes]:
    """Every file by its path."""
    root = files("rota.server.dashboard") / "static"
    by_name: dict[str, bytes] = {"palette.css": palette().encode()}
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        for entry in folder.iterdir():
            if entry.is_dir():
                folders.append((f"{prefix}{entry.name}/", entry))
            else:
                by_name[prefix + entry.name] = entry.read_bytes()
    return by_name
