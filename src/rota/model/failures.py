"""Causes of failed attempts: the signatures that a trace or a log names, and the class of each.

Signatures are those of the Philly study (Jeon et al., USENIX ATC 2019, table of failures), and the names that
the classifier of live jobs and the readers of traces give.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum


class FailureClass(StrEnum):
    """What caused a failure: the user or the infrastructure."""

    USER = "user"  # the program, its inputs, its settings: it fails again
    INFRASTRUCTURE = "infrastructure"  # a device, a node, network or storage: it may not
    UNKNOWN = "unknown"  # no cause is known


NO_SIGNATURE = "no signature"

INFRASTRUCTURE = frozenset(
    {
        "model checkpoint error", "MPI runtime failure", "job preempted", "GPU ECC error",
        "node failure",
        "device fault", "network fault", "storage fault", "bus error", "killed from outside",
    }
)  # fmt: skip
"""Signatures of the study (a checkpoint fails as the file system does), of Slurm and of the live
classifier."""


def class_of(signature: str) -> FailureClass:
    """The class of failures of this signature; unknown for an empty one."""
    if signature in INFRASTRUCTURE:
        return FailureClass.INFRASTRUCTURE
    return FailureClass.UNKNOWN if signature in ("", NO_SIGNATURE) else FailureClass.USER


class RetryHistory:
    """Outcomes of retries after failures of each signature, by the user of the job.

    Failures of the infrastructure are not noted: what it does to other jobs passes.
    """

    def __init__(self) -> None:
        self._vain: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        """By signature and user, the jobs that failed with it, were tried again, and failed with it again."""
        self._useful: dict[str, set[str]] = defaultdict(set)
        """By signature, users with a job that got past the failure when tried again."""

    def note(self, user: str, row: int, failed_of: str, then: str | None) -> None:
        """A job of `user` was tried again after `failed_of`, and failed with `then`; None if it succeeded."""
        if not failed_of or then == "" or class_of(failed_of) is FailureClass.INFRASTRUCTURE:
            return
        if then == failed_of:
            self._vain[failed_of][user].add(row)
        else:
            self._useful[failed_of].add(user)

    def is_vain(self, user: str, row: int, signature: str, others: int) -> bool:
        """True if retries after `signature` were in vain for `others` others, and of use to none.

        That is `others` other jobs of `user`, or jobs of as many other users.
        """
        vain, useful = self._vain.get(signature, {}), self._useful.get(signature, ())
        if not others or user in useful:
            return False
        own = len(vain.get(user, set()) - {row})
        return own >= others or (not useful and len(vain.keys() - {user}) >= others)
