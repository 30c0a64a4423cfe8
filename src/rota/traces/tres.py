"""Slurm's TRES texts (`cpu=8,mem=64G,gres/gpu=2,gres/gpu:a100=2`) as numbers.

The plain `gres/gpu` entry is the total; where only typed entries are there, they are summed.
Memory without unit is MiB, as everywhere in Slurm.
"""

from __future__ import annotations

import re

_GPU = re.compile(r"gres/gpu(?::([^=,]+))?=(\d+)")
_AMOUNT = re.compile(r"(?:^|,)(cpu|mem)=(\d+(?:\.\d+)?)([KMGTP]?)")
_GIB = {"K": 1 / 1024**2, "": 1 / 1024, "M": 1 / 1024, "G": 1.0, "T": 1024.0, "P": 1024.0**2}


def gpus_in(tres: str) -> int:
    """GPUs of all types."""
    counts = _GPU.findall(tres)
    plain = [int(count) for kind, count in counts if not kind]
    return plain[0] if plain else sum(int(count) for _, count in counts)


def gpu_types_in(tres: str) -> tuple[str, ...]:
    """GPU types named, sorted."""
    return tuple(sorted({kind for kind, _ in _GPU.findall(tres) if kind}))


def cpus_in(tres: str) -> float:
    """CPU cores; 0 if the text does not say."""
    return next((float(number) for name, number, _ in _AMOUNT.findall(tres) if name == "cpu"), 0.0)


def memory_gib_in(tres: str) -> float:
    """Host memory in GiB; 0 if the text does not say."""
    amounts = _AMOUNT.findall(tres)
    return next((float(number) * _GIB[unit] for name, number, unit in amounts if name == "mem"), 0.0)
