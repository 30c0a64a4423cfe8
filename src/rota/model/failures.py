"""What attempts fail of: the signatures that a trace or a log names, and whose fault each is.

Signatures are those of the Philly study (Jeon et al., USENIX ATC 2019, table of failures), and the names that
the classifier of live jobs and the readers of traces give.
"""

from __future__ import annotations

from enum import StrEnum


class FailureClass(StrEnum):
    """Whose fault a failure is."""

    USER = "user"  # the program, its inputs, its settings: it fails again
    INFRASTRUCTURE = "infrastructure"  # a device, a node, network or storage: it may not
    UNKNOWN = "unknown"  # nothing says


NO_SIGNATURE = "no signature"

INFRASTRUCTURE = frozenset(
    {
        "model checkpoint error", "MPI runtime failure", "job preempted", "GPU ECC error",
        "node failure",
        "device fault", "network fault", "storage fault", "bus error", "killed from outside",
    }
)  # fmt: skip
"""The study's (a checkpoint fails as the file system does), Slurm's, those of the classifier of live jobs."""


def class_of(signature: str) -> FailureClass:
    """Whose fault failures of this signature are; unknown for an empty one."""
    if signature in INFRASTRUCTURE:
        return FailureClass.INFRASTRUCTURE
    return FailureClass.UNKNOWN if signature in ("", NO_SIGNATURE) else FailureClass.USER
