"""The report: one HTML file with everything in it, which opens anywhere, offline, and prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rota.model.atomic import replacing
from rota.model.record import Record
from rota.model.trace import OddRows
from rota.model.units import format_duration, plural
from rota.reports.chart import UNITS, time_axis
from rota.reports.compare import Calibration, Comparison, compare
from rota.reports.definitions import definitions
from rota.reports.figures import (
    common_span,
    delay_chart,
    jct_chart,
    one_per_policy,
    queue_chart,
    utilisation_chart,
)
from rota.reports.gantt import colour_names, gantt
from rota.reports.groups import group_tables
from rota.reports.headline import headline
from rota.reports.metrics import METRICS
from rota.reports.palette import BARS, DARK, LIGHT, dash
from rota.reports.summary import summarise
from rota.reports.window import Window
from rota.reports.wording import change_words, words

TIMES: tuple[str, ...] = ("mean_jct_s", "p50_jct_s", "p90_jct_s", "p99_jct_s", "mean_delay_s", "p99_delay_s")
TIMES += ("mean_slowdown", "mean_rho", "max_rho", "makespan_s")
WORK: tuple[str, ...] = (
    "utilisation",
    "fragmentation",
    "goodput",
    "preemptions",
    "migrations",
    "restarts",
    "deadline_share",
)
WORK += ("finished", "unfinished", "failed", "rejected", "engine_seconds")
ALWAYS = frozenset({*TIMES[:9], "utilisation", "finished", "unfinished", "failed", "rejected"})
"""Columns that stay when all their values are zero or missing."""


@dataclass(frozen=True)
class Notes:
    """What a report says besides the runs."""

    title: str = "Scheduling report"
    odd: Sequence[OddRows] = ()
    """Odd rows of the trace."""
    calibration: Calibration | None = None
    remarks: Sequence[str] = ()
    """Sentences to print under the headline."""
    site_policy: str | None = None
    """The policy that stands for what the site ran: the baseline unless another is named."""


def write_report(
    records: Sequence[Record],
    path: Path,
    *,
    baseline: str | None = None,
    window: Window | None = None,
    notes: Notes | None = None,
) -> None:
    """Write the report of `records` to `path`, whole or not at all."""
    text = render(records, baseline=baseline, window=window, notes=notes)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def render(
    records: Sequence[Record],
    *,
    baseline: str | None = None,
    window: Window | None = None,
    notes: Notes | None = None,
) -> str:
    """The report as text."""
    notes = notes or Notes()
    comparison = compare([summarise(record, window) for record in records], baseline, notes.site_policy)
    runs = one_per_policy(records)
    span = common_span(runs)
    colours = colour_names(runs)
    charts = [chart(runs, window) for chart in (jct_chart, delay_chart, utilisation_chart, queue_chart)]
    gantts = [gantt(run, span, colours) for run in runs]
    return (
        environment()
        .get_template("report.html")
        .render(
            notes=notes,
            comparison=comparison,
            headline=headline(comparison),
            facts=_facts(records, comparison, window),
            tables=[
                ("Times", _columns(comparison, TIMES)),
                ("Work and outcomes", _columns(comparison, WORK)),
            ],
            metrics=METRICS,
            charts={chart.key: chart for chart in charts},
            time=time_axis(span.length_s, "time since the first submission"),
            gantts=gantts,
            colours=colours if any(figure.bars for figure in gantts) else None,
            sizes=group_tables(comparison, "sizes"),
            tenants=group_tables(comparison, "tenants"),
            provenance=_provenance(runs),
            definitions=definitions(),
            several_seeds=any(line.runs > 1 for line in comparison.lines),
        )
    )


@cache
def environment() -> Environment:
    """Where templates are found, and what they can call."""
    environment = Environment(
        loader=PackageLoader("rota.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    folder = files("rota.reports") / "templates"
    environment.globals |= {
        "units": int(UNITS),
        "colours_of": {"light": LIGHT, "dark": DARK, "bars": BARS},
        "dash": dash,
        "words": words,
        "change_words": change_words,
        "style": Markup((folder / "report.css").read_text(encoding="utf-8")),  # ours, not input
        "script": Markup((folder / "report.js").read_text(encoding="utf-8")),
    }
    return environment


def _columns(comparison: Comparison, keys: Sequence[str]) -> list[str]:
    """Keys worth a column: those that say something for some policy."""
    return [key for key in keys if key in ALWAYS or any(line.cells[key].value for line in comparison.lines)]


def _facts(records: Sequence[Record], comparison: Comparison, window: Window | None) -> list[tuple[str, str]]:
    first, summary = records[0], comparison.summaries[0]
    facts = [("Cluster", str(first.cluster.get("describe", plural(int(str(first.cluster["gpus"])), "GPU"))))]
    counted = f"{summary['jobs']:,} of {len(first.jobs):,}" if window else f"{summary['jobs']:,}"
    facts.append(("Jobs", counted))
    axis = f" ({format_duration(summary.span.length_s)} long)" if window else ""
    facts.append(("Measured", f"{window}{axis}" if window else "the whole run"))
    facts.append(("Baseline", comparison.baseline))
    if "trace" in first.provenance:
        facts.insert(0, ("Trace", str(first.provenance["trace"])))
    return facts


def _provenance(runs: Sequence[Record]) -> list[tuple[str, list[tuple[str, str]]]]:
    """What all runs share, then what is particular to each."""
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
