"""What spreading a gang over nodes, and company on its nodes, has to do with how busy its GPUs are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.cluster import ANY_TYPE, Cluster
from rota.model.columns import Bools, Floats, Ints
from rota.model.units import plural
from rota.reports.finding import Bars, Finding, Remedy, Replay, Said, Unsaid
from rota.reports.findings.history import JobHistory
from rota.reports.findings.pools import integral, when
from rota.reports.findings.thresholds import Thresholds
from rota.reports.series import Steps
from rota.reports.wording import percent
from rota.traces.recorded_nodes import SeenNode, seen_nodes


@dataclass(frozen=True)
class NodeSizes:
    """GPUs of each node that jobs ran on, by name; a MIG slice counts as one, as gangs ask for them."""

    least: dict[str, int]
    """For certain."""
    most: dict[str, int]
    """The largest plausible size; equal to the certain one if the size is known."""
    stated: bool
    """Whether a stated cluster says it."""

    @classmethod
    def of(cls, history: JobHistory) -> NodeSizes:
        """The nodes of the history."""
        nodes = seen_nodes(history.trace)
        cluster = history.cluster
        bounds = _seen(nodes) if cluster is None else _stated(cluster, nodes)
        names = [node.name for node in nodes]
        least, most = ({name: pair[i] for name, pair in zip(names, bounds, strict=True)} for i in (0, 1))
        return cls(least, most, cluster is not None)

    @property
    def unsure(self) -> list[str]:
        """Nodes without a certain size."""
        return [name for name, least in self.least.items() if self.most[name] > least]

    def needed(self, gpus: Ints, nodes: Sequence[tuple[str, ...]]) -> tuple[Ints, Ints]:
        """Fewest of its nodes with room for each gang: for certain, and if all are as large as plausible.

        `gpus` of each gang, shape (n,), and the `nodes` that it ran on.
        """
        certain, possible = (
            np.array(
                [
                    _fewest(size, [of.get(node, 0) for node in own])
                    for size, own in zip(gpus, nodes, strict=True)
                ],
                dtype=np.int64,
            )
            for of in (self.least, self.most)
        )
        return certain, possible


def _fewest(gpus: int, sizes: list[int]) -> int:
    """How many of the largest nodes hold the gang; all if they do not, as far as one knows."""
    enough = np.cumsum(sorted(sizes, reverse=True)) >= gpus
    return int(np.argmax(enough)) + 1 if enough.any() else len(sizes)


def _seen(nodes: Sequence[SeenNode]) -> list[tuple[int, int]]:
    """The most held on each node, and the most held on any node of its type."""
    largest: dict[str, int] = {}
    for node in nodes:
        largest[node.gpu_type] = max(largest.get(node.gpu_type, 0), node.most)
    return [(node.most, largest[node.gpu_type]) for node in nodes]


def _stated(cluster: Cluster, nodes: Sequence[SeenNode]) -> list[tuple[int, int]]:
    """The size of the stated node of that name, else of the stated nodes of its type."""
    of_name = dict(zip(cluster.node_names, cluster.node_gpus.tolist(), strict=True))
    by_name = [of_name.get(node.name) for node in nodes]
    pairs = zip(nodes, by_name, strict=True)
    return [_of_type(cluster, node) if size is None else (size, size) for node, size in pairs]


def _of_type(cluster: Cluster, node: SeenNode) -> tuple[int, int]:
    """The least and the largest of the sizes stated for its type with room for the most held there."""
    types = [name.casefold() for name in cluster.type_names]
    kind = types.index(node.gpu_type.casefold()) if node.gpu_type.casefold() in types else None
    known = kind is not None and node.gpu_type != ANY_TYPE
    sizes = cluster.node_gpus[cluster.node_type == kind] if known else cluster.node_gpus
    fitting = sizes[sizes >= max(node.most, 1)]
    if not len(fitting):
        return node.most, node.most
    return int(fitting.min()), int(fitting.max())


STUDY = "locality"
LEAST_JOBS = 20
"""Groups of fewer jobs are not compared."""
LEAST_ALIKE = 3
"""Fewest jobs of one kind, both alone and co-located, for the kind to be compared."""
_PHILLY = Remedy(
    *("philly", "systems/philly.md", "waits for good locality for a while before it spreads a gang"),
    replay=Replay("philly", spread=True),
    against=Replay("philly:relax_after=0", spread=True),
    metric="mean_jct_s",
)
_AVOID = Remedy("gandiva", "systems/gandiva.md", "moves jobs away from company that slows them")


def study(history: JobHistory, thresholds: Thresholds) -> Said:
    """How many gangs are spread, and utilisation by spread and by company."""
    seen = history.trace.observed
    if not history.starts or seen is None or not seen.nodes:
        return Said.gap(STUDY, "where gangs lay", "the nodes of each job (NodeList, ran_on)")
    rows = np.array([row for row in seen.nodes if history.dated[row]], dtype=np.int64)
    # Idle jobs are idle anywhere: they say nothing of locality or company.
    works = np.nan_to_num(history.utilisation) > thresholds.idle_utilisation
    parts = [_gangs(history, rows[history.trace.jobs.gpus[rows] > 1], rows, works)]
    if not works[rows].any():
        needs = "utilisation (TRESUsageInTot with gres/gpuutil)"
        parts.append(Said.gap(STUDY, "what spreading and company do to utilisation", needs))
    else:
        parts.append(_by_company(history, rows, works[rows]))
    return Said.together(parts)


def _gangs(history: JobHistory, gangs: Ints, rows: Ints, works: Bools) -> Said:
    """How many are spread, and what that has to do with utilisation."""
    seen = history.trace.observed
    assert seen is not None
    if not len(gangs):
        return Said.gap(STUDY, "where gangs lay", "jobs with several GPUs")
    places = [seen.nodes[row] for row in gangs.tolist()]
    nodes = np.array([len(own) for own in places])
    sizes = NodeSizes.of(history)
    certain, possible = sizes.needed(history.trace.jobs.gpus[gangs], places)
    findings = [_spread(history, gangs, nodes > certain, nodes > possible, sizes)]
    measured = works[gangs]
    by_spread = _by_spread(history, gangs[measured], nodes[measured])
    if by_spread or not works[rows].any():
        return Said((*findings, *by_spread))
    needs = f"{LEAST_JOBS} measured gangs of one size on each of two numbers of nodes"
    return Said(tuple(findings), (Unsaid(STUDY, "what spreading does to utilisation", needs),))


def _spread(history: JobHistory, gangs: Ints, spread: Bools, may_be: Bools, sizes: NodeSizes) -> Finding:
    """`spread` gangs had room on fewer of their nodes for certain, those that `may_be` if they are larger."""
    share = float(spread.mean())
    held = history.gpu_hours[gangs]
    part = float(held[spread].sum() / held.sum()) if held.sum() else 0.0
    sentence = f"No gang of {len(gangs):,} ran on more nodes than it needs."
    if share:
        sentence = (
            f"{percent(share)} of the gangs ran on more nodes than they need, and held {percent(part)} of "
            "the GPU-hours of gangs."
        )
    unsure = int((may_be & ~spread).sum())
    if unsure:
        sentence += f" Of {unsure:,} more it is not known, as the size of their nodes is not."
    rows = []
    for size in sorted(set(history.trace.jobs.gpus[gangs].tolist())):
        own = history.trace.jobs.gpus[gangs] == size
        if int(own.sum()) >= LEAST_JOBS:
            of = float(spread[own].mean())
            rows.append((plural(size, "GPU"), (of,), f"{percent(of)} of {int(own.sum()):,}"))
    figure = Bars.of("Gangs on more nodes than they need", "Share of the jobs of each size.", rows, top=1.0)
    return Finding(
        *("spread_gangs", STUDY, sentence, share, "share"),
        numbers={
            "gangs": len(gangs),
            "gpu_hours_share": part,
            "unsure": unsure,
            "node_gpus": _counted(sizes),
        },
        figure=figure if rows and share else None,
        note=_how(sizes),
    )


def _counted(sizes: NodeSizes) -> dict[int, int]:
    """Nodes by how many GPUs they have for certain."""
    return dict(sorted(Counter(size for size in sizes.least.values() if size).items()))


def _how(sizes: NodeSizes) -> str:
    """Where the sizes of nodes come from, and of how many nodes they are not known."""
    shown = ", ".join(f"{plural(count, 'node')} of {size:,}" for size, count in _counted(sizes).items())
    source = "as the cluster is stated" if sizes.stated else "as many as jobs held there at once, or more"
    unsure = len(sizes.unsure)
    why = "several sizes are stated for its type" if sizes.stated else "another node of its type has more"
    more = f" Of {plural(unsure, 'node')} the size is not known for certain: {why}." if unsure else ""
    return f"GPUs by node, {source}: {shown}.{more}"


def _by_spread(history: JobHistory, gangs: Ints, nodes: Ints) -> list[Finding]:
    """Utilisation of gangs of one size by the number of nodes, for the size with most jobs to compare."""
    best: tuple[int, list[tuple[int, Floats]]] = (0, [])
    sizes = history.trace.jobs.gpus[gangs]
    for size in np.unique(sizes).tolist():
        of_nodes = [
            (count, history.utilisation[gangs[own]])
            for count in np.unique(nodes[sizes == size]).tolist()
            for own in [(sizes == size) & (nodes == count)]
            if int(own.sum()) >= LEAST_JOBS
        ]
        if len(of_nodes) > 1 and sum(len(values) for _, values in of_nodes) > sum(len(v) for _, v in best[1]):
            best = (size, of_nodes)
    size, groups = best
    if not groups:
        return []
    means = {count: float(values.mean()) for count, values in groups}
    few, many = min(means), max(means)
    sure = abs(means[few] - means[many]) > 2.0 * _error(groups[0][1], groups[-1][1])
    gap = means[few] - means[many]
    tells = "" if sure else ", a difference that chance could make"
    sentence = (
        f"Gangs of {size} GPUs kept them busy {percent(means[few])} of the time on {plural(few, 'node')} and "
        f"{percent(means[many])} on {many:,}{tells}."
    )
    rows = [
        (plural(count, "node"), (means[count],), f"{percent(means[count])} of {len(values):,} jobs")
        for count, values in groups
    ]
    return [
        Finding(
            *("locality_utilisation", STUDY, sentence, gap, "share"),
            numbers={"gpus": size, "by_nodes": means, "significant": sure},
            figure=Bars.of(f"Utilisation of gangs of {size} GPUs", "By nodes.", rows, top=1.0),
            remedies=(_PHILLY,) if sure and gap > 0.02 else (),
        )
    ]


def _by_company(history: JobHistory, rows: Ints, works: Bools) -> Said:
    """Utilisation of jobs that had their nodes to themselves, and of those that had company there."""
    measured, company = rows[works], company_share(history, rows)[works]
    alone, beside = measured[company <= 0.1], measured[company >= 0.5]
    # Co-located jobs differ from jobs that run alone: each kind of job is compared with itself.
    kind = _kinds(history)
    pairs = []
    for code in np.intersect1d(kind[alone], kind[beside]).tolist():
        a, b = (history.utilisation[of[kind[of] == code]] for of in (alone, beside))
        if len(a) >= LEAST_ALIKE and len(b) >= LEAST_ALIKE:
            pairs.append((float(a.mean()), float(b.mean()), min(len(a), len(b)), _error(a, b)))
    if sum(n for _, _, n, _ in pairs) < LEAST_JOBS:
        needs = f"{LEAST_JOBS} measured jobs of kinds that ran alone on their nodes and beside others"
        return Said.gap(STUDY, "what company does to utilisation", needs)
    weight = np.array([n for _, _, n, _ in pairs], dtype=np.float64)
    a, b = (float(np.average([pair[i] for pair in pairs], weights=weight)) for i in (0, 1))
    part = weight / weight.sum()
    error = float(np.sqrt(sum((p * pair[3]) ** 2 for p, pair in zip(part, pairs, strict=True))))
    sure = abs(a - b) > 2.0 * error
    tells = "" if sure else ", a difference that chance could make"
    sentence = (
        f"Jobs kept their GPUs busy {percent(a)} of the time alone on their nodes, and {percent(b)} beside "
        f"others, each kind compared with itself{tells}."
    )
    bar_rows = [("alone", a), ("beside others", b)]
    return Said.one(
        Finding(
            *("interference", STUDY, sentence, a - b, "share"),
            numbers={"alone": a, "beside": b, "kinds": len(pairs), "error": error, "significant": sure},
            figure=Bars.shares("Utilisation alone and beside others", "Of jobs of the same kinds.", bar_rows),
            note="A kind is one user, one name, one size.",
            remedies=(_AVOID,) if sure and a - b > 0.02 else (),
        )
    )


def _kinds(history: JobHistory) -> Ints:
    """Code of each job's user, name and size."""
    jobs = history.trace.jobs
    columns = np.stack((history.user.code, jobs.group, jobs.gpus), 1).astype(np.int64)
    return np.unique(columns, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def company_share(history: JobHistory, rows: Ints) -> Floats:
    """Part of its run in which each of `rows` shared a node with another job, the largest over its nodes."""
    seen = history.trace.observed
    assert seen is not None
    of_node: dict[str, list[int]] = {}
    for place, row in enumerate(rows.tolist()):
        for node in seen.nodes[row]:
            of_node.setdefault(node, []).append(place)
    share = np.zeros(len(rows))
    for places in of_node.values():
        at = np.array(places, dtype=np.int64)
        start_s, end_s = history.start_s[rows[at]], history.end_s[rows[at]]
        there = Steps.held(start_s, end_s, np.ones(len(at)))
        beside = integral(when(there, there.value > 1.5), start_s, end_s)
        share[at] = np.maximum(share[at], beside / np.maximum(end_s - start_s, 1e-9))
    return share


def _error(a: Floats, b: Floats) -> float:
    """Standard error of the difference of two means."""
    return float(np.sqrt(a.var() / len(a) + b.var() / len(b)))
