"""Parameters of Chronus."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from rota.errors import InputError


class LeaseObjective(StrEnum):
    """Preference among equally good plans for the lease that begins."""

    ADAPTIVE = "adaptive"  # as few GPUs as possible while some job could not be promised its deadline
    MAXIMISE = "maximise"  # as many GPUs as possible
    MINIMISE = "minimise"  # as few as possible: planned work as late as it bears, spare GPUs now


GUARANTEE_UP_TO_S = 1800.0
"""Longest lease with which jobs without a promise can be sure of their GPUs to the end of one."""


@dataclass(frozen=True)
class ChronusParameters:
    """Parameters of `chronus`."""

    lease_s: float = 1200.0
    """Length of a lease: jobs with a promised deadline are planned in whole ones."""
    slot_s: float = 300.0
    """Length of an inner slot: jobs are admitted, and spare GPUs given out, when one begins."""
    overhead_s: float = 30.0
    """Saving and loading a job on one GPU, counted once a lease; on more, 1 + log2 of them times it."""
    safety: float = 1.1
    """Factor on the estimated run time."""
    objective: LeaseObjective = LeaseObjective.ADAPTIVE
    """Preference among equally good plans for the lease that begins."""
    tolerance: float = 1.0
    """A deadline that cannot be kept is promised if this multiple of the requested time suffices."""
    guarantee: bool = True
    """Jobs without a promise that end within the lease keep their GPUs until then, if leases are short."""
    rows: int = 400
    """Jobs and deadlines of one integer program; with more, the largest jobs stay as they were planned."""
    columns: int = 6000
    """Jobs, deadlines and leases of one integer program; with more, as under `rows` (ours)."""
    nodes: int = 50
    """Nodes of the program's search tree."""
    wall_s: float = 5.0
    """Seconds that the program may take: a safety net."""
    search: int = 20
    """Trials of the search for better places, for jobs that lie apart and are slowed down by it."""
    offer_s: float = 0.0
    """Time for which a later deadline is offered where one cannot be promised; 0 runs it on spare GPUs."""
    profile_nodes: int = 0
    """Nodes set apart for profiling runs of jobs that come; with 0 there are none."""
    profile_s: float = 30.0
    """Length of a profiling run for each GPU of the job, at most 120 s."""
    frees_all_at_leases: ClassVar[bool] = False
    """Every job without a lease is stopped when a lease begins, and starts again if there is room."""
    by_run_time: ClassVar[bool] = False
    """Measure progress by the time that a job ran, and decide whether it ends in a lease by its run time
    instead of its estimate."""
    remembers_short: ClassVar[bool] = False
    """The lease after one that left a job without its promise is planned as short of GPUs, too."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("lease_s", self.lease_s, 1e-9),
            ("slot_s", self.slot_s, 1e-9),
            ("overhead_s", self.overhead_s, 0.0),
            ("safety", self.safety, 1e-9),
            ("wall_s", self.wall_s, 1e-9),
            ("offer_s", self.offer_s, 0.0),
            ("profile_s", self.profile_s, 1e-9),
        ):
            if not least <= value < float("inf"):
                what = "above 0" if least else "0 or more"
                raise InputError(f"policy 'chronus': {name}={value:g} is not {what}")
        if not 1.0 <= self.tolerance < float("inf"):
            raise InputError(f"policy 'chronus': tolerance={self.tolerance:g} is not 1 or more")
        for name, number in (("rows", self.rows), ("columns", self.columns), ("nodes", self.nodes)):
            if number < 1:
                raise InputError(f"policy 'chronus': {name}={number} is not 1 or more")
        for name, number in (("search", self.search), ("profile_nodes", self.profile_nodes)):
            if number < 0:
                raise InputError(f"policy 'chronus': {name}={number} is not 0 or more")
        slots = self.lease_s / self.slot_s
        if abs(slots - round(slots)) > 1e-9 or slots < 0.5:
            raise InputError(
                f"policy 'chronus': a lease of {self.lease_s:g} s is no whole number of slots of "
                f"{self.slot_s:g} s"
            )

    @property
    def guarantees(self) -> bool:
        """True if jobs without a promise may be sure of their GPUs to the end of the lease."""
        return self.guarantee and self.lease_s <= GUARANTEE_UP_TO_S
