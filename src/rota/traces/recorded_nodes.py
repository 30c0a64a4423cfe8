"""The nodes of a site, as far as the nodes that its jobs ran on tell them."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import numpy as np

from rota.model.cluster import ANY_TYPE, NodeShape
from rota.model.trace import Trace

ROUNDING_S = 1.0
"""Jobs that overlap by no more than this may have followed each other: logs round to seconds."""
_Stretch = tuple[float, float, float, str]
"""Begin, end and GPUs held on one node, and their type; empty if it was not recorded."""


def recorded_nodes(trace: Trace) -> list[NodeShape]:
    """Every node that a job of `trace` ran on, by name; none if the trace names no nodes.

    GPUs     the most that jobs held there at one moment, rounded up to a power of two; a job on several nodes
             held as many on each, and where they do not divide, only what it held on each for certain counts
    Type     the one that most jobs got there; a node with several at once is a node for each of them.  Where
             nobody recorded any, the first that a job there accepts
    Labels   the node sets of the jobs that ran there
    """
    seen = trace.observed
    if seen is None or not seen.nodes:
        return []
    stretches: dict[str, list[_Stretch]] = {}
    labels: dict[str, dict[str, None]] = {}
    accepted: dict[str, str] = {}
    run_s = trace.ran_s()
    for row, nodes in sorted(seen.nodes.items()):
        begin_s, end_s = seen.start_s.item(row), seen.end_s.item(row)
        end_s = float(np.fmin(end_s, begin_s + run_s.item(row)))
        gpus = trace.jobs.gpus.item(row) * trace.jobs.gpu_share.item(row)
        each = gpus / len(nodes) if len(nodes) == 1 else float(gpus // len(nodes))
        own = _labels(trace.jobs.name_of("node_set", row))
        for node in nodes:
            stretches.setdefault(node, []).append((begin_s, end_s, each, seen.types.get(row, "")))
            labels.setdefault(node, {}).update(own)
            if gpus and (first := _first_type(trace, row)):
                accepted.setdefault(node, first)
    shapes = [
        (_size(held), kind or accepted.get(node, ANY_TYPE), tuple(sorted(labels[node])), name)
        for node in sorted(stretches)
        for name, kind, held in _parts(node, stretches[node])
    ]
    return [
        NodeShape(count=len(names), gpus=gpus, gpu_type=kind, names=names, labels=own)
        for (gpus, kind, own), group in groupby(shapes, key=lambda shape: shape[:3])
        for names in [tuple(shape[3] for shape in group)]
    ]


def _first_type(trace: Trace, row: int) -> str:
    """The first type that the job accepts; empty if it accepts any."""
    mask = trace.jobs.gpu_types.item(row)
    return trace.jobs.type_names[(mask & -mask).bit_length() - 1] if mask else ""


def _parts(node: str, stretches: list[_Stretch]) -> list[tuple[str, str, list[_Stretch]]]:
    """Name, type and stretches of the node, or of each of its types if it had several at one moment.

    Cut into MIG instances of two sizes a node has two types; one that was renamed has had two, not at once.
    """
    counts = Counter(kind for _, _, gpus, kind in stretches if kind and gpus)
    usual = counts.most_common(1)[0][0] if counts else ""
    if len(counts) < 2 or not _at_once(stretches):
        return [(node, usual, stretches)]
    of: dict[str, list[_Stretch]] = {usual: []}
    for stretch in stretches:
        of.setdefault(stretch[3] or usual, []).append(stretch)
    return [(node if kind == usual else f"{node}:{kind}", kind, held) for kind, held in of.items()]


def _at_once(stretches: list[_Stretch]) -> bool:
    """Whether GPUs of two types were held at one moment."""
    until: dict[str, float] = {}
    for begin, end, gpus, kind in sorted(stretches):
        if not (kind and gpus):
            continue
        if any(last - ROUNDING_S > begin for other, last in until.items() if other != kind):
            return True
        until[kind] = max(until.get(kind, end), end)
    return False


def _labels(node_set: str) -> dict[str, None]:
    """A job that could have run under either of several labels says of no node which it has."""
    return {} if "|" in node_set or node_set.startswith("!") or not node_set else {node_set: None}


def _size(stretches: list[_Stretch]) -> int:
    """GPUs of a node on which so many were held."""
    begins = [(begin, 1, gpus) for begin, _, gpus, _ in stretches]
    ends = [(max(begin, end - ROUNDING_S), 0, -gpus) for begin, end, gpus, _ in stretches]
    changes = sorted(begins + ends)
    held, most = 0.0, max(gpus for _, _, gpus, _ in stretches)
    for _, _, gpus in changes:  # at one moment what ends goes before what begins
        held += gpus
        most = max(most, held)
    whole = int(np.ceil(most - 1e-9))
    return 1 << (whole - 1).bit_length() if whole else 0
