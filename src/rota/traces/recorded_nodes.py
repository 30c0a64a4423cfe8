"""The nodes of a site, as far as they can be inferred from the jobs that ran on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from rota.model.cluster import ANY_TYPE, NodeShape
from rota.model.gpu_slices import slice_of
from rota.model.trace import Trace

ROUNDING_S = 1.0
"""Jobs that overlap by no more than this may have followed each other: logs round to seconds."""
NEARLY_ALL = 0.9
"""Part of the nodes of one type and labels with equal size from which the others are assumed to have it."""
_Stretch = tuple[float, float, float, str]
"""Begin, end, GPUs held on one node, and their type; the type is empty if it was not recorded."""


@dataclass(frozen=True)
class SeenNode:
    """A node, as inferred from the jobs that ran on it."""

    name: str
    """Name of the node; a node with GPUs of two types at once counts as two, the second named with its
    type."""
    gpu_type: str
    labels: tuple[str, ...]
    most: int
    """Most devices that jobs certainly held there at one moment: the node has at least as many."""


def seen_nodes(trace: Trace) -> list[SeenNode]:
    """Every node that a job of `trace` ran on, by name; none if the trace names no nodes.

    GPUs     the most that jobs held there at one moment; a job on several nodes held as many on each, and
             where they do not divide, only what it held on each for certain counts
    Type     the one that most jobs got there; a node with several at once is a node for each of them.  Where
             none is on record, the first that a job there accepts
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
    return [
        SeenNode(name, kind or accepted.get(node, ANY_TYPE), tuple(sorted(labels[node])), _most(held))
        for node in sorted(stretches)
        for name, kind, held in _parts(node, stretches[node])
    ]


def recorded_nodes(trace: Trace) -> list[NodeShape]:
    """The nodes of `seen_nodes`, as large as `_size` takes them to be."""
    nodes = seen_nodes(trace)
    alike: dict[tuple[str, tuple[str, ...]], Counter[int]] = {}
    for node in nodes:
        alike.setdefault((node.gpu_type, node.labels), Counter())[node.most] += int(node.most > 0)
    shapes = [
        (_size(node, alike[node.gpu_type, node.labels]), node.gpu_type, node.labels, node.name)
        for node in nodes
    ]
    return [
        NodeShape(count=len(names), gpus=gpus, gpu_type=kind, names=names, labels=own)
        for (gpus, kind, own), group in groupby(shapes, key=lambda shape: shape[:3])
        for names in [tuple(shape[3] for shape in group)]
    ]


def _size(node: SeenNode, alike: Counter[int]) -> int:
    """Number of devices of a node; `alike` counts, by size, what was seen on nodes of its type and labels.

    MIG slices: as many as were seen, since sites divide their GPUs by no common rule.
    Nearly all alike: the size of the others, if 90 % were seen with one size and this node with less.
    Else: rounded up to a power of two, unless two nodes were seen with as many and none with more.
    """
    if slice_of(node.gpu_type) or not node.most:
        return node.most
    top = max(alike)
    if alike[top] >= NEARLY_ALL * alike.total() and alike[top] > 1:
        return top
    if node.most == top and alike[top] > 1:
        return node.most
    return 1 << (node.most - 1).bit_length()


def _first_type(trace: Trace, row: int) -> str:
    """The first type that the job accepts; empty if it accepts any."""
    mask = trace.jobs.gpu_types.item(row)
    return trace.jobs.type_names[(mask & -mask).bit_length() - 1] if mask else ""


def _parts(node: str, stretches: list[_Stretch]) -> list[tuple[str, str, list[_Stretch]]]:
    """Name, type and stretches of the node, or of each of its types if it had several at one moment.

    A node cut into MIG instances of two sizes has two types at once; a node whose type was renamed has two
    types in succession.
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
    """Labels that a node certainly has; a job that accepts several labels does not show which one it has."""
    return {} if "|" in node_set or node_set.startswith("!") or not node_set else {node_set: None}


def _most(stretches: list[_Stretch]) -> int:
    """Most GPUs that were held at once."""
    begins = [(begin, 1, gpus) for begin, _, gpus, _ in stretches]
    ends = [(max(begin, end - ROUNDING_S), 0, -gpus) for begin, end, gpus, _ in stretches]
    changes = sorted(begins + ends)
    held, most = 0.0, max(gpus for _, _, gpus, _ in stretches)
    for _, _, gpus in changes:  # at equal moments ends come before begins
        held += gpus
        most = max(most, held)
    return int(np.ceil(most - 1e-9))
