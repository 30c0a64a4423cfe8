"""What a job asks for and what its program can do, in the same words on the terminal and on pages."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rota.model.words import count, duration, gib

if TYPE_CHECKING:
    from rota.wire.job import JobSpec
    from rota.wire.sync import Capability
    from rota.wire.views import AttemptView, JobView


def asked(spec: JobSpec, gpus: str, moment: Callable[[float], str]) -> Iterator[tuple[str, str]]:
    """Pairs of name and words for each property that differs from its default; empty words for the others.

    `gpus` says in words how many GPUs the job asks for and has; `moment` formats a Unix time.
    """
    low, high = spec.range
    elastic = f", {low} to {high}" + ("" if spec.counts == "any" else f" ({spec.counts})")
    elastic += f" in steps of {spec.gpus_step}" if spec.gpus_step > 1 else ""
    yield "command", shlex.join(in_short(word) for word in spec.command)
    yield "folder", spec.workdir
    yield "gpus", gpus + (elastic if low != high else "")
    yield "types", ",".join(spec.gpu_types)
    yield "nodes", spec.nodes.replace("|", ", ")
    yield (
        "share",
        f"{spec.gpu_share:g} of {'a' if spec.gpus == 1 else 'each'} device" if spec.gpu_share < 1.0 else "",
    )
    yield "gpu memory", f"{gib(spec.gpu_memory_gib)} GiB" if spec.gpu_memory_gib else ""
    yield "kept of it", f"{gib(spec.gpu_persistent_gib)} GiB" if spec.gpu_persistent_gib else ""
    yield "cpus", count(spec.cpus) if spec.cpus else ""
    yield "memory", f"{gib(spec.memory_gib)} GiB" if spec.memory_gib else ""
    yield "kind", spec.kind if spec.kind != "train" else ""
    yield "priority", str(spec.priority) if spec.priority else ""
    yield "weight", f"{spec.weight:g}" if spec.weight != 1.0 else ""
    yield "time limit", duration(spec.time_s) if spec.time_s else ""
    yield "deadline", moment(spec.deadline_s) if spec.deadline_s is not None else ""
    yield "worth", ", ".join(f"{due.value:g} by {moment(due.at_s)}" for due in spec.deadlines)
    yield "not before", moment(spec.begin_s) if spec.begin_s is not None else ""
    yield "after", ", ".join(f"{after.job} ({after.when})" for after in spec.after)
    yield "array", spec.array
    yield "batch", _batch(spec)
    yield "group", spec.group
    yield "group rule", spec.group_rule if spec.group_rule != "all" else ""
    yield "workload", spec.workload
    yield "comment", spec.comment


def _batch(spec: JobSpec) -> str:
    """The batch size and its range, `256, 128 to 4096`, as far as they are known."""
    size = [] if spec.batch_size is None else [f"{spec.batch_size:g}"]
    if spec.batch_min is not None and spec.batch_max is not None:
        size.append(f"{spec.batch_min:g} to {spec.batch_max:g}")
    return ", ".join(size)


def in_short(word: str) -> str:
    """A word of a command; a script is replaced by its number of lines (--json has the whole text)."""
    lines = word.rstrip("\n").count("\n") + 1
    return f"({lines} lines)" if lines > 1 else word


def abilities(can: Capability, attempts: Sequence[AttemptView]) -> Iterator[tuple[str, str]]:
    """Pairs of name and words about what the program can do, and the attempt that reported it."""
    able = {
        "checkpoint": can.checkpoint,
        "resize": can.resize,
        "change its batch size": can.batch_size,
        "move its state to host memory": can.to_host,
    }
    newest = max((one.number for one in attempts if one.start_s is not None), default=0)
    silent = f" (attempt {can.attempt} did; attempt {newest} has not said anything yet)"
    is_of_before = 0 < can.attempt < newest
    speaks = f"rota.training {can.training}{silent if is_of_before else ''}"
    yield "speaks", speaks if can.training else "not rota.training"
    yield "can", ", ".join(what for what, it_can in able.items() if it_can)
    yield "suspends by", can.suspend.value if can.suspend else ""


def spare(job: JobView, moment: Callable[[float], str]) -> str:
    """The promise and its slack, `by 2026-11-22T14:05:10, 12m to spare`; empty without a promise."""
    if job.promised_s is None:
        return ""
    by = f"by {moment(job.promised_s)}"
    if job.end_s is not None:
        late_s = job.end_s - job.promised_s
        return by + (", kept" if late_s <= 0 else f", {duration(late_s)} late")
    if job.expected_s is None:
        return f"{by}, at risk: no plan keeps it"
    spare_s = job.promised_s - job.expected_s
    told = (
        f"{duration(spare_s)} to spare" if spare_s >= 0 else f"at risk: {duration(-spare_s)} late as it looks"
    )
    return f"{by}, {told}"
