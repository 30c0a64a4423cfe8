"""Groups of which the first job to complete ends the others (`group_rule` of a job)."""

from __future__ import annotations

from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.sync import Wanted
from rota.worlds.live import lifecycle
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.timers import AFTERWARDS_S


def end_others(live: LiveJobs, first: LiveJob, batch: BatchBuilder) -> None:
    """`first` has completed: who of its group has been submitted, and says so too, is cancelled."""
    if first.spec.group_rule != "first":
        return
    group = live.state.jobs.group
    for job in list(live.values()):
        is_sibling = job.row < live.state.submitted and group[job.row] == group[first.row]
        if not is_sibling or job.is_over or job.spec.group_rule != "first":
            continue
        why = f"job {first.id} of its group has completed"
        if job.row in batch.touched:
            job.needless = why
            live.unsaved.job(job)
            live.timers.set(job.row, batch.now + AFTERWARDS_S)
        else:
            cancel(live, job, why, batch)


def cancel(live: LiveJobs, job: LiveJob, why: str, batch: BatchBuilder, wanted: Wanted = Wanted.STOP) -> None:
    """End `job`, which waits, is held or runs; its processes leave as `wanted` says."""
    was_running = live.is_running(job)
    lifecycle.end(live, job, "CANCELLED", why)
    lifecycle.send_all_away(live, job, How.CANCELLED, "cancelled", wanted)
    if was_running:
        batch.end(job.row, How.CANCELLED, Phase.CANCELLED)
    else:
        batch.settle(job.row, Phase.CANCELLED)
