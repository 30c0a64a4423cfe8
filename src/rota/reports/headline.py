"""The result of a comparison in a few sentences, by total waiting: what a report says first."""

from __future__ import annotations

from collections.abc import Iterator

from rota.reports.compare import LEAST, Comparison, ComparisonRow
from rota.reports.terms import terms
from rota.reports.wording import SAME, factor_words

_LONGER = 1.05
"""A tail that grows by more than this part is said."""
WAITING = "mean_waiting_s"
"""What policies are judged by: all time not running, whether before the first start or after a preemption."""


def headline(comparison: Comparison) -> str:
    """Who waits least, against the baseline; what that does to the longest waits and to completion times."""
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
    """What the comparison owes to a tail that grew, to its terms, and to a baseline that is easily beaten."""
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
