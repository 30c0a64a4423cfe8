"""Whether the hot modules run compiled or interpreted, found without loading them."""

from __future__ import annotations

from importlib.util import find_spec


def is_compiled() -> bool:
    """True if the engine was compiled when Rota was installed (`setup.py` lists what that concerns)."""
    spec = find_spec("rota.table.free")
    return spec is not None and not str(spec.origin).endswith(".py")
