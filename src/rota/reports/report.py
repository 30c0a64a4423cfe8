"""The report: one HTML file with everything in it, which opens anywhere, offline, and prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rota.model.record import Record
from rota.model.trace import OddRows
from rota.model.units import format_duration, plural
from rota.reports.against import Pair, pairs
from rota.reports.calibration import fit_section
from rota.reports.clock import clock_of
from rota.reports.compare import Comparison, compare
from rota.reports.comparison_table import fitted_table, footnotes, spreads, table_of_all, whole_table
from rota.reports.comparison_words import headline, terms
from rota.reports.definitions import definitions
from rota.reports.drawn import drawn
from rota.reports.figures import (
    common_span,
    figure_axis,
    jct_chart,
    kept_chart,
    nodes_chart,
    one_per_policy,
    queue_chart,
    slack_chart,
    utilisation_chart,
    waiting_chart,
    work_chart,
)
from rota.reports.finding import DataTable, TableCell, TableColumn, TableRow
from rota.reports.gantt import gantt
from rota.reports.groups import group_tables
from rota.reports.likeness import Calibration
from rota.reports.metrics import METRICS
from rota.reports.page import environment, write_text
from rota.reports.sizes import sizes_figures
from rota.reports.summary import Summary, summarise_all
from rota.reports.waits import causes, hour_chart, promise_bars, size_bars, split_bars
from rota.reports.window import Span, Window
from rota.reports.wording import NOTHING, words

TIMES: tuple[str, ...] = ("mean_waiting_s", "p90_waiting_s", "p99_waiting_s", "mean_delay_s")
TIMES += ("mean_jct_s", "p50_jct_s", "p90_jct_s", "p99_jct_s", "mean_slowdown", "mean_rho", "max_rho")
WORK: tuple[str, ...] = (
    "utilisation",
    "fragmentation",
    "goodput",
    "preemptions",
    "migrations",
    "restarts",
    "deadline_share",
    "promises_kept_share",
    "promises_cost_gpu_s",
    "makespan_s",
)
WORK += ("finished", "unfinished", "failed", "rejected", "engine_seconds")
_WIDTH = 110
"""Characters of the table in a terminal that would have the columns of `brief`."""


@dataclass(frozen=True)
class Notes:
    """Contents of a report other than the runs."""

    title: str = "Scheduling report"
    odd: Sequence[OddRows] = ()
    """Odd rows of the trace."""
    calibration: Calibration | None = None
    remarks: Sequence[str] = ()
    """Sentences to print under the headline."""
    site_policy: str | None = None
    """The policy that represents the site's own: the baseline unless another is named."""


def write_report(
    records: Sequence[Record],
    path: Path,
    *,
    baseline: str | None = None,
    window: Window | None = None,
    notes: Notes | None = None,
    summaries: Sequence[Summary] | None = None,
) -> None:
    """Write the report of `records` to `path`, whole or not at all."""
    text = render(records, baseline=baseline, window=window, notes=notes, summaries=summaries)
    write_text(path, text)


def render(
    records: Sequence[Record],
    *,
    baseline: str | None = None,
    window: Window | None = None,
    notes: Notes | None = None,
    summaries: Sequence[Summary] | None = None,
) -> str:
    """The report as text; `summaries` are of the records inside `window`, if known."""
    notes = notes or Notes()
    known = summaries if summaries is not None else summarise_all(records, window)
    comparison = compare(known, baseline, notes.site_policy)
    runs = one_per_policy(records)
    span, (time, shown) = common_span(runs), figure_axis(runs)
    duels = pairs(runs, window)
    axis_span = Span(span.start_s, span.start_s + time.high)
    charts = [chart(runs, window) for chart in (jct_chart, waiting_chart, utilisation_chart, queue_chart)]
    clock = clock_of(runs[0])
    template = environment().get_template("report.html")
    return template.render(
        title=notes.title,
        scripted=True,
        notes=notes,
        comparison=comparison,
        headline=headline(comparison),
        terms=[*terms(comparison), *spreads(comparison)],
        facts=_facts(records, comparison, window),
        tables=[
            whole_table(comparison, title, keys)
            for title, of in (("Times", TIMES), ("Work and outcomes", WORK))
            if (keys := [key for key in of if comparison.tells_apart(key)])
        ],
        all_metrics=table_of_all(comparison),
        constant=_constant(comparison),
        charts={chart.key: chart for chart in charts},
        hours=hour_chart(runs, window),
        split=split_bars(runs, window),
        causes=_causes_table(causes(runs, window), runs),
        size_bars=size_bars(comparison),
        time=time,
        shown=shown,
        epoch=clock.at(span.start_s).timestamp() if clock else "",
        work=work_chart(runs, window),
        slack=slack_chart(runs, window),
        kept=kept_chart(runs, window),
        nodes=nodes_chart(runs, window),
        others=promise_bars(runs, window),
        lanes=sizes_figures(runs, axis_span),
        gantts=[gantt(run, span, shown) for run in runs],
        pictured=span.length_s / time.high,
        drawn=drawn(runs, axis_span, shown, duels),
        base=[line.policy for line in comparison.lines].index(comparison.baseline),
        duels=_duels_table(_against_baseline(duels, runs, comparison.baseline), runs, comparison.baseline),
        fit=fit_section(notes.calibration) if notes.calibration and notes.calibration.groups else None,
        odd=odd_table(notes.odd) if notes.odd else None,
        sizes=group_tables(comparison, "sizes"),
        tenants=group_tables(comparison, "tenants"),
        provenance=_provenance(runs),
        definitions=definitions(),
        several_seeds=any(line.runs > 1 for line in comparison.lines),
    )


def brief(comparison: Comparison, calibration: Calibration | None = None, remarks: Sequence[str] = ()) -> str:
    """A comparison in a notebook: headline, table and remarks, as HTML without a script.

    Text from outside is escaped.
    """
    notes = [*footnotes(comparison), *([calibration.text] if calibration else []), *remarks]
    table = fitted_table(comparison, _WIDTH)
    template = environment().get_template("brief.html")
    return template.render(headline=headline(comparison), table=table, notes=notes)


def _constant(comparison: Comparison) -> list[tuple[str, str]]:
    """Metrics equal for all, and so without a column: names and values."""
    keys = [key for key in (*TIMES, *WORK) if not comparison.tells_apart(key) and METRICS[key].scope != "run"]
    said = [(METRICS[key].label, comparison.lines[0].cells[key].text) for key in keys]
    return [(label, text) for label, text in said if text != NOTHING]


def _causes_table(
    shares_of: Sequence[tuple[str, Sequence[float | None]]], runs: Sequence[Record]
) -> DataTable | None:
    """What kept jobs from their first start, under each policy; None if there is nothing to tell apart."""
    if len(shares_of) < 2:
        return None
    columns = tuple(
        TableColumn(run.policy, is_name=True, curve=number, dashed=not run.ranked)
        for number, run in enumerate(runs)
    )
    rows = tuple(
        TableRow(name, tuple(TableCell(words(share, "share"), value=share) for share in shares))
        for name, shares in shares_of
    )
    title = (
        "What kept jobs from their first start: share of that time, by the constraint that was dominant when "
        "the wait began"
    )
    return DataTable(title, "Cause", columns, rows, has_caption=True, style="cards sortable")


_DUEL_HEADS = ("Jobs", "wait less", "on average by", "wait the same", "wait more", "on average by")


def _duels_table(
    duels: Sequence[tuple[int, Pair]], runs: Sequence[Record], baseline: str
) -> DataTable | None:
    """Numbers of jobs with shorter, equal and longer waits than under the baseline; None for one policy."""
    rows = []
    for number, pair in duels:
        jobs = max(pair.jobs, 1)
        cells = [
            TableCell(f"{pair.jobs:,}", value=pair.jobs),
            *_part_and_mean(pair.shorter, jobs, pair.gained_s),
            TableCell(words(pair.same / jobs, "share"), value=pair.same),
            *_part_and_mean(pair.longer, jobs, pair.lost_s),
        ]
        run = runs[number]
        rows.append(TableRow(run.policy, tuple(cells), curve=number, ranked=run.ranked))
    if not rows:
        return None
    title = f"Jobs that finished under both, against {baseline}"
    columns = tuple(map(TableColumn, _DUEL_HEADS))
    return DataTable(title, "Policy", columns, tuple(rows), has_caption=True, style="cards sortable")


def _part_and_mean(count: int, jobs: int, mean_s: float) -> tuple[TableCell, TableCell]:
    part = TableCell(words(count / jobs, "share"), value=count)
    return part, TableCell(format_duration(mean_s), value=mean_s)


def odd_table(odd: Sequence[OddRows]) -> DataTable:
    """Odd rows of a trace, and their treatment."""
    heads = ("What", "Rows", "Done", "For instance")
    rows = [(one.what, f"{one.count:,}", one.done, ", ".join(one.examples)) for one in odd]
    return DataTable.of_texts("Odd rows of the trace", heads, rows, has_caption=True)


def _against_baseline(duels: Sequence[Pair], runs: Sequence[Record], baseline: str) -> list[tuple[int, Pair]]:
    """The pairs of the baseline with each other policy, turned so that the baseline is the first."""
    base = [run.policy for run in runs].index(baseline)
    of_base = [pair for pair in duels if base in (pair.first, pair.second)]
    turned = [pair if pair.first == base else pair.turned() for pair in of_base]
    return [(pair.second, pair) for pair in turned]


def _facts(records: Sequence[Record], comparison: Comparison, window: Window | None) -> list[tuple[str, str]]:
    first, summary = records[0], comparison.summaries[0]
    facts = [("Cluster", str(first.cluster.get("describe", plural(int(str(first.cluster["gpus"])), "GPU"))))]
    counted = f"{summary['jobs']:,} of {len(first.jobs):,}" if window else f"{summary['jobs']:,}"
    facts.append(("Jobs", counted))
    axis = f" ({format_duration(summary.span.length_s)} long)" if window else ""
    whole = "all jobs; the cluster to the last submission"
    facts.append(("Measured", f"{window}{axis}" if window else whole))
    if len(comparison.lines) > 1:
        facts.append(("Baseline", comparison.baseline))
    if "trace" in first.provenance:
        facts.insert(0, ("Trace", str(first.provenance["trace"])))
    return facts


def _provenance(runs: Sequence[Record]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Terms of all runs, then the particulars of each."""
    plain = [{str(k): _plain(v) for k, v in run.provenance.items()} for run in runs]
    shared = {k: v for k, v in plain[0].items() if all(own.get(k) == v for own in plain)}
    groups = [("All runs", list(shared.items()))]
    for run, own in zip(runs, plain, strict=True):
        counts = {key: f"{number:,}" for key, number in run.counts.items()}
        particular = {k: v for k, v in own.items() if k not in shared} | counts
        groups.append((run.policy, list(particular.items())))
    return [(name, entries) for name, entries in groups if entries]


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_plain(of)}" for name, of in value.items()) or "nothing"
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
