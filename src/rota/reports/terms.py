"""On what terms each policy ran, as sentences: what it was told, what its stops cost, what it lacked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rota.reports.compare import Comparison, ComparisonRow
from rota.reports.wording import listed

_TRUTH = ("oracle", "noisy")
"""Provenances of what the simulator itself tells."""
_TRUE: Mapping[str, str] = {
    "duration": "every job's true duration",
    "throughput": "true speeds by GPU type",
    "scaling": "true speeds by number of GPUs",
    "goodput": "true goodput by size and batch",
    "convergence": "when each job will have converged",
    "pairs": "true speeds of jobs side by side",
    "placement": "what lying apart truly costs",
    "hosts": "true speeds by cores and memory",
    "servers": "true speeds by parameter servers",
    "regimes": "batch sizes still to come",
    "utilisation": "how busy jobs truly keep a GPU",
}
_DURATIONS: Mapping[str, str] = {
    "noisy": "true durations times a drawn error",
    "predicted": "durations predicted from earlier jobs of the same group or tenant",
    "user": "the durations that users stated",
    "measured": "durations by what programs reported",
}
_NOUNS: Mapping[str, tuple[str, str]] = {
    "preemptions": ("preemption", "preemptions"),
    "migrations": ("migration", "migrations"),
    "resizes": ("resize", "resizes"),
    "restarts": ("restart after a failure", "restarts after failures"),
}
"""By metric: one of them, and several."""


@dataclass(frozen=True)
class RunTerms:
    """The terms of one policy's runs."""

    policy: str
    told: str
    """What it was told, as a clause without a subject; empty if nothing worth a word."""
    stops: str
    """What its stops cost, as a clause; empty if there were none, or nobody said."""
    without: str
    """What it went without and what to give, as a clause without a subject; empty if nothing."""


def terms(comparison: Comparison, lines: Iterable[ComparisonRow] | None = None) -> list[str]:
    """A sentence for each policy of `lines` that was told something, or stopped jobs; then what some lacked.

    Policies on the same terms share a sentence.  `lines` are all those of the comparison if not given.
    """
    known = [_terms_of(line, comparison) for line in lines or comparison.lines if line.ranked]
    said = _shared([(run.policy, run.told, run.stops) for run in known])
    lacked = _shared([(run.policy, run.without, "") for run in known])
    return [*said, *lacked]


def _shared(clauses: Sequence[tuple[str, str, str]]) -> list[str]:
    """A sentence for each different pair of clauses, about all policies of which it holds."""
    groups: dict[tuple[str, str], list[str]] = {}
    for policy, first, second in clauses:
        if first or second:
            groups.setdefault((first, second), []).append(policy)
    return [_sentence(names, first, second) for (first, second), names in groups.items()]


def _sentence(names: Sequence[str], first: str, second: str) -> str:
    who = listed(names)
    if not first:
        return f"{who}: {second}."
    first = first if len(names) == 1 else first.replace("was told", "were told", 1)
    return f"{who} {first}" + (f"; {second}." if second else ".")


def _terms_of(line: ComparisonRow, comparison: Comparison) -> RunTerms:
    provenance = next(own.provenance for own in comparison.summaries if own.policy == line.policy)
    return RunTerms(
        line.policy, _told(provenance), _stops(line, provenance), _without(provenance.get("without"))
    )


def _told(provenance: Mapping[str, object]) -> str:
    """`was told every job's true duration, which no site knows`."""
    knowledge = provenance.get("knowledge")
    known = knowledge if isinstance(knowledge, Mapping) else {}
    words = [_TRUE[kind] for kind, source in known.items() if source == "oracle" and kind in _TRUE]
    if (durations := _DURATIONS.get(str(known.get("duration")))) is not None:
        words.insert(0, durations)
    if not words:
        return ""
    no_site = ", which no site knows" if any(source in _TRUTH for source in known.values()) else ""
    return f"was told {listed(words)}{no_site}"


def _stops(line: ComparisonRow, provenance: Mapping[str, object]) -> str:
    """`1,175 preemptions and 3 migrations were free`, or what each of them cost."""
    costs = provenance.get("stops")
    if not isinstance(costs, Mapping):
        return ""
    alike: dict[str, list[str]] = {}
    for key, count in _counted(line).items():
        if count:
            alike.setdefault(str(costs.get(key, "")), []).append(f"{count:,} {_NOUNS[key][count > 1]}")
    return ", ".join(_cost(counts, cost) for cost, counts in alike.items())


def _counted(line: ComparisonRow) -> dict[str, int]:
    """Stops by kind; of the restarts those that no preemption made necessary."""
    counts = {key: round(line.cells[key].value or 0.0) for key in _NOUNS}
    return counts | {"restarts": max(counts["restarts"] - counts["preemptions"], 0)}


def _cost(counts: Sequence[str], cost: str) -> str:
    is_one = len(counts) == 1 and counts[0].startswith("1 ")
    if not cost:
        return f"{listed(counts)} {'was' if is_one else 'were'} free"
    return f"{listed(counts)} cost {cost}{'' if is_one else ' each'}"


def _without(lacks: object) -> str:
    """`went without deadlines: give the column deadline_s`."""
    if not isinstance(lacks, Mapping) or not lacks:
        return ""
    names, give = [str(name) for name in lacks], list(dict.fromkeys(map(str, lacks.values())))
    return f"went without {listed(names)}: give {listed(give)}"
