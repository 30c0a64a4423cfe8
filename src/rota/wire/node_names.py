"""Which names a node may have."""

from __future__ import annotations

import re

from rota.errors import InputError


def check_node(name: str) -> str:
    """Return `name` if a node may have it. Raises InputError for a name that would be split where node names
    are listed between blanks or commas, or one on a line (ROTA_NODES)."""
    # In the path of a request such a part would mean another place.
    is_path = any(part in ("", ".", "..") for part in name.split("/"))
    if is_path or not re.fullmatch(r"(?!-)[A-Za-z0-9_.@:+/-]{1,128}", name):
        expected = "letters, digits and _ . @ : + / -, at most 128; no - first, no dots alone between slashes"
        raise InputError.at(f"{name!r} is no name for a node", field="--node", expected=expected)
    return name
