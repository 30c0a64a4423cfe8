"""Secrets under ROTA_HOME: whether other accounts of the machine may read or write them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces
from rota.model.units import plural

READ = stat.S_IROTH
WRITE = stat.S_IWGRP | stat.S_IWOTH
ENTER = stat.S_IXOTH
_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
"""A password in an address, such as that of a database."""
_HOOK = re.compile(r"^\s*(?:-\s*)?\{?[^#\n]*\burl:\s*[\"']?https?://", re.MULTILINE)
"""A webhook: its address is enough to call it."""
_KEY = "PRIVATE KEY-----"
_LONGEST_KEY = 100_000


def secret_files(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Tokens, passwords, private keys and the database, each with what its owner should forbid."""
    kept = dict(_secrets(machine.home))
    if not kept:
        return
    is_open = _may_enter(machine.home.absolute())
    told = False
    for path, holds in kept.items():
        mode = path.stat().st_mode
        if (mode & READ and is_open) or mode & WRITE:
            told = True
            may = "every account of this machine may read" if mode & READ and is_open else "others may write"
            says = f"{path} holds {holds}, and {may} it"
            yield MachineFinding("secrets", FindingState.ADVICE, says, f"chmod go-rwx {path}")
    if not told:
        says = f"{plural(len(kept), 'file')} that other accounts may not read"
        yield MachineFinding("secrets", FindingState.OK, says)


def _secrets(home: Path) -> Iterator[tuple[Path, str]]:
    """The files that exist, and what each holds."""
    for name in ("config.yaml", "config.yml"):
        path = home / name
        text = _text(path)
        if _PASSWORD.search(text):
            yield path, "a password"
        elif _HOOK.search(text):
            yield path, "the address of a webhook"
    for path in sorted((home / "tokens").glob("*")):
        yield path, "a token"
    for path, holds in (
        (home / "agent" / "token", "the token of this node"),
        (home / "rota.db", "commands and environments of all jobs"),
        (home / "rota.db-wal", "commands and environments of all jobs"),
    ):
        if path.is_file():
            yield path, holds
    for path in sorted(home.glob("*")):
        if path.is_file() and path.suffix in (".pem", ".key") and _KEY in _text(path):
            yield path, "a private key"


def _text(path: Path) -> str:
    """The beginning of a file; empty if there is none, or none that this account may read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST_KEY)
    except OSError:
        return ""


def _may_enter(folder: Path) -> bool:
    """Whether any account may open what lies in it, if the file lets it."""
    return all(os.stat(one).st_mode & ENTER for one in (folder, *folder.parents))
