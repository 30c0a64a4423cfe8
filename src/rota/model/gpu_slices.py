"""MIG slices: which part of a GPU a type such as `1g.10gb`, `mig-2g.20gb` or `nvidia_a100_3g.20gb` is.

A slice of three of the seven parts into which a GPU divides its compute counts as 3/7 of a GPU in every
total: GPU-hours, costs, capacity, what was held.  An A30 and an RTX PRO 6000 divide into four parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from rota.model.words import hours

_PROFILE = re.compile(r"(?<![\d.])(?:([1-7])c[._-]?)?([1-7])g[._-]?(\d{1,3})gb(?![a-z])", re.IGNORECASE)
_IN_FOUR = re.compile(r"(?<![a-z0-9])(a30|rtx)(?![a-z0-9])", re.IGNORECASE)
_GB_OF_A30, _GB_OF_RTX = 6, 24
"""Memory of one of four parts."""


@cache
def slice_of(gpu_type: str) -> tuple[int, int] | None:
    """The parts of a type, and of its whole GPU, such as (1, 7); None for a type that is no slice."""
    match = _PROFILE.search(gpu_type)
    if match is None:
        return None
    of_instance, parts, memory_gb = (int(said) if said else 0 for said in match.groups())
    # No GPU of seven parts has a profile with the memory of these.
    in_four = memory_gb == _GB_OF_A30 * parts or (parts > 1 and memory_gb == _GB_OF_RTX * parts)
    whole = 4 if parts <= 4 and (in_four or _IN_FOUR.search(gpu_type)) else 7
    return min(of_instance, parts) or parts, whole


def gpu_part(gpu_type: str) -> float:
    """Part of a GPU, more than 0 and at most 1, that one device of the type is; 1 for whole GPUs."""
    parts = slice_of(gpu_type)
    return parts[0] / parts[1] if parts else 1.0


def said_of_slices(by_type: Mapping[str, float]) -> str:
    """What hours of slices count as, in one sentence; empty if there were none."""
    if not by_type:
        return ""
    counted = sum(amount * gpu_part(name) for name, amount in by_type.items())
    parts = [
        f"{name} is {part[0]} of {part[1]} parts" for name in sorted(by_type) if (part := slice_of(name))
    ]
    shown = ", ".join(parts[:4]) + (", ..." if len(parts) > 4 else "")
    return (
        f"{hours(sum(by_type.values()))} hours of MIG slices count as {hours(counted)} GPU-hours, "
        f"each slice by its part of a GPU ({shown})."
    )
