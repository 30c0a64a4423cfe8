"""Fields of a job that have no effect: another one is missing, or the policy does not read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rota.errors import InputError, RotaError
from rota.knowledge.needs import Knowledge
from rota.model.units import format_duration, plural
from rota.scheduler.policy import Lever, parse_policy
from rota.scheduler.reads import Reads
from rota.wire.job import JobSpec


def unread_by_itself(spec: JobSpec) -> list[str]:
    """Fields without effect under any policy."""
    said = []
    low, high = _sizes(spec)
    steps = " and ".join(["counts"] * (spec.counts != "any") + ["gpus_step"] * (spec.gpus_step > 1))
    if low == high and steps:
        said.append(f"{_has(steps)} no effect: without gpus_range it runs on {plural(low, 'GPU')} alone")
    if spec.output_limit_gib and not (spec.output or spec.error):
        said.append("output_limit has no effect: neither output nor error names a file")
    if spec.accept_later_deadline and not _is_due(spec):
        said.append("accept_later_deadline has no effect: it has no deadline")
    if high == 0 and (names := _of_devices(spec)):
        said.append(f"{_has(names)} no effect on a job without GPUs")
    if spec.notice_signal and not spec.notice_s:
        said.append("notice has no effect: it comes 0 seconds before SIGTERM")
    if spec.notice_signal and spec.time_s is not None and spec.time_s < spec.notice_s:
        late, limit = format_duration(spec.notice_s), format_duration(spec.time_s)
        said.append(
            f"notice of {late} is longer than time, {limit}: it comes as soon as the job runs, and SIGTERM "
            f"{late} after it"
        )
    if spec.group_rule == "first" and not spec.group:
        whose = f"your jobs named {spec.name!r}" if spec.name else "your jobs without a name"
        said.append(
            f"group_rule=first goes by group, and none is given: the first of all {whose} that say so ends "
            "the others"
        )
    return said


def unread_by_policy(policy: str, spec: JobSpec) -> list[str]:
    """Fields without effect under `policy`, as typed; none under a policy that is unknown here."""
    known = _known(policy)
    if known is None:
        return []
    name, reads = known.name, known.reads
    said = []
    low, high = _sizes(spec)
    if low != high and not reads.sizes:
        said.append(f"{name} gives each job the GPUs that it asks for: the range {low}:{high} has no effect")
    if spec.batch_min is not None and not reads.batches:
        said.append(f"{name} never changes batches: the range of its batch has no effect under it")
    if spec.accept_later_deadline and _is_due(spec) and not reads.offers:
        said.append(f"{name} never offers a later deadline: accepting one has no effect under it")
    if spec.weight != 1.0 and not known.heeds_weight:
        said.append(f"{name} does not look at weights: weight {spec.weight:g} has no effect under it")
    if spec.kind == "opportunistic" and not (known.heeds_kind or Lever.PREEMPT in reads.levers):
        said.append(f"{name} never stops a running job: the kind opportunistic has no effect under it")
    return said


def unread_knowledge(policy: str, knowledge: Mapping[str, str]) -> list[str]:
    """Which of `knowledge`, sources by kind, `policy` never asks; durations serve estimates as well."""
    known = _known(policy)
    if known is None:
        return []
    name, reads = known.name, known.reads
    unread = sorted(set(knowledge) - reads.needs - {Knowledge.DURATION})
    return [f"knowledge {kind}={knowledge[kind]} has no effect: {name} reads no {kind}" for kind in unread]


class _Known(NamedTuple):
    """A policy that is known here."""

    name: str
    reads: Reads
    heeds_kind: bool
    heeds_weight: bool


@lru_cache(maxsize=64)
def _known(policy: str) -> _Known | None:
    try:
        spec = parse_policy(policy)
        return _Known(spec.name, Reads.of([spec.make()]), spec.heeds_kind, spec.heeds_weight)
    except RotaError:
        return None


def _sizes(spec: JobSpec) -> tuple[int, int]:
    low = spec.gpus if spec.gpus_min is None else spec.gpus_min
    return low, spec.gpus if spec.gpus_max is None else spec.gpus_max


def _is_due(spec: JobSpec) -> bool:
    return bool(spec.deadlines) or spec.deadline_s is not None


def _has(names: str) -> str:
    """`a has`, `a and b have`."""
    return f"{names} {'have' if ' and ' in names else 'has'}"


def _of_devices(spec: JobSpec) -> str:
    """Names of the fields about devices, joined by `and`."""
    said = {
        "gpu_type": spec.gpu_types,
        "gpu_memory": spec.gpu_memory_gib,
        "gpu_persistent": spec.gpu_persistent_gib,
        "idle_after": spec.idle_after_s,
        "trial": spec.trial,
    }
    return " and ".join(name for name, value in said.items() if value)


NAMED = 5
"""Most jobs that are named."""


def unread_priority(policy: str, priority: int) -> list[str]:
    """A warning for a job with this priority under `policy`, as typed; none if it counts, or is 0."""
    if not priority or _heeds(policy):
        return []
    return [f"{_ignores(policy)}: priority {priority} has no effect under it"]


def unread_deadline(policy: str, deadlines: bool) -> list[str]:
    """A warning for a job with a deadline under `policy`, as typed; none if it counts."""
    if not deadlines or _heeds_deadlines(policy):
        return []
    name = parse_policy(policy).name
    return [f"{name} orders jobs without looking at deadlines: this one has no effect under it"]


def unread_priorities(policy: str, ids: Sequence[str]) -> list[str]:
    """A warning for a change to `policy` while the jobs `ids`, which have priorities, wait."""
    if not ids or _heeds(policy):
        return []
    those = "that of 1 waiting job has" if len(ids) == 1 else f"those of {len(ids):,} waiting jobs have"
    named = ", ".join(ids[:NAMED]) + (", …" if len(ids) > NAMED else "")
    return [f"{_ignores(policy)}: {those} no effect under it ({named})"]


@lru_cache(maxsize=64)
def _heeds(policy: str) -> bool:
    """True also of a policy that is unknown here."""
    try:
        return parse_policy(policy).heeds_priority
    except InputError:
        return True


@lru_cache(maxsize=64)
def _heeds_deadlines(policy: str) -> bool:
    """Also true of a policy that is unknown here."""
    try:
        return parse_policy(policy).heeds_deadlines
    except InputError:
        return True


@lru_cache(maxsize=64)
def answers_deadlines(policy: str) -> bool:
    """True if `policy` says which deadlines it will keep."""
    try:
        return parse_policy(policy).promises
    except InputError:
        return False


def _ignores(policy: str) -> str:
    return f"{parse_policy(policy).name} orders jobs without looking at priorities"
