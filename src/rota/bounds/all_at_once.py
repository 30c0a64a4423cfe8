"""Every job at once: no job waits, each has the GPUs it can use, as if the cluster had no end.

No schedule gives any job a shorter completion time than this, so neither a lower mean nor percentile.
"""

from __future__ import annotations

from rota.bounds.demand import RelaxedDemand, Schedule


def schedule(demand: RelaxedDemand) -> Schedule:
    """Runs every job from its release on, at full speed."""
    return Schedule(demand.release_s, demand.release_s + demand.fastest_s)
