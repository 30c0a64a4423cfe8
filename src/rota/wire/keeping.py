"""What lies on an agent's disk of jobs that have ended, and what of it may go.

An agent names the jobs that left something there in `POST /v1/agents/NODE/kept`; the controller answers whose
files are not kept any longer.  Both may be said again: a job that is over stays so.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from rota.wire.numbers import Count, Unix

MOST_ROWS = 1000
"""Of one question."""


class Disk(BaseModel):
    """The file system with the agent's folder, and what ended jobs take of it."""

    total_bytes: Count = 0
    free_bytes: Count = 0
    """For the agent's user."""
    files_bytes: Count = 0
    """Logs and records of jobs of which nothing runs there, as last looked at."""
    checkpoints_bytes: Count = 0
    """Their checkpoints, unless a shared folder takes them."""


class Kept(BaseModel):
    """What an agent has to say of its disk."""

    disk: Disk
    rows: list[Count] = Field(default=[], max_length=MOST_ROWS)
    """Rows of jobs of which something lies there."""
    submit_s: dict[Count, Unix] = Field(
        default={}, max_length=MOST_ROWS, json_schema_extra={"propertyNames": {"pattern": "^[0-9]{1,15}$"}}
    )
    """Unix times at which those jobs were submitted, by row, where the folders say so: of a row that belonged
    to another job before a store was restored, nothing goes."""
    files_bytes: dict[Count, Count] = Field(
        default={}, max_length=MOST_ROWS, json_schema_extra={"propertyNames": {"pattern": "^[0-9]{1,15}$"}}
    )
    """What logs and folders of those jobs take, by row, as far as it has been measured."""


class KeptReply(BaseModel):
    """What the agent may remove."""

    files: list[int] = []
    """Rows, of those asked about, whose logs and folders are not kept any longer."""
    checkpoints: list[int] = []
    """Rows whose checkpoints are not."""
    again_s: float = 3600.0
    """After this time it is worth asking again."""
