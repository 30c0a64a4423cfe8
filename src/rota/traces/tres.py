"""Slurm's TRES texts (`cpu=8,mem=64G,gres/gpu=2,gres/gpu:a100=2`) as numbers.

The plain `gres/gpu` entry is the total; if there are only typed entries, they are summed. Memory without unit
is MiB, as everywhere in Slurm.
"""

from __future__ import annotations

import re

_GPU = re.compile(r"(?:^|,)gres/gpu(?::([^=,]+))?=(\d{1,15})(?=,|$)")
_PART = re.compile(r"(?:^|,)gres/(?:shard|mps)(?::[^=,]+)?=0*[1-9]")
_AMOUNT = re.compile(r"(?:^|,)(cpu|mem)=(\d{1,15}(?:\.\d+)?)([KMGTP]?)(?:[cn]?)(?=,|$)", re.IGNORECASE)
_USED = re.compile(r"(?:^|,)(mem|energy|gres/gpumem|gres/gpuutil)=(\d{1,15}(?:\.\d+)?)([KMGTP]?)(?=,|$)")
_CPU_USED = re.compile(r"(?:^|,)cpu=([^,]+)")
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d\d(?:\.\d+)?)")
_THOUSANDS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_COUNTED = re.compile(r"cpu|mem|gres/gpu(:[^=]+)?", re.IGNORECASE)
_GIB = {"K": 1 / 1024**2, "": 1 / 1024, "M": 1 / 1024, "G": 1.0, "T": 1024.0, "P": 1024.0**2}
_BYTES_GIB = _GIB | {"": 1 / 1024**3}


def unread_in(tres: str) -> str:
    """The first invalid amount of GPUs, cores or memory, such as `gres/gpu=two`; empty if there is none.

    Without this check it would count as 0.
    """
    for entry in tres.split(",") if tres else ():
        name, _, _ = entry.partition("=")
        if _COUNTED.fullmatch(name) and not (_GPU.fullmatch(entry) or _AMOUNT.fullmatch(entry)):
            return entry
    return ""


def gpus_in(tres: str) -> int:
    """GPUs of all types."""
    counts = _GPU.findall(tres)
    plain = [int(count) for kind, count in counts if not kind]
    return plain[0] if plain else sum(int(count) for _, count in counts)


def has_parts_of_gpus(tres: str) -> bool:
    """Whether it counts shards or MPS; only the site knows how many of these are a GPU."""
    return bool(_PART.search(tres))


def gpu_types_in(tres: str) -> tuple[str, ...]:
    """Names of GPU types, sorted, without those whose number is 0."""
    return tuple(sorted({kind for kind, count in _GPU.findall(tres) if kind and int(count)}))


def cpus_in(tres: str) -> float:
    """CPU cores; 0 if not stated."""
    return next((float(number) for name, number, _ in _AMOUNT.findall(tres) if name.lower() == "cpu"), 0.0)


def memory_gib_in(tres: str) -> float:
    """Host memory in GiB; 0 if not stated."""
    amounts = _AMOUNT.findall(tres)
    return next((float(n) * _GIB[unit.upper()] for name, n, unit in amounts if name.lower() == "mem"), 0.0)


def usage_in(tres: str) -> dict[str, float]:
    """What a step used, as far as it is recorded.

    `memory_gib`, `gpu_memory_gib`, `gpu_utilisation` (1 is one GPU all the time), `energy_j`, `cpu_s`;
    amounts without unit are bytes here, as Slurm writes usage.
    """
    used = {name: (float(number), unit) for name, number, unit in _USED.findall(tres)}
    sizes = {"memory_gib": "mem", "gpu_memory_gib": "gres/gpumem"}
    said = {key: used[n][0] * _BYTES_GIB[used[n][1]] for key, n in sizes.items() if n in used}
    if "gres/gpuutil" in used:
        said["gpu_utilisation"] = used["gres/gpuutil"][0] / 100
    if "energy" in used:
        said["energy_j"] = used["energy"][0] * _THOUSANDS[used["energy"][1]]
    cpu = _CPU_USED.search(tres)
    if cpu and (took_s := cpu_time_s(cpu[1])) is not None:
        said["cpu_s"] = took_s
    return said


def cpu_time_s(cell: str) -> float | None:
    """Seconds of `1-12:00:00`, `02:30:00` or `30:00.250`, as Slurm writes CPU time; None if invalid."""
    match = _CLOCK.fullmatch(cell.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds
