"""The report: one HTML file with everything in it, which opens anywhere, offline, and prints."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rota.model.atomic import replacing
from rota.model.record import Record
from rota.model.trace import OddRows
from rota.model.units import format_duration, plural
from rota.reports.against import Pair, pairs
from rota.reports.chart import UNITS
from rota.reports.clock import clock_of
from rota.reports.compare import Comparison, compare
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
from rota.reports.gantt import gantt
from rota.reports.groups import group_tables
from rota.reports.headline import headline
from rota.reports.likeness import Calibration
from rota.reports.metrics import METRICS
from rota.reports.names import breakable, loose
from rota.reports.palette import BARS, DARK, LIGHT, dash
from rota.reports.sizes import sizes_figures
from rota.reports.summary import Summary, summarise_all
from rota.reports.table import changes, spreads
from rota.reports.terms import terms
from rota.reports.waits import causes, hour_chart, parts_named, promise_bars, size_bars, split_bars
from rota.reports.window import Span, Window
from rota.reports.wording import NOTHING, change_words, words

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
_SCRIPTS = ("core", "charts", "gantt", "pairs", "tables")
"""In this order; each stands on those before it."""


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
    summaries: Sequence[Summary] | None = None,
) -> None:
    """Write the report of `records` to `path`, whole or not at all."""
    text = render(records, baseline=baseline, window=window, notes=notes, summaries=summaries)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def render(
    records: Sequence[Record],
    *,
    baseline: str | None = None,
    window: Window | None = None,
    notes: Notes | None = None,
    summaries: Sequence[Summary] | None = None,
) -> str:
    """The report as text; `summaries` are those of the records inside `window`, where they are known."""
    notes = notes or Notes()
    known = summaries if summaries is not None else summarise_all(records, window)
    comparison = compare(known, baseline, notes.site_policy)
    runs = one_per_policy(records)
    span, (time, shown) = common_span(runs), figure_axis(runs)
    duels = pairs(runs, window)
    axis_span = Span(span.start_s, span.start_s + time.high)
    charts = [chart(runs, window) for chart in (jct_chart, waiting_chart, utilisation_chart, queue_chart)]
    bars, others = split_bars(runs, window), promise_bars(runs, window)
    clock = clock_of(runs[0])
    template = environment().get_template("report.html")
    return template.render(
        notes=notes,
        comparison=comparison,
        headline=headline(comparison),
        terms=[*terms(comparison), *spreads(comparison)],
        facts=_facts(records, comparison, window),
        tables=[
            ("Times", [key for key in TIMES if comparison.tells_apart(key)]),
            ("Work and outcomes", [key for key in WORK if comparison.tells_apart(key)]),
        ],
        constant=_constant(comparison),
        metrics=METRICS,
        charts={chart.key: chart for chart in charts},
        hours=hour_chart(runs, window),
        split=bars,
        split_parts=parts_named(bars),
        causes=causes(runs, window),
        size_bars=size_bars(comparison),
        time=time,
        shown=shown,
        epoch=clock.at(span.start_s).timestamp() if clock else "",
        work=work_chart(runs, window),
        slack=slack_chart(runs, window),
        kept=kept_chart(runs, window),
        nodes=nodes_chart(runs, window),
        others=others,
        others_parts=parts_named(others),
        lanes=sizes_figures(runs, axis_span),
        gantts=[gantt(run, span, shown) for run in runs],
        pictured=span.length_s / time.high,
        drawn=drawn(runs, axis_span, shown, duels),
        base=[line.policy for line in comparison.lines].index(comparison.baseline),
        duels=_against_baseline(duels, [run.policy for run in runs], comparison.baseline),
        sizes=group_tables(comparison, "sizes"),
        tenants=group_tables(comparison, "tenants"),
        provenance=_provenance(runs),
        definitions=definitions(),
        several_seeds=any(line.runs > 1 for line in comparison.lines),
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
        "duration": format_duration,
        "plural": lambda count, one, many: f"{count:,} {one if count == 1 else many}",
        "changes": changes,
        "change_words": change_words,
        "style": style_named("report"),
        "script": Markup("".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)),
    }
    environment.filters |= {"told": told, "name": breakable, "loose": loose}
    return environment


_TYPED = re.compile(r"`([^`]+)`|(?<![\w-])(--[a-z][a-z-]*)")
"""What stands in backticks, and options, in a sentence that is written for a terminal."""


def told(sentence: str) -> Markup:
    """`sentence` for a page: what is to be typed is code, and no option is broken over two lines."""

    def code(typed: re.Match[str]) -> str:
        return f'<code class="option">{typed[2]}</code>' if typed[2] else f"<code>{typed[1]}</code>"

    return Markup(_TYPED.sub(code, str(escape(sentence))))


def style_named(name: str) -> Markup:
    """The style sheet `name` beside the templates, to stand in a page."""
    return Markup(
        (files("rota.reports") / "templates" / f"{name}.css").read_text(encoding="utf-8")
    )  # ours, not input


def _constant(comparison: Comparison) -> list[tuple[str, str]]:
    """What is the same for all, and so has no column: names and values."""
    keys = [key for key in (*TIMES, *WORK) if not comparison.tells_apart(key) and METRICS[key].scope != "run"]
    said = [(METRICS[key].label, comparison.lines[0].cells[key].text) for key in keys]
    return [(label, text) for label, text in said if text != NOTHING]


def _against_baseline(duels: Sequence[Pair], names: Sequence[str], baseline: str) -> list[tuple[int, Pair]]:
    """The pairs of the baseline with each other policy, turned so that the baseline is the first."""
    base = names.index(baseline)
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
