"""Resizes that overlap with training: the old workers go on until the new ones are ready.

As CoDDL and Elan do it, a job that is given more GPUs goes through two phases.  The new workers start while
the old ones work on at their old rate; once all are ready every worker stops for a moment, the state is
handed over, and the job works on at its new rate.  A further change before that moment takes back what was
begun: the newest target counts, nothing queues up, and what was asked for and taken back costs nothing.

Sources: Hwang et al., NSDI 2021 (CoDDL); Xie et al., ICDCS 2020 (Elan).
"""

from __future__ import annotations

from typing import NamedTuple

from rota.worlds.simulated.pace import Pace

Devices = frozenset[int]


class Growing(NamedTuple):
    """A job between two sizes."""

    devices: Devices
    """Where it works until the switch."""
    rate: float
    """Its rate until the switch."""
    prepared_s: float
    """When the new workers are ready, and all stop."""
    ready_s: float
    """When the job works at its new rate."""


class Switch(NamedTuple):
    """What a change of devices means for a job that runs."""

    works_from_s: float
    """It works, at whatever rate, from then on."""
    ready_s: float
    """It works at the rate of its new devices from then on."""
    stalled_s: float
    """Seconds from now on in which it stands still."""


class Overlap:
    """The jobs that are between two sizes."""

    def __init__(self) -> None:
        self._growing: dict[int, Growing] = {}

    def __contains__(self, row: int) -> bool:
        return row in self._growing

    def is_switching(self, row: int, now: float) -> bool:
        """True if the new workers of `row` are ready, so that it works next on what it holds."""
        growing = self._growing.get(row)
        return growing is not None and growing.prepared_s <= now <= growing.ready_s

    def forget(self, row: int) -> None:
        """`row` has stopped, or starts over."""
        self._growing.pop(row, None)

    def pace(self, row: int, now: float) -> Pace | None:
        """The rate of `row` while it is between two sizes; None once it is not."""
        growing = self._growing.get(row)
        if growing is None or now >= growing.ready_s:
            return None
        if now < growing.prepared_s:
            return Pace(growing.rate, until_s=growing.prepared_s)
        return Pace(0.0, until_s=growing.ready_s)

    def change(
        self,
        row: int,
        old: tuple[int, ...],
        new: tuple[int, ...],
        *,
        now: float,
        from_s: float,
        rate: float,
        prepare_s: float,
        pause_s: float,
    ) -> Switch:
        """`row`, which holds `old`, is given `new` instead.

        It works at `rate` where it is, from `from_s` on if it still starts up.  To grow it prepares for
        `prepare_s` while it works on, and pauses for `pause_s`; to shrink it pauses at once.  A job that
        gives up devices and gets others cannot go on where it was, so it stands still for both.
        """
        before = self._growing.pop(row, None)
        here = frozenset(old)
        if before is not None and now < before.prepared_s:
            here = before.devices
        elif before is not None:
            from_s = max(from_s, before.ready_s)
        wanted = frozenset(new)
        if wanted == here:
            return Switch(from_s, from_s, from_s - now)
        if wanted < here:
            return Switch(from_s + pause_s, from_s + pause_s, from_s + pause_s - now)
        if not here < wanted:
            ready_s = now + prepare_s + pause_s
            return Switch(ready_s, ready_s, ready_s - now)
        prepared_s = now + prepare_s
        if before is not None and now < before.prepared_s and wanted <= frozenset(old):
            prepared_s = before.prepared_s  # its new workers are on their way
        prepared_s = max(prepared_s, from_s)
        self._growing[row] = Growing(here, rate, prepared_s, prepared_s + pause_s)
        return Switch(from_s, prepared_s + pause_s, from_s - now + pause_s)
