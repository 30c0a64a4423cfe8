"""Nodes that are lost and come back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.options import parse_options
from rota.model.units import format_duration, parse_duration

MOST_LOSSES = 100_000
"""Most losses of nodes in one run: with more it would not end soon, as each calls the policy."""
_STREAM = 0xFA17
"""Keeps the random numbers of faults apart from the policies' under the same seed."""
_BACK, _LOSS, _AT_ONCE = range(3)
"""Their order at one moment: absent nodes are back, others are lost, and back if that took no time."""


class Fault(NamedTuple):
    """`node` is lost at `at_s` and returns at `until_s`."""

    node: int
    at_s: float
    until_s: float


class Breakdowns(NamedTuple):
    """How often nodes are lost, each by itself, and for how long."""

    mtbf_s: float
    """Mean time between the return of a node, and its next loss."""
    repair_s: float
    """Mean time for which it is away."""


def random_faults(
    cluster: Cluster, span_s: float, rng: np.random.Generator, *, mtbf_s: float, repair_s: float
) -> list[Fault]:
    """Independent failures of each node: exponential times between failures and to repair.

    InputError if more than about `MOST_LOSSES` losses are expected.
    """
    expected = cluster.nodes * span_s / (mtbf_s + repair_s)
    if expected > MOST_LOSSES:
        raise InputError.at(
            f"{cluster.nodes} nodes lost every {format_duration(mtbf_s)}, for {format_duration(repair_s)}, "
            f"are {expected:,.0f} losses in the {format_duration(span_s)} that the jobs may take",
            field="--faults",
            expected=f"at most {MOST_LOSSES:,}: a longer mtbf",
        )
    faults = []
    for node in range(cluster.nodes):
        now = float(rng.exponential(mtbf_s))
        while now < span_s:
            back = now + float(rng.exponential(repair_s))
            faults.append(Fault(node, now, back))
            now = back + float(rng.exponential(mtbf_s))
    return faults


def parse_breakdowns(text: str) -> Breakdowns:
    """`mtbf=30d,repair=4h`: mean times, per node, between losses and to repair."""
    options = parse_options(text, field="--faults", known=("mtbf", "repair"))
    if "mtbf" not in options:
        raise InputError.at(f"{text!r} has no mtbf", field="--faults", expected="mtbf=30d,repair=4h")
    mtbf_s, repair_s = (
        parse_duration(options.get(name, "4h"), field=f"--faults {name}") for name in ("mtbf", "repair")
    )
    if mtbf_s <= 0:
        raise InputError.at("mtbf is 0", field="--faults", expected="a time above 0, such as 30d")
    return Breakdowns(mtbf_s, repair_s)


def parse_faults(text: str, cluster: Cluster, span_s: float, seed: int) -> list[Fault]:
    """The faults that `mtbf=30d,repair=4h` describes, drawn."""
    rng = np.random.default_rng([seed, _STREAM])
    return random_faults(cluster, span_s, rng, **parse_breakdowns(text)._asdict())


def timeline(faults: Iterable[Fault]) -> list[tuple[float, int, bool]]:
    """Moments, nodes and whether they come back, in order; returns precede losses of one moment.

    A node with two overlapping losses is back when both are over; one lost for ever never is.  A node
    that is back in the moment of its loss has lost its jobs.
    """
    moves = []
    for fault in _merged(faults):
        moves.append((fault.at_s, _LOSS, fault.node))
        if fault.until_s < math.inf:
            moves.append((fault.until_s, _BACK if fault.until_s > fault.at_s else _AT_ONCE, fault.node))
    return [(at, node, kind != _LOSS) for at, kind, node in sorted(moves)]


def _merged(faults: Iterable[Fault]) -> list[Fault]:
    """Faults with overlapping ones of a node merged into one."""
    merged: list[Fault] = []
    for fault in sorted(faults):
        last = merged[-1] if merged else None
        if last is not None and last.node == fault.node and fault.at_s <= last.until_s:
            merged[-1] = last._replace(until_s=max(last.until_s, fault.until_s))
        else:
            merged.append(fault)
    return merged
