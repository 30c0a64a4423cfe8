"""An advice on one screen."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from rota.errors import shown
from rota.model.units import plural
from rota.reports.advice.facts import AdviceFacts
from rota.reports.advice.tables import by_durations, left_out_words, short_durations, short_ranking
from rota.reports.advice.wording import headline, replay_sentence, spread_sentence, time_sentence
from rota.reports.terminal import as_text, say, say_all, show_table

_NAME_WIDTH = 34


def text(advice: AdviceFacts, width: int, *, slurm: bool) -> str:
    """The whole as plain text, at most `width` characters a line."""
    return as_text(lambda screen: show(advice, screen, slurm=slurm), width)


def show(advice: AdviceFacts, screen: Console, *, slurm: bool) -> None:
    """Headline, table, what it rests on, and the lines to adopt the best."""
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


def _notes(advice: AdviceFacts) -> Iterator[str]:
    verdict = advice.verdict
    if len(verdict.undecided) > 1:
        yield "* the best, and what can't be told apart from it."
    if more := left_out_words(advice):
        yield more
    for line in verdict.lines:
        if line.unranked:
            yield f"{line.policy} is not ranked: {line.unranked}."
    yield spread_sentence(advice)


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
