"""Restores one checkpoint on all ranks, and gives each rank random states of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rota.training import state, torch_state

if TYPE_CHECKING:
    from rota.training.checkpoint import Checkpoint, Checkpoints


def load_alike(checkpoints: Checkpoints) -> tuple[Checkpoint | None, Any]:
    """The newest checkpoint and its tree, the same on all ranks; (None, None) without one.

    With a process group rank 0's choice counts: it sends its tree to ranks that find another checkpoint or
    none (folders of several nodes that are not shared, a file damaged on one of them).
    """
    newest = checkpoints.newest()
    group = torch_state.group_if_there()
    if group is not None:
        everyones = group.gather(json.dumps(newest.manifest["files"]) if newest is not None else "")
        if any(one != everyones[0] for one in everyones):
            tree = state.load(newest.state) if newest is not None and group.rank == 0 else None
            return newest, group.broadcast(tree)
    return newest, state.load(newest.state) if newest is not None else None


def own_random_states(states: list[Any], rank: int, same_size: bool) -> Any:
    """The random states that `rank` continues with; None if no checkpoint has them.

    Without states the rank draws numbers that no rank has drawn.

    >>> own_random_states(["a", "b"], 1, same_size=True), own_random_states(["a", "b"], 1, same_size=False)
    ('b', None)
    >>> own_random_states(["a"], 0, same_size=False)
    'a'
    """
    if rank == 0:
        return states[0]
    return states[rank] if same_size and rank < len(states) else None
