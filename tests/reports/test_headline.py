"""What a report says first: by total waiting, against what the site runs, in words that do not flatter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_toys import record

from rota.model.record import Record
from rota.reports.compare import compare
from rota.reports.comparison_words import headline
from rota.reports.summary import summarise

HOUR = 3600.0


def run(
    policy: str,
    to_start_h: float,
    later_h: float = 0.0,
    observed: bool = False,
    told: str = "",
    stops: dict[str, str] | None = None,
) -> Record:
    """One job of an hour that waits before its start, and again after a preemption."""
    start_s = to_start_h * HOUR
    end_s = start_s + (1 + later_h) * HOUR
    row = {"submit_s": 0.0, "start_s": start_s, "finish_s": end_s, "gpus": 1, "run_s": HOUR}
    row |= {"waiting_s": (to_start_h + later_h) * HOUR, "duration_s": HOUR}
    row |= {"preemptions": 3, "starts": 4} if stops else {}
    provenance = {"knowledge": {"duration": told} if told else {}} | ({"stops": stops} if stops else {})
    return record([row], policy=policy, observed=observed, provenance=provenance)


LATE, SOON = run("fifo", 14), run("srtf", 1)
PREEMPTED = run("las", 0, later_h=16)
SEEN = run("observed", 4, observed=True)
CASES = [
    # runs, site's policy             says, does not say
    (
        [LATE, SOON],
        None,
        "Under srtf a job waits 1h on average, against 14h under fifo (14x shorter).",
        "0.0",
    ),
    ([LATE, PREEMPTED], None, "Nobody waits less than under fifo: 14h a job on average.", "las"),
    ([LATE, SOON, SEEN], None, "against 4h as observed (4x shorter)", "In fact"),
    ([LATE, SOON, SEEN], "fifo", "under fifo, which stands for the site's own policy (14x shorter)", "–"),
    ([LATE, SOON, SEEN], "fifo", "In fact a job waited 4h.", "–"),
    ([LATE, SEEN], "fifo", "fifo: a job waits 14h on average; mean JCT 15h. In fact", "as observed"),
    ([LATE, SEEN], None, "Nobody waits less than was observed: 4h a job on average.", "fifo"),
    ([LATE], None, "fifo: a job waits 14h on average; mean JCT 15h.", "against"),
    ([LATE, SOON], None, "The 1% who wait longest wait at least 1h, against 14h (14x shorter).", "0s"),
    ([LATE, replace(LATE, policy="copy")], None, "Nobody waits less than under fifo", "copy"),
    ([run("fifo", 0), run("srtf", 0)], None, "No job waits, whichever policy decides; mean JCT 1h.", "less"),
    (
        [LATE, run("srtf", 1, told="oracle")],
        None,
        "srtf was told every job's true duration, which",
        "fifo was",
    ),
    ([LATE, run("sjf", 1, told="user")], None, "sjf was told the durations that users stated.", "no site"),
    (
        [run("fifo:backfill=easy", 3, told="oracle"), run("srtf", 1, told="oracle")],
        "fifo:backfill=easy",
        "srtf and fifo:backfill=easy were told every job's true duration, which no site knows.",
        "free",
    ),
    (
        [run("fifo", 3, stops={}), run("las", 1, stops={"preemptions": ""})],
        None,
        "las: 3 preemptions were free",
        "fifo: 3",
    ),
    (
        [run("fifo", 3), run("srtf", 1, told="predicted", stops={"preemptions": "1m 10s"})],
        "fifo",
        "srtf was told durations predicted from earlier jobs of the same group or tenant; 3 preemptions cost "
        "1m 10s each.",
        "no site",
    ),
    ([LATE, SOON], None, "fifo keeps all waiting behind the first in line: fifo:skip=yes is harder", "But"),
    ([LATE, SOON], "fifo", "the site's own policy", "harder to beat"),
    ([run("fifo:placement=packed,skip=yes", 14), SOON], None, "Under srtf", "harder to beat"),
]


@pytest.mark.parametrize(("runs", "site", "says", "not_this"), CASES)
def test_headline(runs: list[Record], site: str | None, says: str, not_this: str) -> None:
    text = headline(compare([summarise(run) for run in runs], site_policy=site))
    assert says in text
    assert not_this not in text


def test_a_tail_that_grows_is_said() -> None:
    """One of two hundred jobs pays for what the mean gains."""

    def of(policy: str, waits_s: list[float]) -> Record:
        rows = [
            {"submit_s": 0.0, "start_s": wait_s, "finish_s": wait_s + HOUR, "gpus": 1, "run_s": HOUR}
            | {"waiting_s": wait_s, "duration_s": HOUR}
            for wait_s in waits_s
        ]
        return record(rows, policy=policy)

    runs = [of("even", [10 * HOUR] * 50), of("harsh", [HOUR] * 49 + [99 * HOUR])]
    text = headline(compare([summarise(run) for run in runs]))
    assert "But the 1% that take longest take at least" in text
    assert "But" not in headline(compare([summarise(run) for run in (runs[0], of("soft", [HOUR] * 50))]))


def test_baseline() -> None:
    """Named, else the site's, else what was observed, else the first."""
    runs = [summarise(run) for run in (SOON, LATE, SEEN)]
    assert compare(runs, "srtf", "fifo").baseline == "srtf"
    assert compare(runs, None, "fifo").baseline == "fifo"
    assert compare(runs, None, "nobody's").baseline == "observed"
    assert compare(runs[:2]).baseline == "srtf"
