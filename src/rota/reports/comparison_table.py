"""The comparison as a table: as many columns as fit into a terminal, or all of them for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from rota.model.units import plural
from rota.reports.compare import Comparison, ComparisonRow, MetricCell
from rota.reports.comparison_words import terms
from rota.reports.confidence import DRAWS, LIKELY
from rota.reports.finding import DataTable, TableCell, TableColumn, TableRow
from rota.reports.likeness import Calibration
from rota.reports.metrics import METRICS
from rota.reports.terminal import GAP, as_text, say, say_all, show_table
from rota.reports.wording import change_words

COLUMNS: tuple[tuple[str, str], ...] = (
    ("mean_jct_s", "mean JCT"),
    ("mean_waiting_s", "mean wait"),
    ("utilisation", "util"),
    ("finished", "finished"),
    ("deadline_share", "deadlines"),
    ("p99_waiting_s", "p99 wait"),
    ("p99_jct_s", "p99 JCT"),
    ("p50_jct_s", "p50 JCT"),
    ("makespan_s", "makespan"),
    ("mean_slowdown", "slowdown"),
    ("preemptions", "preempt"),
    ("mean_rho", "mean ρ"),
    ("goodput", "goodput"),
    ("fragmentation", "fragm"),
    ("mean_delay_s", "to start"),
    ("engine_seconds", "engine"),
)
"""Keys and heads, the most important first: a narrow terminal loses the last ones.

The wait is all time not running; preemptive policies start every job immediately and let it wait afterwards.
They change the tail of waits; the tail of completion times mostly shows how long the longest jobs are.
"""
_PLACES = (0, 7, 6, 1, 5, 14, 9, 11, 8, 2, 13, 12, 10, 4, 3, 15)
"""Order of the columns that fit: times first, then the cluster, then counts."""
_RATIO_OF = frozenset(
    {"mean_jct_s", "p50_jct_s", "p99_jct_s", "mean_waiting_s", "p99_waiting_s", "mean_delay_s", "makespan_s"}
)


def fitted_table(comparison: Comparison, width: int) -> DataTable:
    """The columns that fit into `width` characters; policies and mean JCT are always there."""
    keys, heads = fitting(comparison, width), dict(COLUMNS)
    rows = tuple(
        TableRow(
            _name(line),
            tuple(_cell(line, key, comparison) for key in keys),
            ranked=line.ranked,
            style="bold",
        )
        for line in comparison.lines
    )
    columns = tuple(TableColumn(heads[key]) for key in keys)
    return DataTable("Comparison", "policy", columns, rows, starred=True)


def whole_table(comparison: Comparison, title: str, keys: Sequence[str]) -> DataTable:
    """The metrics `keys` of every policy, for a page."""
    columns = tuple(TableColumn(METRICS[key].label, METRICS[key].definition) for key in keys)
    rows = tuple(
        TableRow(
            line.policy,
            tuple(_page_cell(line.cells[key], is_base=line.policy == comparison.baseline) for key in keys),
            below=_remark(line, comparison),
            curve=number,
            ranked=line.ranked,
        )
        for number, line in enumerate(comparison.lines)
    )
    return DataTable(title, "Policy", columns, rows, has_caption=True, style="headline cards sortable")


def table_of_all(comparison: Comparison) -> DataTable:
    """Every metric in a row, the policies across."""
    columns = tuple(TableColumn(line.policy, is_name=True, sorts=False) for line in comparison.lines)
    rows = tuple(
        TableRow(
            key,
            tuple(
                TableCell(cell.text, value=cell.value, best=cell.best)
                for cell in (line.cells[key] for line in comparison.lines)
            ),
            means=metric.definition,
        )
        for key, metric in METRICS.items()
    )
    return DataTable("All metrics", "Metric", columns, rows, style="cards sortable")


def _remark(line: ComparisonRow, comparison: Comparison) -> tuple[str, ...]:
    """What stands below the name of a policy on a page."""
    if line.policy == comparison.baseline and len(comparison.lines) > 1:
        return ("baseline",)
    if not line.ranked:
        return ("not ranked",)
    return ("finished fewer jobs",) if line.partial else ()


def _page_cell(cell: MetricCell, *, is_base: bool) -> TableCell:
    """Value, its margin, and its change against the baseline."""
    is_compared = not is_base and cell.metric.scope != "run"
    below = [*([cell.margin] if cell.margin else []), *(changes(cell) if is_compared else [])]
    return TableCell(cell.text, tuple(below), cell.value, cell.best)


def print_comparison(
    comparison: Comparison, console: Console, calibration: Calibration | None = None
) -> None:
    """The table, what its marks mean, the numbers that no mean includes, and the calibration."""
    width = console.width
    show_table(console, fitted_table(comparison, width), name_width=_name_width(width))
    say_all(console, footnotes(comparison))
    if calibration:
        say(console, calibration.text, "" if calibration.agrees else "yellow")


def comparison_text(comparison: Comparison, width: int, calibration: Calibration | None = None) -> str:
    """What `print_comparison` prints, without colour."""
    return as_text(lambda screen: print_comparison(comparison, screen, calibration), width)


def fitting(comparison: Comparison, width: int) -> list[str]:
    """Keys of the columns that fit into `width`, in the order they are shown."""
    names = max(len("policy"), *(len(_name(line)) for line in comparison.lines))
    left = width - min(names, _name_width(width))
    chosen: set[str] = set()
    for key, head in COLUMNS:
        texts = [cell_text(line, key, comparison) for line in comparison.lines]
        if key not in _ALWAYS and not comparison.tells_apart(key):
            continue
        # One letter more than each line, for the star of the best.
        left -= max(len(head), *(1 + len(part) for text in texts for part in text.split("\n"))) + GAP
        if left < 0 and chosen:
            break
        chosen.add(key)
    return [COLUMNS[i][0] for i in _PLACES if COLUMNS[i][0] in chosen]


_ALWAYS = frozenset({"mean_jct_s", "mean_waiting_s", "utilisation", "finished"})


def _name_width(width: int) -> int:
    return max(width // 3, 12)


def _name(line: ComparisonRow) -> str:
    return line.policy + (" !" if line.partial else "")


def _cell(line: ComparisonRow, key: str, comparison: Comparison) -> TableCell:
    first, *below = cell_text(line, key, comparison).split("\n")
    return TableCell(first, tuple(below), line.cells[key].value, line.cells[key].best)


def cell_text(line: ComparisonRow, key: str, comparison: Comparison) -> str:
    """`5h 12m −38%`: value, and its change against the baseline; below them their intervals, if any."""
    cell = line.cells[key]
    text = cell.text if key != "finished" else _finished(line, cell)
    if cell.margin and not cell.likely and key in _RATIO_OF:
        text += f" {cell.margin}"
    is_compared = key in _RATIO_OF and line.policy != comparison.baseline
    change, *below = (changes(cell) if is_compared else []) or [""]
    first = f"{text} {change}".rstrip()
    return "\n".join([first, *([cell.margin] if cell.likely else []), *below])


def changes(cell: MetricCell) -> list[str]:
    """`−38%`, and `[−45%, −30%]` where confidence was asked for; nothing where there is no ratio."""
    if cell.ratio is None:
        return []
    said = [change_words(cell.ratio, cell.metric.unit)]
    if cell.likely_ratio is not None:
        low, high = (change_words(edge, cell.metric.unit) for edge in cell.likely_ratio)
        said.append(f"[{low}, {high}]")
    return said


def _finished(line: ComparisonRow, cell: MetricCell) -> str:
    return f"{cell.text}/{line.cells['jobs'].text}"


def footnotes(comparison: Comparison) -> list[str]:
    """Legend of the marks, and the numbers that no mean includes."""
    said = [f"Measured: {window}."] if (window := _window(comparison)) else []
    if len(comparison.lines) > 1:
        said.append(f"Changes are against {comparison.baseline}; * is the best of a column.")
    if any(not (line.ranked or line.observed) for line in comparison.lines):
        said.append("Bounds are not ranked.")
    notes = [" ".join(said)] if said else []
    notes += [
        f"{line.policy}: {', '.join(lost)}; no mean includes them."
        for line in comparison.lines
        if (lost := _not_finished(line))
    ]
    notes += [
        f"{line.policy}: {sentence}" for line in comparison.lines if (sentence := _promises(line.cells))
    ]
    if comparison.observed and comparison.shared_jobs:
        known = plural(comparison.shared_jobs, "job")
        notes.append(
            f"{comparison.observed.policy}: its means, and changes between it and the policies, are over the "
            f"{known} of known start and end; the means of the policies are over all that finished."
        )
    notes += terms(comparison)
    partial = [line.policy for line in comparison.lines if line.partial]
    if partial:
        notes.append(f"! {', '.join(partial)}: fewer jobs finished than under another policy; not ranked.")
    notes += spreads(comparison)
    return notes


def spreads(comparison: Comparison) -> list[str]:
    """The additions to numbers: intervals, or deviations over seeds."""
    if any(cell.likely for line in comparison.lines for cell in line.cells.values()):
        return [
            f"[a, b]: between these lie {100 * LIKELY:.0f}% of {DRAWS} mixtures of blocks of the same weeks, "
            "the same for all policies; below a change, that of the change."
        ]
    if any(line.runs > 1 for line in comparison.lines):
        return ["± is the standard deviation over seeds."]
    return []


def _window(comparison: Comparison) -> str:
    asked = comparison.summaries[0].window
    return "" if asked == "all" else f"jobs submitted in {asked}"


def _not_finished(line: ComparisonRow) -> Sequence[str]:
    counted = [(line.cells[key], key) for key in ("unfinished", "rejected")]
    return [f"{cell.text} {key}" for cell, key in counted if cell.value]


BROKEN_BY = {
    "promises_broken_by_jobs": "since the job failed or was cancelled",
    "promises_broken_by_faults": "since a node was lost",
    "promises_broken_otherwise": "since it took longer than was known, or was planned wrongly",
}
"""Metrics that divide the broken promises by cause, and the cause that each counts."""


def _promises(cells: Mapping[str, MetricCell]) -> str:
    """Outcomes of promised deadlines, and their cost to other jobs; empty if none was promised."""
    if not cells["promises"].value:
        return ""
    kept = f"{cells['promises_kept_share'].text} of {cells['promises'].text} promised deadlines kept"
    if broken := [f"{cells[key].text} {why}" for key, why in BROKEN_BY.items() if cells[key].value]:
        kept += f" (not kept: {', '.join(broken)})"
    waited, overtaken = cells["mean_unpromised_waiting_s"], cells["mean_overtaken_s"]
    if waited.value is None:
        return f"{kept}; no job without a promise finished."
    others = f"{kept}; jobs without a promise waited {waited.text} on average"
    if not overtaken.value:
        return f"{others}, and none of it while promised jobs that came later held their GPUs."
    return (
        f"{others}, {overtaken.text} of it while promised jobs that came later held as many GPUs as they "
        f"asked for; that is {cells['promises_cost_gpu_s'].text}, each GPU counted once."
    )
