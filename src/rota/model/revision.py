"""The running sources: their version, and the revision that they were built from or are checked out at.

A wheel has the revision in a file that `setup.py` writes; for a checkout (an editable install) it is read
from git's files, so that no git is needed.  It is that of the moment at which a process first needs it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rota import __version__

FILE = "revision.txt"
DIGITS = 12
_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def full_version() -> str:
    """`0.1.0+gaf9ca21a6b1c`: the version and the revision, if it is known (PEP 440)."""
    revision = built_of(_PACKAGE) or checked_out(_PACKAGE.parent.parent)
    return f"{__version__}+g{revision}" if revision else __version__


def are_other(one: str, other: str) -> bool:
    """Whether two full versions are those of different sources, as far as they show."""
    (first, _, of_first), (second, _, of_second) = one.partition("+"), other.partition("+")
    return first != second or (bool(of_first and of_second) and of_first != of_second)


def built_of(package: Path) -> str:
    """The revision that the package in this folder was built from; empty if that is not known."""
    try:
        return (package / FILE).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def checked_out(root: Path) -> str:
    """The revision of a git checkout, or of one more of its worktrees; empty if this is none."""
    try:
        place = root / ".git"
        if place.is_file():
            place = root / place.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (place / "HEAD").read_text(encoding="utf-8").strip()
        commit = _resolved(place, head.removeprefix("ref: ")) if head.startswith("ref: ") else head
    except (OSError, ValueError):
        return ""
    return commit[:DIGITS] if len(commit) >= DIGITS and set(commit) <= set("0123456789abcdef") else ""


def _resolved(place: Path, name: str) -> str:
    """The commit of the branch `name`: a file of its own, or a line among the packed ones."""
    shared = place / "commondir"
    common = place / shared.read_text(encoding="utf-8").strip() if shared.is_file() else place
    if (common / name).is_file():
        return (common / name).read_text(encoding="utf-8").strip()
    lines = (common / "packed-refs").read_text(encoding="utf-8").splitlines()
    return next((line.partition(" ")[0] for line in lines if line.endswith(f" {name}")), "")
