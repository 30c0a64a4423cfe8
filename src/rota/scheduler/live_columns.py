"""What the loop notes about each job, for policies that read single rows."""

from __future__ import annotations

from rota.model.columns import Array, Cells, Floats, Ints, cells, read_only
from rota.table.state import State


class LiveColumns:
    """What the loop notes about each job, read-only and uncut: for single rows in hot paths.

    Rows that have not been submitted yet read as if nothing had happened, which is true.  `phase_of` and
    similar fields are the cells of a column, which are read several times faster one by one.
    """

    def __init__(self, state: State) -> None:
        self.phase: Array = read_only(state.phase)
        self.first_start_s: Floats = read_only(state.first_start_s)
        self.since_s: Floats = read_only(state.since_s)
        """Start of the present stretch of running."""
        self.run_s: Floats = read_only(state.run_s)
        """Seconds run before the present stretch."""
        self.service: Floats = read_only(state.service)
        """GPU-seconds received before the present stretch."""
        self.service_rate: Floats = read_only(state.service_rate)
        """GPUs x share held now."""
        self.placed_s: Floats = read_only(state.placed_s)
        """Moment at which it last came to other devices."""
        self.adjusted_s: Floats = read_only(state.adjusted_s)
        """Moment at which what it holds was last adjusted where it is; 0 if it never was."""
        self.starts: Ints = read_only(state.starts)
        self.moves: Ints = read_only(state.moves)
        """How often it came to other devices after its first start: by a start, a move or a resize."""
        self.preemptions: Ints = read_only(state.preemptions)
        self.failures: Ints = read_only(state.failures)
        self.phase_of: Cells[int] = cells(self.phase)
        self.first_of: Cells[float] = cells(self.first_start_s)
        self.since_of: Cells[float] = cells(self.since_s)
        self.run_of: Cells[float] = cells(self.run_s)
        self.service_of: Cells[float] = cells(self.service)
        self.rate_of: Cells[float] = cells(self.service_rate)
        """GPUs × share held now, by row."""
        self.starts_of: Cells[int] = cells(self.starts)
