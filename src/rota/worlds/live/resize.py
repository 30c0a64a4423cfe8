"""A user changes a job's number of devices; a running job leaves by its checkpoint and starts again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.wire.sync import Wanted
from rota.worlds.live import lifecycle
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.dependencies import impossible, tenant_of
from rota.worlds.live.holds import BACK_OFF, Hold
from rota.worlds.live.inbox import CommandAsked
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.preemption import saves

DEVICES = frozenset({"gpus", "gpus_min", "gpus_max"})
RESIZED_BY = "resized by "
"""How the notice begins of an attempt that leaves for this."""


def changed(spec: JobSpec, args: Mapping[str, Any]) -> JobSpec:
    """`spec` with other values; a new range without a number keeps the number, or its nearest end.

    Raises pydantic's ValidationError.
    """
    low, high = args.get("gpus_min"), args.get("gpus_max")
    more: dict[str, Any] = {}
    if "gpus" not in args and low is not None and high is not None:
        more["gpus"] = min(max(spec.gpus, low), high)
    return JobSpec.model_validate({**spec.model_dump(), **args, **more})


def resize(live: LiveJobs, job: LiveJob, asked: CommandAsked, batch: BatchBuilder) -> str:
    """Stop `job` if it runs on another number of devices than it now asks for.

    Returns why that cannot be, or nothing.  Its request changes after the step; until then it is held.
    """
    try:
        new = changed(job.spec, asked.args)
    except ValidationError:
        return ""  # the change itself reports the error
    never = impossible(live.machines.cluster, new, tenant_of(live, job))
    if never is not None:
        return f"it {never.constraint().sentence('device')}"
    attempt, is_running = job.attempt, live.is_running(job)
    if attempt is None or attempt.is_over or not (is_running or attempt.is_suspended):
        return ""
    held = len(attempt.grant.devices)
    if attempt.is_trial or _admits(new, held):
        return ""
    if attempt.has_begun and not saves(job):
        return (
            f"it is on {held} device{'' if held == 1 else 's'} and its program saves nothing, so it would "
            f"begin anew; if that is meant, `rota requeue {job.id}` and change it while it waits"
        )
    if is_running:  # one that is suspended leaves when it gets its new devices
        text = f"{RESIZED_BY}{asked.user} from {held} to {new.gpus} device{'' if new.gpus == 1 else 's'}"
        batch.end(job.row, How.PREEMPTED, Phase.PENDING)
        lifecycle.send_away(live, job, attempt, How.PREEMPTED, "resized", text, Wanted.LEAVE)
        lifecycle.hold(live, job, Hold(BACK_OFF, text, batch.now), batch)  # until it asks for the new number
    return ""


def _admits(spec: JobSpec, devices: int) -> bool:
    """Whether the job can run on this number of devices."""
    low, high = spec.range
    return low <= devices <= high and (spec.counts == "any" or devices & (devices - 1) == 0)
