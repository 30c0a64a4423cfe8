"""Sentences of a comparison: its result, by total waiting, and the terms that each policy ran on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rota.reports.compare import LEAST, Comparison, ComparisonRow
from rota.reports.wording import SAME, factor_words, listed

_TRUTH = ("oracle", "noisy")
"""Provenances of knowledge from the simulator itself."""
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
    """The knowledge it got, as a clause without a subject; empty if none is worth a mention."""
    stops: str
    """What its stops cost, as a clause; empty if there were none, or if it is unknown."""
    without: str
    """The knowledge it lacked and how to give it, as a clause without a subject; empty if none."""


def terms(comparison: Comparison, lines: Iterable[ComparisonRow] | None = None) -> list[str]:
    """A sentence for each policy of `lines` that got knowledge, or stopped jobs; then what some lacked.

    Policies on equal terms share a sentence.  `lines` are all lines of the comparison if not given.
    """
    known = [_terms_of(line, comparison) for line in lines or comparison.lines if line.ranked]
    said = _shared([(run.policy, run.told, run.stops) for run in known])
    lacked = _shared([(run.policy, run.without, "") for run in known])
    return [*said, *lacked]


def _shared(clauses: Sequence[tuple[str, str, str]]) -> list[str]:
    """A sentence for each different pair of clauses, about all policies that share it."""
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


_LONGER = 1.05
"""A tail that grows by more than this part is said."""
WAITING = "mean_waiting_s"
"""What policies are judged by: all time not running, whether before the first start or after a preemption."""


def headline(comparison: Comparison) -> str:
    """The policy with the least waiting, and its effect on the longest waits and completion times."""
    return " ".join(_sentences(comparison))


def _sentences(comparison: Comparison) -> Iterator[str]:
    base = comparison.reference
    rivals = [line for line in comparison.contenders if line is not base and not line.partial]
    best = min([base, *rivals], key=_waiting)
    text = best.cells[WAITING].text
    if rivals and max(map(_waiting, [base, *rivals])) < LEAST:
        yield f"No job waits, whichever policy decides; mean JCT {base.cells['mean_jct_s'].text}."
    elif not rivals:
        yield f"{base.policy}: a job waits {text} on average; mean JCT {base.cells['mean_jct_s'].text}."
    elif best is base or text == base.cells[WAITING].text:
        named = "was observed" if base.observed else _named(base, comparison)
        yield f"Nobody waits less than {named}: {base.cells[WAITING].text} a job on average."
    else:
        yield (
            f"Under {best.policy} a job waits {text} on average, against "
            f"{base.cells[WAITING].text} {_named(base, comparison)}{_change(best, WAITING)}."
        )
        yield f"The 1% who wait longest wait at least {_against(best, base, 'p99_waiting_s')}."
        yield f"Mean JCT {_against(best, base, 'mean_jct_s')}."
        yield from _reservations(best, base, comparison)
    if comparison.observed and comparison.observed is not base:
        of = f", over the {comparison.shared_jobs:,} whose start and end are recorded"
        waited = comparison.observed.cells[WAITING].text
        yield f"In fact a job waited {waited}{of if comparison.shared_jobs else ''}."


def _reservations(best: ComparisonRow, base: ComparisonRow, comparison: Comparison) -> Iterator[str]:
    """Caveats of the comparison: a tail that grew, its terms, and a baseline that is easily beaten."""
    if (best.cells["p99_jct_s"].ratio or 0.0) > _LONGER:
        yield f"But the 1% that take longest take at least {_against(best, base, 'p99_jct_s')}."
    yield from terms(comparison, (best, base))
    if _is_strict_fifo(base.policy) and base.policy != comparison.site_policy:
        yield f"{base.policy} keeps all waiting behind the first in line: fifo:skip=yes is harder to beat."


def _is_strict_fifo(policy: str) -> bool:
    name, _, parameters = policy.partition(":")
    return name == "fifo" and "skip=yes" not in parameters and "backfill=easy" not in parameters


def _waiting(line: ComparisonRow) -> float:
    value = line.cells[WAITING].value
    return float("inf") if value is None else value


def _named(base: ComparisonRow, comparison: Comparison) -> str:
    """`under fifo`, and what makes it the measure of the others."""
    if base.observed:
        return "as observed"
    stands_in = base.policy == comparison.site_policy
    return f"under {base.policy}" + (", which stands for the site's own policy" if stands_in else "")


def _against(line: ComparisonRow, base: ComparisonRow, key: str) -> str:
    return f"{line.cells[key].text}, against {base.cells[key].text}{_change(line, key)}"


def _change(line: ComparisonRow, key: str) -> str:
    cell = line.cells[key]
    words = factor_words(cell.ratio, cell.metric.unit)
    return "" if cell.ratio is None or words == SAME else f" ({words})"
