"""What the end of its last attempt means for a job: does it start over, and if not, how does it end?"""

from __future__ import annotations

from rota.table.state import Phase, State


def note_failure(state: State, row: int) -> None:
    """The present attempt of `row`, which runs, fails."""
    state.failures[row] += 1
    state.failed_start[row] = state.starts.item(row)


def begins_anew(state: State, row: int) -> bool:
    """True if `row`, which starts now, has nothing to go on with: nothing came before, or it failed."""
    before = state.starts.item(row) - 1
    return not before or state.failed_start.get(row) == before


def phase_of_refused(state: State, row: int) -> Phase:
    """How `row`, which waits or is held, ends if its policy refuses it, or its user a later deadline.

    Only a job that never ran is rejected.  Any other has failed if its last attempt did, as there will be no
    further one; else it is cancelled.
    """
    starts = state.starts.item(row)
    if not starts:
        return Phase.REJECTED
    return Phase.FAILED if state.failed_start.get(row) == starts else Phase.CANCELLED
