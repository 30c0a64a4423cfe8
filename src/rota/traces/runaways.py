"""Jobs that a database shows as running long after they were gone: a scheduler that crashed wrote no end.

Left in, one such job may hold as many GPU-hours as all others together, and makes its node look twice as
large.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.model.jobs import RecordedRun
from rota.model.units import format_duration
from rota.traces.build import Oddities

FAR = 10.0
"""A job that ran longer than this multiple of its limit, and a day longer, is taken to be gone."""
_DAY_S, _HOUR_S = 86400.0, 3600.0
_OVER = 1.1
"""A job that ran longer than this multiple of its limit, and an hour longer, exceeded it."""
_FEW = 0.05
"""If more than this part of the jobs exceeds its limit, the site does not enforce limits."""
_ROUNDING_S = 1.0
_MOST_NODES = 0.5
"""Part of the nodes of a type that must have equal size for it to count as the size of the type."""


def drop_runaways(odd: Oddities, gpus: Ints, run_s: Floats, limit_s: Floats, seen: RecordedRun) -> None:
    """Leave out the jobs that cannot have run as long as `run_s` says, each named with the reason.

    These are jobs that ran far beyond their `limit_s` (NaN for none), unless many jobs did, since the site
    then enforces no limits; and jobs without a recorded end if other jobs held their GPUs on a node in the
    meantime. All arrays have one value for each job.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(limit_s > 0, run_s / limit_s, 0.0)
    far = (factor > FAR) & (run_s - limit_s > _DAY_S)
    details = {
        row: f"{factor[row]:,.0f} times its limit of {format_duration(limit_s.item(row))}"
        for row in np.flatnonzero(far).tolist()
    }
    over = (factor > _OVER) & (run_s - limit_s > _HOUR_S)
    if over.sum() <= max(1.0, _FEW * len(over)):
        odd.drop("ran far beyond its time limit", "when it ended is not certain", far, details)
    else:
        odd.note(
            "ran far beyond its time limit", "kept, since many jobs do here", far & ~odd.dropped, details
        )
    doubtful = np.isfinite(seen.start_s) & np.isnan(seen.end_s) & ~odd.dropped
    held_twice = _held_twice(_stretches(odd, gpus, run_s, seen), seen.types, doubtful, over, run_s)
    marked = np.isin(np.arange(len(run_s)), list(held_twice))
    what = "held GPUs that other jobs held at the same time"
    odd.drop(what, "its end is not on record", marked, held_twice)


@dataclass(frozen=True)
class _Stretch:
    """GPUs that a job held on one node for a stretch of time."""

    row: int
    begin_s: float
    end_s: float
    gpus: float


def _stretches(odd: Oddities, gpus: Ints, run_s: Floats, seen: RecordedRun) -> dict[str, list[_Stretch]]:
    """By node: what the jobs that are not left out certainly held there."""
    held: dict[str, list[_Stretch]] = defaultdict(list)
    for row, nodes in seen.nodes.items():
        begin_s, last_s = seen.start_s.item(row), run_s.item(row)
        if odd.dropped[row] or not gpus[row] or not last_s > 0 or not np.isfinite(begin_s):
            continue
        each = float(gpus[row] // len(nodes))
        for node in nodes:
            held[node].append(_Stretch(row, begin_s, begin_s + last_s, each))
    return held


def _held_twice(
    held: Mapping[str, Sequence[_Stretch]],
    types: Mapping[int, str],
    doubtful: Bools,
    over: Bools,
    run_s: Floats,
) -> dict[int, str]:
    """By row of the `doubtful` jobs that cannot have held their GPUs: the amount held and the node, as
    text."""
    suspects = {node: [one for one in own if doubtful[one.row]] for node, own in held.items()}
    sizes = _sizes(held, types, doubtful) if any(suspects.values()) else {}
    gone: dict[int, str] = {}
    for node, several in suspects.items():
        for one in sorted(several, key=lambda one: -run_s[one.row]):
            left = [other for other in held[node] if other.row not in gone]
            others = [other for other in left if other.row != one.row]
            most, without = _peak(left), _peak(others)
            size = (
                _power_of_two(max(without, one.gpus)) if over[one.row] else sizes.get(types.get(one.row, ""))
            )
            if others and size is not None and without <= size < most:
                gone.setdefault(one.row, f"{most:g} GPUs at once on {node}, which has {size}")
    return gone


def _sizes(
    held: Mapping[str, Sequence[_Stretch]], types: Mapping[int, str], doubtful: Bools
) -> dict[str, int]:
    """By type: GPUs of most of its nodes, as jobs that are not doubtful show on three nodes or more."""
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    for own in held.values():
        sure = [one for one in own if not doubtful[one.row]]
        if sure:
            usual = Counter(types.get(one.row, "") for one in sure).most_common(1)[0][0]
            seen[usual][_power_of_two(_peak(sure))] += 1
    commonest = {kind: sizes.most_common(1)[0] for kind, sizes in seen.items()}
    return {
        kind: size
        for kind, (size, nodes) in commonest.items()
        if nodes >= 3 and nodes > _MOST_NODES * seen[kind].total()
    }


def _peak(stretches: Sequence[_Stretch]) -> float:
    """Most that was held at once; stretches of consecutive jobs may overlap by a rounded second."""
    changes = sorted(
        change
        for one in stretches
        for change in (
            (one.begin_s, 1, one.gpus),
            (max(one.begin_s, one.end_s - _ROUNDING_S), 0, -one.gpus),
        )
    )
    held = most = 0.0
    for _, _, gpus in changes:
        held += gpus
        most = max(most, held)
    return most


def _power_of_two(gpus: float) -> int:
    whole = int(np.ceil(gpus - 1e-9))
    return 1 << (whole - 1).bit_length() if whole else 0
