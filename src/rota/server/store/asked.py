"""What a specification asks for: its jobs, and each of them as the columns of the scheduler's table."""

from __future__ import annotations

from rota.errors import InputError
from rota.model.jobs import AllowedCounts, JobKind
from rota.server.store.rows import JobAsked, NewJob
from rota.wire.job import JobSpec, array_indexes

_KINDS = {"train": JobKind.TRAIN, "opportunistic": JobKind.OPPORTUNISTIC, "service": JobKind.SERVICE}
_COUNTS = {"any": AllowedCounts.ANY, "powers of two": AllowedCounts.POWERS_OF_TWO}


def asked(spec: JobSpec, user: str, tenant: str, epoch_s: float) -> JobAsked:
    """`spec`, submitted by `user` whose own tenant is `tenant`; moments count from `epoch_s` (Unix)."""
    low, high = spec.range
    group = spec.group or (f"{user}/{spec.name}" if spec.name else user)
    return JobAsked(
        name=spec.name,
        tenant=spec.tenant or tenant,
        group=group,
        workload=spec.workload or group,
        gpus=spec.gpus,
        gpus_min=low,
        gpus_max=high,
        counts=int(_COUNTS[spec.counts]),
        gpu_share=spec.gpu_share,
        gpu_memory_gib=spec.gpu_memory_gib,
        gpu_types=tuple(spec.gpu_types),
        cpus=spec.cpus,
        memory_gib=spec.memory_gib,
        kind=int(_KINDS[spec.kind]),
        priority=spec.priority,
        deadline_s=None if spec.deadline_s is None else spec.deadline_s - epoch_s,
        limit_s=spec.time_s,
        batch_size=spec.batch_size,
    )


def jobs_of(spec: JobSpec) -> list[NewJob]:
    """One job, or one for each index of an array; InputError for indexes that make no sense."""
    if not spec.array:
        return [NewJob(spec)]
    try:
        indexes, _ = array_indexes(spec.array)
    except ValueError as error:
        raise InputError(str(error)) from None
    return [NewJob(spec, index) for index in indexes]
