"""What ended jobs have left on an agent's disk, and which of it may be removed.

An agent names the jobs that left something there in `POST /v1/agents/NODE/kept`; the controller answers which
of their files are kept no longer. Both messages may be repeated: a job that has ended stays ended.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from rota.wire.numbers import Count, Unix

MOST_ROWS = 1000
"""Most rows in one request."""


class Disk(BaseModel):
    """The file system that holds the agent's folder, and the space that ended jobs take there."""

    total_bytes: Count = 0
    free_bytes: Count = 0
    """Free bytes, as the agent's user may use them."""
    files_bytes: Count = 0
    """Logs and records of jobs that run nothing there any more, as last measured."""
    checkpoints_bytes: Count = 0
    """Checkpoints of these jobs, unless they are in a shared folder."""


class Kept(BaseModel):
    """An agent's request about its disk."""

    disk: Disk
    rows: list[Count] = Field(default=[], max_length=MOST_ROWS)
    """Rows of jobs that left something there."""
    submit_s: dict[Count, Unix] = Field(
        default={}, max_length=MOST_ROWS, json_schema_extra={"propertyNames": {"pattern": "^[0-9]{1,15}$"}}
    )
    """Unix times at which those jobs were submitted, by row, where the folders say so. A row that belonged to
    another job before a store was restored is known by it, and nothing of it is removed."""
    files_bytes: dict[Count, Count] = Field(
        default={}, max_length=MOST_ROWS, json_schema_extra={"propertyNames": {"pattern": "^[0-9]{1,15}$"}}
    )
    """Bytes of logs and folders of those jobs, by row, as far as they have been measured."""


class KeptReply(BaseModel):
    """What the agent may remove."""

    files: list[int] = []
    """Rows, of those asked about, whose logs and folders are kept no longer."""
    checkpoints: list[int] = []
    """Rows, of those asked about, whose checkpoints are kept no longer."""
    again_s: float = 3600.0
    """Seconds after which the agent should ask again."""
