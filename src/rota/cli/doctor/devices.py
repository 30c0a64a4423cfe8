"""Devices: GPUs that NVML shows, checkpoints by the driver, and the cores for CPU slots."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces, first_line
from rota.engines.rota.cgroups import memberships
from rota.engines.rota.cuda_checkpoint import probe
from rota.engines.rota.nvml import Nvml, NvmlError, open_nvml
from rota.model.units import plural

GIB = float(2**30)
BUSY_GIB = 1.0
"""Memory in use on a GPU that is more than a driver's own."""


def gpus(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """GPUs that NVML shows, and the driver's abilities to handle their processes."""
    nvml = open_nvml()
    if isinstance(nvml, str):
        yield _no_nvml(machine, nvml)
        yield MachineFinding("driver checkpoint", FindingState.OK, "none: no NVIDIA driver", _OTHER_WAYS)
        return
    count = nvml.count()
    if not count:
        yield MachineFinding("GPUs", FindingState.OK, "none", "`rota up` takes the CPU cores as devices")
    for index in range(count):
        yield _gpu(nvml, index)
    yield _checkpoint(nvml.driver())


_OTHER_WAYS = "jobs give GPUs back by `rota.training` or a checkpoint of their own (docs/training.md)"


def _no_nvml(machine: MachinePlaces, why: str) -> MachineFinding:
    has_gpus = (machine.proc / "driver/nvidia/version").exists() or (machine.dev / "nvidia0").exists()
    if not has_gpus:
        return MachineFinding("GPUs", FindingState.OK, "none", "`rota up` takes the CPU cores as devices")
    advice = "pip install '.[nvidia]'"
    if "not installed" not in why:
        advice = "`nvidia-smi` should work first: look at the driver, and at the container's runtime"
    return MachineFinding("GPUs", FindingState.BROKEN, f"there is an NVIDIA driver, but {why}", advice)


def _gpu(nvml: Nvml, index: int) -> MachineFinding:
    subject = f"GPU {index}"
    try:
        name, uuid, memory = nvml.describe(index)
        busy, used = nvml.load(index)
        trouble = nvml.trouble(index)
    except NvmlError as error:
        return MachineFinding(
            subject, FindingState.BROKEN, str(error), "agents give no job to it; reset or replace it"
        )
    facts = {"type": name, "uuid": uuid, "memory_gib": round(memory / GIB, 1)}
    facts |= {"used_gib": round(used / GIB, 1), "utilisation": busy}
    says = f"{name}, {memory / GIB:.0f} GiB"
    if trouble:
        return MachineFinding(
            subject, FindingState.BROKEN, f"{says}: {trouble}", "agents give no job to it", facts
        )
    if used / GIB > BUSY_GIB:
        says += f", {used / GIB:.1f} GiB of it in use now"
        advice = (
            "if that is no job of Rota, `--devices nvidia:I,J` leaves this GPU to the process that uses it"
        )
        return MachineFinding(subject, FindingState.ADVICE, says, advice, facts)
    return MachineFinding(subject, FindingState.OK, says, facts=facts)


def _checkpoint(driver: str) -> MachineFinding:
    probed = probe(driver)
    facts = {"driver": driver, "works": probed.works}
    if probed.works:
        says = f"yes: {probed.why}"
        return MachineFinding(
            "driver checkpoint", FindingState.OK, says, "programs need no change to be suspended", facts
        )
    return MachineFinding("driver checkpoint", FindingState.ADVICE, f"no: {probed.why}", _OTHER_WAYS, facts)


def cores(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Cores that this process may use, and the CPU time that its control group allows."""
    count = len(os.sched_getaffinity(0))
    limit = cpu_limit(machine)
    facts = {"cores": count, "limit_cores": limit}
    if limit is not None and limit < count - 0.01:
        slots = max(1, math.floor(limit))
        yield MachineFinding(
            "CPU slots",
            FindingState.ADVICE,
            f"{plural(count, 'core')}, but a control group allows {limit:g} of CPU time",
            f"more slots than that would slow each other: `--devices cpu:{slots}`",
            facts,
        )
        return
    advice = f"`--devices cpu:{count}` makes each a device; more slots than cores share them"
    yield MachineFinding("CPU slots", FindingState.OK, plural(count, "core"), advice, facts)


def cpu_limit(machine: MachinePlaces) -> float | None:
    """Cores' worth of CPU time that our control groups allow; None if they set no limit."""
    groups = memberships(_text(machine.proc / "self/cgroup"))
    limits = []
    second = machine.sys / "fs/cgroup"
    for group in _upwards(groups.get("", "/")):
        quota, _, period = first_line(second / group / "cpu.max").partition(" ")
        limits.append(_ratio(quota, period))
    for group in _upwards(groups.get("cpu", "/")):
        folder = second / "cpu" / group
        limits.append(
            _ratio(first_line(folder / "cpu.cfs_quota_us"), first_line(folder / "cpu.cfs_period_us"))
        )
    return min((limit for limit in limits if limit is not None), default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _upwards(group: str) -> Iterator[str]:
    """`a/b`, `a` and the root, below the folder of a hierarchy."""
    parts = [part for part in group.split("/") if part]
    for length in range(len(parts), -1, -1):
        yield "/".join(parts[:length]) or "."


def _ratio(quota: str, period: str) -> float | None:
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return None  # `max`, -1, or no such file
    return int(quota) / int(period)
