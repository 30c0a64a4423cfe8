"""An advice on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rota.errors import shown
from rota.model.units import plural
from rota.reports.advice.facts import AdviceFacts
from rota.reports.advice.verdict import VerdictLine
from rota.reports.advice.wording import (
    SOURCES,
    change,
    headline,
    range_words,
    replay_sentence,
    spread_sentence,
    time_sentence,
    value_words,
)

MOST_LINES = 14
"""Policies in the table; the page and JSON have all."""


def text(advice: AdviceFacts, width: int, *, slurm: bool) -> str:
    """The whole as plain text, at most `width` characters a line."""
    out = StringIO()
    show(advice, Console(file=out, width=width, no_color=True, legacy_windows=False), slurm=slurm)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def show(advice: AdviceFacts, screen: Console, *, slurm: bool) -> None:
    """Headline, table, what it rests on, and the lines to adopt the best."""
    trace = advice.trace
    head = (
        f"{shown(trace.source)} ({trace.format}, {plural(len(trace), 'job')}) on {advice.cluster.describe()}"
    )
    screen.print(head, style="bold", markup=False, highlight=False, soft_wrap=True)
    said = [f"{advice.part.said[0].upper()}{advice.part.said[1:]}."] if advice.part.said else []
    said += [f"Goal {goal.key}: {goal.means}." for goal in advice.wanted.goals]
    for sentence in said:
        screen.print(sentence, style="dim", markup=False, highlight=False)
    screen.print()
    screen.print(headline(advice), style="bold green" if advice.verdict.firm else "bold", markup=False)
    screen.print()
    screen.print(_table(advice), highlight=False)
    for sentence in _notes(advice):
        screen.print(sentence, style="dim", markup=False, highlight=False)
    if len(advice.verdict.told) > 1:
        screen.print()
        screen.print(_durations(advice), highlight=False)
    screen.print()
    style = "" if advice.is_calibrated and not advice.verdict.unsupported else "yellow"
    screen.print(replay_sentence(advice), style=style, markup=False, highlight=False)
    for remark in advice.trials.remarks:
        screen.print(remark, style="yellow", markup=False, highlight=False)
    screen.print()
    for line in adopt_lines(advice, slurm=slurm):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)


def _table(advice: AdviceFacts) -> Table:
    wanted, verdict = advice.wanted, advice.verdict
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("policy", no_wrap=True, overflow="ellipsis", max_width=34)
    for goal in wanted.goals:
        table.add_column(goal.label, justify="right", no_wrap=True)
    for name in ("change", "likely", "interruptions"):
        table.add_column(name, justify="right", no_wrap=True)
    observed = advice.trials.observed
    if observed is not None:
        cells = [value_words(goal, v) for goal, v in zip(wanted.goals, observed.values, strict=True)]
        table.add_row(Text("observed", style="italic"), *cells, "", "", "")
    shown = [line for line in verdict.lines if not line.unranked]
    few = [*shown[:MOST_LINES], *[line for line in shown[MOST_LINES:] if line.is_present]]
    for line in few:
        table.add_row(*_row(advice, line))
    return table


def _row(advice: AdviceFacts, line: VerdictLine) -> list[Text | str]:
    wanted = advice.wanted
    values = [value_words(goal, v) for goal, v in zip(wanted.goals, line.values, strict=True)]
    mark = " *" if line.undecided and len(advice.verdict.undecided) > 1 else ""
    name = Text(line.policy + (" (now)" if line.is_present else "") + mark)
    if line is advice.verdict.best:
        name.stylize("bold")
    changed = "" if line.is_present else change(wanted, line.ratio)
    likely = "" if line.is_present else range_words(wanted, line)
    return [name, *values, changed, likely, f"{line.preemptions:,.0f}"]


def _notes(advice: AdviceFacts) -> Iterator[str]:
    verdict = advice.verdict
    if len(verdict.undecided) > 1:
        yield "* the best, and what can't be told apart from it."
    more = sum(not line.unranked for line in verdict.lines) - MOST_LINES
    if more > 0:
        yield f"{plural(more, 'more policy')[:-1]}ies" if more > 1 else "1 more policy; --json has all."
    for line in verdict.lines:
        if line.unranked:
            yield f"{line.policy} is not ranked: {line.unranked}."
    yield spread_sentence(advice)


def _durations(advice: AdviceFacts) -> Table:
    """How those that read durations do, by where these come from."""
    wanted, told = advice.wanted, advice.verdict.told
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("durations from", no_wrap=True)
    for one in told:
        table.add_column(SOURCES.get(one.source, one.source), justify="right", no_wrap=True)
    first = told[0].values
    readers = [name for name in first if any(one.values.get(name) != first[name] for one in told[1:])]
    for name in readers[:5]:
        cells = []
        for one in told:
            values = one.values.get(name, ())
            shown = "; ".join(value_words(goal, v) for goal, v in zip(wanted.goals, values, strict=False))
            cells.append(shown + (" *" if name in one.best else "  "))
        table.add_row(name, *cells)
    return table


def adopt_lines(advice: AdviceFacts, *, slurm: bool) -> Iterator[str]:
    """What to type, and what to write into Slurm's configuration."""
    verdict = advice.verdict
    if verdict.stays or not verdict.enough or len(verdict.lines) < 2:
        yield time_sentence(advice)
        return
    adoption = advice.adoption
    if adoption.refused:
        yield f"No line to adopt it: {adoption.refused}."
    elif verdict.firm:
        yield f"To adopt it:   {adoption.set_line}"
        yield f"to watch only: {adoption.shadow_line}"
    else:
        yield f"To watch what it would do, without acting: {adoption.shadow_line}"
    if adoption.knowledge_line:
        yield f"it was told predictions, as a controller tells that began so: {adoption.knowledge_line}"
    if slurm:
        near = advice.slurm
        yield f"In Slurm: {near.idea}"
        yield from (f"  {line}" for line in (*near.conf, *near.sacctmgr))
        yield from near.cannot
    yield time_sentence(advice)
