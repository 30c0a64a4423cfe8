"""Identity of this process among its ranks, from the environment (Rota or torchrun) or its process group."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from rota.training.torch_state import group_if_there


@dataclass(frozen=True)
class Environment:
    """Rank, number of ranks and folders; outside Rota and torchrun: rank 0 of 1, without folders."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    node_rank: int = 0
    training: str = ""
    """ROTA_TRAINING_DIR; empty outside Rota."""
    checkpoint: str = ""
    restore: tuple[str, ...] = ()
    """Checkpoint folders of earlier attempts, newest first."""
    notice: str = ""
    attempt: str = ""
    batch_range: tuple[float, float] | None = None
    """ROTA_BATCH_RANGE: the fewest and most samples of a step that the job was submitted with."""
    started_s: float | None = None
    """Unix time at which this rank's command was started, wrappers included; None outside Rota."""

    @classmethod
    def read(cls) -> Environment:
        """Read from `os.environ`; ValueError names a variable that is not a number.

        A process group takes precedence if it differs, since programs may start ranks of their own.
        """
        told = cls(
            rank=_number("RANK", 0),
            local_rank=_number("LOCAL_RANK", 0),
            world_size=_number("WORLD_SIZE", 1),
            local_world_size=_number("LOCAL_WORLD_SIZE", _number("WORLD_SIZE", 1)),
            node_rank=_number("GROUP_RANK", _number("ROTA_NODE_RANK", 0)),
            training=os.environ.get("ROTA_TRAINING_DIR", ""),
            checkpoint=os.environ.get("ROTA_CHECKPOINT_DIR", ""),
            restore=tuple(filter(None, os.environ.get("ROTA_RESTORE_DIRS", "").split(":"))),
            notice=os.environ.get("ROTA_NOTICE_FILE", ""),
            attempt=f"{os.environ.get('ROTA_JOB_ID', '')}.{os.environ.get('ROTA_ATTEMPT', '')}",
            batch_range=_range("ROTA_BATCH_RANGE"),
            started_s=_moment("ROTA_STARTED_S"),
        )
        group = group_if_there()
        if group is None or group.world_size == told.world_size:
            return told
        size = group.world_size
        return replace(
            told, rank=group.rank, local_rank=group.rank, world_size=size, local_world_size=size, node_rank=0
        )

    @property
    def leads_node(self) -> bool:
        """Whether this rank represents the ranks of its node."""
        return self.local_rank == 0


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} in the environment is no whole number") from None


def _range(name: str) -> tuple[float, float] | None:
    """Read a range such as `128:4096`; ValueError names the variable if it is invalid."""
    text = os.environ.get(name, "")
    if not text:
        return None
    try:
        least, most = (float(part) for part in text.split(":"))
    except ValueError:
        raise ValueError(f"{name}={text!r} in the environment is no range such as 128:4096") from None
    return least, most


def _moment(name: str) -> float | None:
    """A Unix time that Rota sets; an invalid one counts as missing, since it only serves measurements."""
    try:
        moment = float(os.environ.get(name, ""))
    except ValueError:
        return None
    return moment if 0.0 < moment < float("inf") else None
