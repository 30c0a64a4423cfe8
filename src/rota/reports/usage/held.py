"""Who held how many GPUs from when to when: what usage is counted from, of a trace and of the live store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from rota.model.columns import Array, Floats

HOUR_S = 3600.0


@dataclass(frozen=True)
class Held:
    """Stretches of time in which jobs held GPUs: arrays of one length, several stretches of a job allowed."""

    source: str
    epoch: datetime | None
    """Moment 0 (UTC); None where seconds count from nowhere in particular."""
    job: Array
    """Number of the job: those of one job have the same."""
    start_s: Floats
    end_s: Floats
    """Not before `start_s`; equal to it for a job that held nothing."""
    gpus: Floats
    """Devices times the share of each; a MIG slice is one device."""
    failed: Floats
    """Part of the stretch, 0 to 1, in attempts that failed."""
    cancelled: Floats
    """1 if its user ended the job, else 0."""
    lost_gpu_s: Floats | None
    """Device-seconds of work that was lost at its end by preemption; None if that is not recorded."""
    busy: Floats
    """Part of the GPUs that was busy, 0 to 1; NaN where not measured."""
    wait_s: Floats
    """From submission to the first start of the job; NaN where not recorded."""
    is_known: Array
    """False where nobody knows how long the job ran."""
    has_starts: bool
    """False if no starts are recorded, so that stretches begin at submission."""
    names: Mapping[str, Sequence[str]]
    """What each stretch has of all in `rota.wire.usage.BY` but the month."""
    remarks: tuple[str, ...] = ()
    """What to know of all figures, as sentences."""

    def __len__(self) -> int:
        return len(self.job)

    def cut(self, low_s: float, high_s: float) -> tuple[Array, Floats, Floats]:
        """Places of the stretches in [low_s, high_s), and between which moments of it.

        One that holds nothing stands where it begins.
        """
        begins_inside = (self.start_s >= low_s) & (self.start_s < high_s)
        reaches_in = (self.start_s < low_s) & (self.end_s > low_s)
        places = np.flatnonzero(begins_inside | reaches_in)
        return places, np.maximum(self.start_s[places], low_s), np.minimum(self.end_s[places], high_s)
