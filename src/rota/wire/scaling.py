"""How many nodes are wanted on a cluster that grows and shrinks."""

from __future__ import annotations

from pydantic import BaseModel


class AutoscaleView(BaseModel):
    """How many nodes the policy wants, where an operator's hook brings machines and takes them away."""

    wanted: int
    working: int
    """Nodes that accept jobs."""
    leaving: list[str] = []
    """Nodes that accept no more jobs but still run some."""
    remove: list[str] = []
    """Nodes that are empty: their machines may be removed."""
    least: int
    most: int
