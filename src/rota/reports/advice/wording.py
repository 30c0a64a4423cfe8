"""The findings, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from rota.model.units import format_duration, plural
from rota.reports.advice.advice import Advice
from rota.reports.advice.goals import Goal, WeightedGoals
from rota.reports.advice.verdict import VerdictLine, unexplained
from rota.reports.confidence import FEWEST_JOBS, LIKELY
from rota.reports.wording import NOTHING, change_words, listed, part_words, significant, words

MOST_NAMES = 3
"""Names in a sentence; of more it says how many."""
JOULES_OF_A_KWH = 3.6e6


def value_words(goal: Goal, value: float) -> str:
    """`9h 35m`, `67.6%`, `0.42 kWh`."""
    if value != value:
        return NOTHING
    if goal.unit is None:
        return f"{significant(value / JOULES_OF_A_KWH)} kWh"
    return words(value, goal.unit)


def change(wanted: WeightedGoals, ratio: float) -> str:
    """A ratio of costs as a change of the goal: `−19%`; of several goals, of their weighted mean."""
    if ratio != ratio:
        return NOTHING
    goal = wanted.one
    return change_words(1.0 / ratio if goal is not None and not goal.lower else ratio)


def range_words(wanted: WeightedGoals, line: VerdictLine) -> str:
    """`−28% to −9%`, the better end first."""
    if line.is_present or line.ratio != line.ratio:
        return NOTHING
    low, high = change(wanted, line.low), change(wanted, line.high)
    return low if low == high else f"{low} to {high}"


def headline(advice: Advice) -> str:
    """What to do, in a few sentences."""
    return " ".join(_headline(advice))


def _headline(advice: Advice) -> Iterator[str]:
    verdict = advice.verdict
    best, present = verdict.best, verdict.present
    if not verdict.enough:
        yield (
            f"Too few jobs to tell policies apart: {len(advice.trials.present[0].submit_s):,} count, and "
            f"fewer than {FEWEST_JOBS} are no basis."
        )
        return
    if len(verdict.lines) == 1:
        yield f"Nothing was compared with {present.policy}: the time was over before."
        return
    if verdict.unsupported:
        yield from _without_a_fit(advice)
    elif verdict.stays:
        goal = advice.wanted.words
        yield f"Stay with {present.policy}: on this trace nothing is decidedly better for {goal}."
    else:
        yield f"Adopt {best.policy}: {_moved(advice, best)}."
    yield from _ties(advice)
    if not verdict.stays:
        yield from _told(advice)
    apart = "" if verdict.unsupported else unexplained(advice.trials.calibration, advice.wanted)
    if apart:
        yield f"It says nothing of what the replay does not explain: {apart}."


def _without_a_fit(advice: Advice) -> Iterator[str]:
    """The best policy in a replay that does not fit the record, and what a firm verdict would take."""
    best, present = advice.verdict.best, advice.verdict.present
    if advice.verdict.stays:
        outcome = "in the replay nothing is decidedly better than what is there"
    else:
        outcome = f"in the replay {best.policy} does best: {_moved(advice, best)}"
    yield (
        f"No firm recommendation: {outcome}; but the replay of the present policy, {present.policy}, does "
        f"not fit what happened: {', and '.join(advice.verdict.unsupported)}."
    )
    if advice.nearer is not None and advice.nearer.policy != present.policy:
        yield (
            f"{advice.nearer.policy} fits better than {present.policy}: try it as --present, or leave "
            "--present out."
        )
    else:
        yield (
            "A firm one takes a replay that fits: --cluster with the site's real nodes and partitions, or "
            "--present with what the site runs."
        )
    if not advice.verdict.stays:
        yield f"Until then let {best.policy} run in the shadow of the present policy."


def _moved(advice: Advice, line: VerdictLine) -> str:
    """`mean JCT goes from 11h 47m to 9h 35m (−19%; −28% to −9% in other mixtures of the same weeks)`."""
    wanted, present = advice.wanted, advice.verdict.present
    changed = f"{change(wanted, line.ratio)}, likely {range_words(wanted, line)}"
    if line is present:
        return f"{line.policy} is the best itself"
    pairs = zip(wanted.goals, present.values, line.values, strict=True)
    goes = [
        f"{goal.label} goes from {value_words(goal, a)} to {value_words(goal, b)}" for goal, a, b in pairs
    ]
    return f"{'; '.join(goes)} ({changed}{'' if wanted.one else ' by the weighted mean'})"


def _ties(advice: Advice) -> Iterator[str]:
    """The policies that are statistically equal to the best."""
    verdict = advice.verdict
    ties = [line.policy for line in verdict.undecided if line is not verdict.best]
    if not ties:
        return
    why = ""
    if verdict.replay_error and not verdict.unsupported:
        why = " by more than the spread and the error of the replay"
    yield f"{listed([verdict.best.policy, *ties], MOST_NAMES + 1)} can't be told apart on this trace{why}."
    calmest = min(verdict.undecided, key=lambda line: line.preemptions)
    if not verdict.stays and calmest.preemptions < verdict.best.preemptions:
        yield (
            f"Of these {calmest.policy} interrupts running jobs least: "
            f"{plural(round(calmest.preemptions), 'time')} against {verdict.best.preemptions:,.0f}."
        )


def _told(advice: Advice) -> Iterator[str]:
    """Whether it holds with durations from elsewhere."""
    verdict = advice.verdict
    first, *others = verdict.told
    if all(one.values == first.values for one in others):
        return
    for one in verdict.doubts:
        yield (
            f"With durations from {SOURCES.get(one.source, one.source)} it would not be among the best, but "
            f"{listed(one.best, MOST_NAMES)}."
        )
    if others and not verdict.doubts:
        named = listed([SOURCES.get(one.source, one.source) for one in others])
        yield f"It stays among the best with durations from {named}."


SOURCES = {
    "predicted": "predictions",
    "user": "users' limits",
    "noisy": "estimates within a factor of 1.6",
    "oracle": "the truth",
}
"""Where durations come from, in words."""


def replay_sentence(advice: Advice) -> str:
    """How far the replay of the present policy is from what happened."""
    verdict, calibration = advice.verdict, advice.trials.calibration
    if advice.trials.observed is None or calibration is None or verdict.replay_error is None:
        return (
            "The trace records no starts, so nobody knows how far a replay is from what happened: gains are "
            "of the replay. Try the winner in the shadow of the present policy first."
        )
    text = calibration.text.replace("--site-policy", "--present")
    apart = f"For {advice.wanted.words} the replay is {part_words(verdict.replay_error)} off"
    if verdict.unsupported:
        return f"{text} {apart}; that is too much to go by."
    return f"{text} {apart}; smaller differences are called undecided."


def spread_sentence(advice: Advice) -> str:
    """A sentence that explains ranges."""
    verdict = advice.verdict
    seeds = f"{plural(verdict.seeds, 'replay')} of each"
    if verdict.seeds > 1:
        seeds += ", all but the first with every submission moved a little"
    return (
        f"Likely: {100 * LIKELY:.0f}% of mixtures of blocks of the same weeks, over {seeds}; the same jobs "
        "for all policies."
    )


def time_sentence(advice: Advice) -> str:
    """The replays made, and those for which there was no time."""
    trials = advice.trials
    said = [f"Replayed in {format_duration(trials.spent_s)}"]
    lacking = [*trials.undone]
    wanted = {*(one.source for one in advice.verdict.told), *trials.others}
    missing = [one for one in advice.durations if one not in wanted]
    if missing:
        lacking.append(f"durations from {listed([SOURCES.get(one, one) for one in missing])}")
    if lacking:
        said.append(f"no time was left for {listed(lacking)} (--time)")
    if advice.seeds > advice.verdict.seeds:
        said.append(f"{advice.verdict.seeds} of {advice.seeds} seeds were reached")
    return "; ".join(said) + "."
