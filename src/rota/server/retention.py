"""How long ended jobs, their files and the audit are kept, and messages about removed ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rota.model.units import format_duration

LEAST_S, MOST_S = 1.0, 3600.0
"""Shortest and longest pause between two looks at expired records."""
LOOKS = 10
"""Looks within the shortest time that something is kept: nothing stays a tenth longer than it should."""


@dataclass(frozen=True)
class Keep:
    """Seconds after which things go; infinite for never."""

    files_s: float = math.inf
    """Logs and folders of a job on the agents' disks, from its end."""
    checkpoints_s: float = math.inf
    """Its checkpoints there."""
    history_s: float = math.inf
    """The job on record, with attempts and usage."""
    events_s: float = math.inf
    """Lines of the audit, and commands that are done."""
    keys_s: float = math.inf
    """Keys that identify a repeated submission."""

    @property
    def agents_again_s(self) -> float:
        """When an agent should ask again what it may remove."""
        return again_s((self.files_s, self.checkpoints_s))

    @property
    def store_again_s(self) -> float:
        """Pause between two looks at the store."""
        return again_s((self.history_s, self.events_s, self.keys_s))

    def gone(self, job: str, ended_ago_s: float) -> str:
        """The sentence about the files of a job that ended `ended_ago_s` ago; empty while all are kept."""
        terms = (
            ("logs", self.files_s, "keep_files"),
            ("checkpoints", self.checkpoints_s, "keep_checkpoints"),
        )
        over = [
            f"its {what} are kept for {words(kept_s)} ({setting})"
            for what, kept_s, setting in terms
            if ended_ago_s > kept_s
        ]
        if not over:
            return ""
        return f"job {job} ended {words(ended_ago_s)} ago; {' and '.join(over)}, and then removed"

    def logs_gone(self, job: str, ended_ago_s: float) -> str:
        """Message in place of a removed log; empty if the log should be there."""
        if ended_ago_s <= self.files_s:
            return ""
        return (
            f"the logs of job {job} have been removed: it ended {words(ended_ago_s)} ago, and logs are kept "
            f"for {words(self.files_s)} (keep_files)"
        )

    def forgotten(self, job: str) -> str:
        """Message about a job that is no longer on record."""
        return (
            f"job {job} is on record no more: it ended more than {words(self.history_s)} ago (keep_history)"
        )


def too_many(job: str, most_mib: int) -> str:
    """Message in place of a removed log that was not kept for its whole time."""
    return (
        f"the logs of job {job} are not there any more: ended jobs of a user, and of a tenant, leave up to "
        f"{most_mib:,} MiB on a machine (caps: kept_mib), and the oldest go first"
    )


def again_s(kept: Iterable[float]) -> float:
    """Seconds between two looks at records that are kept for these times."""
    return min(MOST_S, max(LEAST_S, min(kept) / LOOKS))


def words(seconds: float) -> str:
    """A duration as the settings have it: `30d`, `1m30s`."""
    return format_duration(seconds).replace(" ", "")
