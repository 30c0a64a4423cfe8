"""Which numbers of GPUs an elastic job can use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rota.model.job_columns import AllowedCounts
from rota.model.jobs import JobTable

_POWERS_OF_TWO = int(AllowedCounts.POWERS_OF_TWO)


def feasible_counts(jobs: JobTable, row: int, most: int | None = None) -> Sequence[int]:
    """Numbers of GPUs that `row` can use, ascending; at most `most`, but always its least."""
    least, largest = jobs.gpus_min.item(row), jobs.gpus_max.item(row)
    if most is not None:
        largest = max(least, min(largest, most))
    if least == largest:  # as most jobs ask for
        return range(least, least + 1)
    counts = range(least, largest + 1, jobs.gpus_step.item(row))
    if jobs.counts.item(row) == _POWERS_OF_TWO:
        return _powers_among(counts) or (least,)
    return counts


@lru_cache(maxsize=1024)
def _powers_among(counts: range) -> tuple[int, ...]:
    powers = (1 << power for power in range(counts.stop.bit_length()))
    return tuple(count for count in powers if count in counts)
