"""Parameters of Gandiva."""

from __future__ import annotations

from dataclasses import dataclass

from rota.errors import InputError


@dataclass(frozen=True)
class GandivaParameters:
    """Parameters of `gandiva`."""

    quantum: float = 60.0
    """Length of a turn, and time between two looks at what was tried, in seconds."""
    switch: float = 0.0
    """Seconds that a switch of jobs takes; a turn that begins with one is longer by them."""
    packing: bool = True
    """Try two jobs on the same GPUs where jobs take turns."""
    pack_gain: float = 1.0
    """Sum of the relative rates of a pair above which it stays together; looked at in each turn."""
    head_room: float = 0.1
    """Part of what two jobs state of device memory that must be left beside it for them to share."""
    migration: bool = True
    """Move running jobs when a job leaves."""
    defrag: float = 0.75
    """Part of its GPUs that must be free for a server to be cleared."""
    noise: float = 0.02
    """Relative loss of rate up to which a move is not undone."""
    grow: bool = True
    """Let elastic jobs use idle GPUs of their server."""
    grow_after: float = 60.0
    """Seconds for which GPUs must have been idle."""

    def __post_init__(self) -> None:
        for name, least in (
            ("quantum", 1e-3),
            ("switch", 0.0),
            ("defrag", 1e-3),
            ("grow_after", 1e-3),
            ("head_room", 0.0),
        ):
            if not least <= getattr(self, name) < float("inf"):
                raise InputError(
                    f"policy 'gandiva': {name}={getattr(self, name):g}; expected {least:g} or more"
                )
