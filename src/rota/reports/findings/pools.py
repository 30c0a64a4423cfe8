"""Where jobs could have run, and how much of it was free when: nodes open to equal jobs form one cell.

Capacity is as stated for the cluster, or the most that jobs held at one moment: a lower bound, so that no
GPU counts as free unless a job has shown that it exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rota.model.cluster import ANY_TYPE, Cluster
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.whole_gpus import whole_gpus
from rota.reports.findings.history import JobHistory
from rota.reports.series import Steps

SEEN = "The cluster is taken to be what jobs held at their busiest; --cluster states it."
STATED = "The cluster is as stated."

OVERLAP_S = 60.0
"""Jobs that overlap by less do not show that there were GPUs for both."""


@dataclass(frozen=True)
class NodePool:
    """Nodes that are open to equal jobs."""

    labels: frozenset[str]
    """Partitions; empty if the trace names none."""
    gpu_type: str
    """Empty if it is unknown."""
    capacity: float
    used: Steps
    widest: float
    """Most GPUs that one node has, as far as one can tell."""


@dataclass(frozen=True)
class Pools:
    """All cells, and which of them each kind of job may use."""

    cells: tuple[NodePool, ...]
    capacity: float
    """GPUs in all."""
    why: str
    by_node: bool
    """Whether cells are sets of nodes that the trace names, rather than whole partitions or types."""
    kind: Array
    """Of each job: its kind, which is partition and accepted types."""
    kinds: Sequence[tuple[str, frozenset[str]]]
    """Partition (empty if none) and accepted types (empty for any) of each kind."""
    _free: dict[tuple[int, ...], Steps] = field(default_factory=dict)

    @classmethod
    def of(cls, history: JobHistory) -> Pools:
        """The cells of the history, by its nodes where it names them."""
        jobs = history.trace.jobs
        pairs = list(zip(jobs.node_set.tolist(), jobs.gpu_types.tolist(), strict=True))
        places = {pair: code for code, pair in enumerate(dict.fromkeys(pairs))}
        kind = np.array([places[pair] for pair in pairs], dtype=np.int64)
        names = jobs.node_set_names
        kinds = [
            (names[node_set] if node_set >= 0 else "", frozenset(jobs.types_in(mask)))
            for node_set, mask in places
        ]
        seen = history.trace.observed
        by_node = history.starts and seen is not None and bool(seen.nodes)
        cells = _cells_of_nodes(history) if by_node else _cells_of_jobs(history, kind, kinds)
        stated = history.cluster
        capacity = (
            float(whole_gpus(stated).sum()) if stated is not None else sum(cell.capacity for cell in cells)
        )
        if stated is not None and len(cells) == 1:
            widest = float(whole_gpus(stated).max())
            cells = (NodePool(cells[0].labels, cells[0].gpu_type, capacity, cells[0].used, widest),)
        return cls(cells, capacity, SEEN if stated is None else STATED, by_node, kind, kinds)

    @cached_property
    def admitted(self) -> tuple[tuple[int, ...], ...]:
        """By kind of job: the cells that it may use."""
        return tuple(
            tuple(i for i, cell in enumerate(self.cells) if _admits(cell, label, types))
            for label, types in self.kinds
        )

    def free(self, cells: tuple[int, ...]) -> Steps:
        """GPUs of `cells` that no job holds, over time; never below none."""
        if cells not in self._free:
            used = [self.cells[i].used for i in cells]
            times = np.unique(np.concatenate([steps.time_s for steps in used])) if used else np.zeros(0)
            held = sum((steps.at(times) for steps in used), np.zeros(len(times)))
            # Before the first event everything is free: a step function is 0 there, so it starts early.
            times = np.concatenate(([-np.inf], times))
            free = np.maximum(self.room(cells) - np.concatenate(([0.0], held)), 0.0)
            self._free[cells] = Steps(times, free)
        return self._free[cells]

    def peak(self, cells: tuple[int, ...]) -> float:
        """The most GPUs of `cells` that were held together for a minute or more."""
        free = self.free(cells)
        lasting = np.diff(free.time_s, append=np.inf) >= OVERLAP_S
        return self.room(cells) - float(free.value[lasting].min(initial=self.room(cells)))

    def room(self, cells: tuple[int, ...]) -> float:
        """GPUs of `cells`."""
        return sum(self.cells[i].capacity for i in cells)


def _admits(cell: NodePool, label: str, types: frozenset[str]) -> bool:
    wanted = {part for part in label.split("|") if part and not part.startswith("!")}
    there = not cell.labels or not wanted or bool(cell.labels & wanted)
    return there and (not types or not cell.gpu_type or cell.gpu_type in types)


def integral(steps: Steps, start_s: Floats, end_s: Floats) -> Floats:
    """Value times seconds from each start to each end; `steps` may begin at minus infinity."""
    times, values = steps.time_s, steps.value
    if len(times) == 0 or len(start_s) == 0:
        return np.zeros(len(start_s))
    low = float(min(start_s.min(), times[np.isfinite(times)].min(initial=np.inf)))
    times = np.maximum(times, low)
    area = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(times))))

    def up_to(moment_s: Floats) -> Floats:
        place = np.maximum(np.searchsorted(times, moment_s, side="right") - 1, 0)
        return area[place] + values[place] * np.maximum(moment_s - times[place], 0.0)

    result: Floats = up_to(end_s) - up_to(start_s)
    return result


def when(steps: Steps, true: Bools) -> Steps:
    """1 while `true` holds of the step, 0 otherwise."""
    return Steps(steps.time_s, true.astype(np.float64))


def _cells_of_jobs(
    history: JobHistory, kind: Array, kinds: Sequence[tuple[str, frozenset[str]]]
) -> tuple[NodePool, ...]:
    """One cell for each partition, or for each type of GPU, or one in all; as large as its busiest moment."""
    dated = history.dated
    labels = [label for label, _ in kinds]
    seen = history.trace.observed.types if history.trace.observed else {}
    if any(labels):
        key = np.array(labels, dtype=object)[kind]
        name_of = {label: (frozenset(p for p in label.split("|") if p), "") for label in set(labels)}
    else:
        of = [_one(types) for _, types in kinds]
        key = np.array([seen.get(row) or of[code] for row, code in enumerate(kind.tolist())], dtype=object)
        if not all(key[dated].tolist()):  # it is unknown where some jobs ran
            key = np.full(len(key), "", dtype=object)
        name_of = {name: (frozenset(), name) for name in set(key.tolist())}
    cells = []
    for name in sorted(set(key[dated].tolist())):
        own = dated & (key == name)
        used = Steps.held(history.start_s[own], history.end_s[own], history.gpus[own])
        own_labels, gpu_type = name_of[name]
        peak = _peak(history, np.flatnonzero(own), history.gpus[own])
        cells.append(NodePool(own_labels, gpu_type, peak, used, float(history.gpus[own].max())))
    return tuple(cells)


def _peak(history: JobHistory, rows: Ints, amount: Floats) -> float:
    """Most that `rows` held at one moment; stamps of a second may overlap where one job follows another."""
    start_s, end_s = history.start_s[rows], history.end_s[rows]
    shorter = np.minimum(OVERLAP_S, 0.5 * (end_s - start_s))
    return float(Steps.held(start_s, end_s - shorter, amount).value.max(initial=0.0))


def _one(types: frozenset[str]) -> str:
    return next(iter(types)) if len(types) == 1 else ""


def _cells_of_nodes(history: JobHistory) -> tuple[NodePool, ...]:
    """Nodes with equal partitions and type; each as large as the most that jobs held on it at one moment."""
    seen, jobs = history.trace.observed, history.trace.jobs
    assert seen is not None
    stretches: dict[str, list[tuple[int, float]]] = {}
    labels: dict[str, set[str]] = {}
    types: dict[str, dict[str, int]] = {}
    for row, nodes in seen.nodes.items():
        if not history.dated[row]:
            continue
        each = float(history.gpus[row]) / len(nodes)
        label = jobs.name_of("node_set", row)
        for node in nodes:
            stretches.setdefault(node, []).append((row, each))
            if label and "|" not in label and not label.startswith("!"):
                labels.setdefault(node, set()).add(label)
            if row in seen.types:
                counts = types.setdefault(node, {})
                counts[seen.types[row]] = counts.get(seen.types[row], 0) + 1
    stated = _stated(history.cluster, stretches)
    groups: dict[tuple[frozenset[str], str], list[str]] = {}
    for node in sorted({*stretches, *stated}):
        counts = types.get(node, {})
        gpu_type = max(counts, key=lambda name: counts[name]) if counts else ""
        _, stated_labels, stated_type = stated.get(node, (0.0, frozenset[str](), ""))
        own = frozenset(labels.get(node, set())) | stated_labels
        groups.setdefault((own, stated_type or gpu_type), []).append(node)
    return tuple(
        _cell(
            history,
            own,
            gpu_type,
            [(stretches.get(node, []), stated[node][0] if node in stated else 0.0) for node in nodes],
        )
        for (own, gpu_type), nodes in groups.items()
    )


def _stated(
    cluster: Cluster | None, seen: Mapping[str, object]
) -> dict[str, tuple[float, frozenset[str], str]]:
    """GPUs, labels and type of each node of the stated cluster; none if it is not the one that jobs saw."""
    if cluster is None or not seen.keys() & set(cluster.node_names):
        return {}
    labels: dict[int, set[str]] = {}
    for label, nodes in cluster.labels.items():
        for node in nodes.tolist():
            labels.setdefault(node, set()).add(label)
    types = [cluster.type_names[code] for code in cluster.node_type.tolist()]
    return {
        name: (float(gpus), frozenset(labels.get(i, set())), "" if types[i] == ANY_TYPE else types[i])
        for i, (name, gpus) in enumerate(zip(cluster.node_names, whole_gpus(cluster).tolist(), strict=True))
    }


def _cell(
    history: JobHistory,
    labels: frozenset[str],
    gpu_type: str,
    of_nodes: list[tuple[list[tuple[int, float]], float]],
) -> NodePool:
    """`of_nodes`: the stretches on each node, and how many GPUs it is stated to have."""
    peaks = []
    for of_node, gpus in of_nodes:
        rows = np.array([row for row, _ in of_node], dtype=np.int64)
        each = np.array([amount for _, amount in of_node])
        peaks.append(max(_peak(history, rows, each), gpus))
    rows = np.array([row for of_node, _ in of_nodes for row, _ in of_node], dtype=np.int64)
    each = np.array([amount for of_node, _ in of_nodes for _, amount in of_node])
    used = Steps.held(history.start_s[rows], history.end_s[rows], each)
    return NodePool(labels, gpu_type, sum(peaks), used, max(peaks))
