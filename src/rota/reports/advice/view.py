"""The tables of an advice: its ranking, and the ranking with durations from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from rota.errors import shown
from rota.model.units import plural
from rota.reports.advice.advice import Advice
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
from rota.reports.finding import DataTable, TableCell, TableColumn, TableRow
from rota.reports.terminal import as_text, say, say_all, show_table

MOST_LINES = 14
"""Policies in a terminal; the page and JSON have all."""
MOST_READERS = 5
"""Policies for which the terminal view shows the effect of other durations."""


def ranking(advice: Advice) -> DataTable:
    """The observations, then every policy, the best first: its goals, its change, its interruptions."""
    wanted, verdict = advice.wanted, advice.verdict
    heads = [goal.label for goal in wanted.goals]
    heads += ["change" if wanted.one else "change, weighted", "likely", "interruptions"]
    rows = []
    if advice.trials.observed is not None:
        cells = _cells(advice, advice.trials.observed.values)
        rows.append(_row("observed", [*cells, "", "", ""], ("what really happened",), ranked=False))
    for number, line in enumerate(verdict.lines):
        cells = _cells(advice, line.values)
        best = len(cells) if line.undecided else 0
        changed = ("", "") if line.is_present else (change(wanted, line.ratio), range_words(wanted, line))
        cells += [*changed, f"{line.preemptions:,.0f}"]
        below = _remark(advice, line, is_best=number == 0)
        rows.append(_row(line.policy, cells, below, best, ranked=not line.unranked))
    columns = tuple(map(TableColumn, heads))
    return DataTable("Ranking", "Policy", columns, tuple(rows), style="headline cards")


def short_ranking(advice: Advice) -> DataTable:
    """The ranking for a terminal: as many columns as fit, with marks behind the names."""
    whole, verdict = ranking(advice), advice.verdict
    lines = verdict.lines
    seen = {row.name: row for row in whole.rows}
    shown = [line for line in lines if not line.unranked]
    few = [*shown[:MOST_LINES], *[line for line in shown[MOST_LINES:] if line.is_present]]
    rows = [row for row in whole.rows[:1] if advice.trials.observed is not None]
    for line in few:
        name = line.policy + (" (now)" if line.is_present else "")
        name += " *" if line.undecided and len(verdict.undecided) > 1 else ""
        style = "bold" if line is verdict.best else ""
        cells = tuple(TableCell(cell.text) for cell in seen[line.policy].cells)
        rows.append(TableRow(name, cells, style=style))
    columns = tuple(TableColumn(of.head.partition(",")[0]) for of in whole.columns)
    return DataTable(whole.title, "policy", columns, tuple(rows))


def left_out_words(advice: Advice) -> str:
    """How many policies `short_ranking` has no room for; empty if it shows all that are ranked."""
    more = sum(not line.unranked for line in advice.verdict.lines) - MOST_LINES
    return f"{more:,} more {'policy' if more == 1 else 'policies'}; --json has all." if more > 0 else ""


def by_durations(advice: Advice) -> DataTable | None:
    """The policies that read durations, by where these come from; None if none of them changes with it."""
    told = advice.verdict.told
    first, *others = told
    rows = []
    for name, own in first.values.items():
        if all(one.values.get(name, own) == own for one in others):
            continue
        cells = tuple(
            TableCell("; ".join(_cells(advice, one.values.get(name, ()))), best=name in one.best)
            for one in told
        )
        rows.append(TableRow(name, cells))
    columns = tuple(TableColumn(SOURCES.get(one.source, one.source)) for one in told)
    return DataTable("By source of durations", "Policy", columns, tuple(rows)) if rows else None


def short_durations(table: DataTable) -> DataTable:
    """`by_durations` for a terminal: the first few, the best of each source with a star."""
    rows = tuple(
        TableRow(row.name, tuple(TableCell(cell.text + (" *" if cell.best else "  ")) for cell in row.cells))
        for row in table.rows[:MOST_READERS]
    )
    return DataTable(table.title, "durations from", table.columns, rows)


def left_out_table(advice: Advice) -> DataTable | None:
    """The policies that were not tried, by the reason; None if all were."""
    why: dict[str, list[str]] = {}
    undone = ((name, "the time was over") for name in advice.trials.undone)
    for name, reason in (*advice.candidates.left_out, *undone):
        why.setdefault(reason, []).append(name)
    rows = [(", ".join(names), reason) for reason, names in why.items()]
    return DataTable.of_texts("Not tried", ("Policy", "Why"), rows) if rows else None


def _row(name: str, cells: Sequence[str], below: tuple[str, ...], best: int = 0, *, ranked: bool) -> TableRow:
    """A row with its first `best` cells tinted."""
    made = tuple(TableCell(text, best=place < best) for place, text in enumerate(cells))
    return TableRow(name, made, below, ranked=ranked)


def _remark(advice: Advice, line: VerdictLine, *, is_best: bool) -> tuple[str, ...]:
    """What stands below the name of a policy on a page."""
    if line.is_present:
        return ("the present policy, replayed",)
    if line.unranked:
        return (f"not ranked: {line.unranked}",)
    if not line.undecided or len(advice.verdict.undecided) < 2:
        return ()
    return ("the best, not to be told apart from others" if is_best else "can't be told apart from the best",)


def _cells(advice: Advice, values: Sequence[float]) -> list[str]:
    return [value_words(goal, value) for goal, value in zip(advice.wanted.goals, values, strict=False)]


_NAME_WIDTH = 34


def text(advice: Advice, width: int, *, slurm: bool) -> str:
    """The whole as plain text, at most `width` characters a line."""
    return as_text(lambda screen: show(advice, screen, slurm=slurm), width)


def show(advice: Advice, screen: Console, *, slurm: bool) -> None:
    """Headline, table, basis, and the lines to adopt the best."""
    trace = advice.trace
    head = (
        f"{shown(trace.source)} ({trace.format}, {plural(len(trace), 'job')}) on {advice.cluster.describe()}"
    )
    say(screen, head, "bold", wraps=False)
    part = [f"{advice.part.said[0].upper()}{advice.part.said[1:]}."] if advice.part.said else []
    say_all(screen, [*part, *(f"Goal {goal.key}: {goal.means}." for goal in advice.wanted.goals)])
    say(screen)
    say(screen, headline(advice), "bold green" if advice.verdict.firm else "bold")
    say(screen)
    show_table(screen, short_ranking(advice), name_width=_NAME_WIDTH)
    say_all(screen, _notes(advice))
    if durations := by_durations(advice):
        say(screen)
        show_table(screen, short_durations(durations), name_width=_NAME_WIDTH)
    say(screen)
    is_firm = advice.is_calibrated and not advice.verdict.unsupported
    say(screen, replay_sentence(advice), "" if is_firm else "yellow")
    say_all(screen, advice.trials.remarks, "yellow")
    say(screen)
    for line in adopt_lines(advice, slurm=slurm):
        say(screen, line, wraps=False)


def _notes(advice: Advice) -> Iterator[str]:
    verdict = advice.verdict
    if len(verdict.undecided) > 1:
        yield "* the best, and what can't be told apart from it."
    if more := left_out_words(advice):
        yield more
    for line in verdict.lines:
        if line.unranked:
            yield f"{line.policy} is not ranked: {line.unranked}."
    yield spread_sentence(advice)


def adopt_lines(advice: Advice, *, slurm: bool) -> Iterator[str]:
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
