"""Memory, control groups, the user and its limits."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator

from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces, first_line
from rota.engines.rota.cgroups import Cgroups
from rota.engines.rota.usage import machine_memory_gib

GIB = float(2**30)
FEW_FILES, TOO_FEW_FILES = 4096, 256
"""A controller has a connection or two with every agent and every waiting client."""
FEW_PROCESSES = 1024
SMALL_SHM_GIB = 1.0


def memory(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Host memory (suspended jobs may hold half of it by default); shared memory of workers."""
    gib = machine_memory_gib()
    advice = "suspended jobs may hold half of it, unless `suspend_memory_gib` in config.yaml says otherwise"
    yield MachineFinding("memory", FindingState.OK, f"{gib:.1f} GiB", advice, {"memory_gib": gib})
    shared = machine.dev / "shm"
    if not shared.is_dir():
        advice = "mount a tmpfs there: data loaders of PyTorch fail without it"
        yield MachineFinding("shared memory", FindingState.ADVICE, f"there is no {shared}", advice)
        return
    size = shutil.disk_usage(shared).total / GIB
    facts = {"shm_gib": round(size, 3)}
    if size < SMALL_SHM_GIB:
        advice = "data loaders of PyTorch need more: in a container, --shm-size or --ipc=host"
        yield MachineFinding(
            "shared memory", FindingState.ADVICE, f"{size * 1024:.0f} MiB in {shared}", advice, facts
        )
        return
    yield MachineFinding("shared memory", FindingState.OK, f"{size:.1f} GiB in {shared}", facts=facts)


def control_groups(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Whether an attempt can have a group of its own."""
    groups = Cgroups.probe(machine.proc / "self")
    if groups.base is not None:
        yield MachineFinding("control groups", FindingState.OK, f"attempts get groups below {groups.base}")
        return
    advice = (
        "jobs are found by process tree, session and environment, which programs that hide on purpose can "
        "leave; Delegate=yes in a systemd unit gives the agent groups"
    )
    yield MachineFinding("control groups", FindingState.ADVICE, f"none to be had: {groups.why}", advice)


def limits(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Open files and processes that this user may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    facts = {"soft": _number(soft), "hard": _number(hard)}
    says = f"{_shown(soft)} at once, {_shown(hard)} at most"
    advice = "the controller raises it to the most; LimitNOFILE= of a unit, or `ulimit -Hn`, sets that"
    if _under(hard, TOO_FEW_FILES):
        yield MachineFinding(
            "open files", FindingState.BROKEN, says, f"too few for a controller: {advice}", facts
        )
    elif _under(hard, FEW_FILES):
        yield MachineFinding(
            "open files", FindingState.ADVICE, says, f"few for a cluster of many nodes: {advice}", facts
        )
    else:
        yield MachineFinding("open files", FindingState.OK, says, facts=facts)
    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    kernels = first_line(machine.proc / "sys/kernel/pid_max")
    facts = {"user": _number(most), "pid_max": int(kernels) if kernels.isdecimal() else None}
    says = f"{_shown(most)} for this user" + (f", {kernels} on this machine" if kernels else "")
    if os.geteuid() and _under(most, FEW_PROCESSES):
        advice = "ranks and data loaders are many: raise it with LimitNPROC= or `ulimit -u`"
        yield MachineFinding("processes", FindingState.ADVICE, says, advice, facts)
    else:
        yield MachineFinding("processes", FindingState.OK, says, facts=facts)


def user(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Whether an agent of this user can start jobs of others."""
    if os.geteuid() == 0:
        yield MachineFinding(
            "user", FindingState.OK, "root: an agent starts each job as the user who submitted it"
        )
        return
    yield MachineFinding(
        "user",
        FindingState.OK,
        f"user {os.geteuid()}: an agent starts every job as this user",
        "run the agent as root where people shall be kept apart",
    )


def _number(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def _shown(limit: int) -> str:
    return "any number" if limit == resource.RLIM_INFINITY else str(limit)


def _under(limit: int, least: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < least
