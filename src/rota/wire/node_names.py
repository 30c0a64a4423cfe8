"""What a node may be called."""

from __future__ import annotations

import re

from rota.errors import InputError


def check_node(name: str) -> str:
    """`name`, which a node is to have.  Raises InputError for one that would fall apart where names of nodes
    stand between blanks or commas, or one on a line (ROTA_NODES)."""
    is_path = any(part in ("", ".", "..") for part in name.split("/"))  # means another place on its way here
    if is_path or not re.fullmatch(r"(?!-)[A-Za-z0-9_.@:+/-]{1,128}", name):
        expected = "letters, digits and _ . @ : + / -, at most 128; no - first, no dots alone between slashes"
        raise InputError.at(f"{name!r} is no name for a node", field="--node", expected=expected)
    return name
