"""How many nodes are wanted on a cluster that grows and shrinks."""

from __future__ import annotations

from pydantic import BaseModel


class AutoscaleView(BaseModel):
    """How many nodes the policy wants, where an operator's hook brings machines and takes them away."""

    wanted: int
    working: int
    """Nodes that take jobs."""
    leaving: list[str] = []
    """Nodes that take no jobs any more, and on which some are left."""
    remove: list[str] = []
    """Nodes that are empty: their machines may go."""
    least: int
    most: int
