"""What-ifs as charts: a bar for each job under each policy, in one order and on one scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rota.model.words import duration
from rota.wire.views import ForecastRow, JobView, WhatIf

ROWS = 40
"""Jobs in a chart; the others begin later, and are counted."""
WIDTH, LEFT, TOP, ROW = 440.0, 46.0, 8.0, 14.0
STEPS_S = (
    *(
        1.0,
        5.0,
        15.0,
        30.0,
        60.0,
        120.0,
        300.0,
        600.0,
        900.0,
        1800.0,
        3600.0,
        7200.0,
        10800.0,
        21600.0,
        43200.0,
    ),
    *(86400.0 * days for days in (1, 2, 7, 14, 30, 90, 365)),
)
"""From one mark of the time to the next: the first with no more than `TICKS` of them."""
TICKS = 4


@dataclass(frozen=True)
class FutureBar:
    """One job: it waits, then runs.  Places in the units of the picture."""

    job: str
    name: str
    tenant: str
    y: float
    wait_x: float
    run_x: float
    run_width: float
    """0 if it never starts as far as one can see."""
    text: str


@dataclass(frozen=True)
class FutureChart:
    """One policy's picture."""

    policy: str
    bars: tuple[FutureBar, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float
    more: int
    """Jobs that are not drawn."""
    width: float = WIDTH
    left: float = LEFT


def charts(answer: WhatIf, jobs: Mapping[str, JobView], now_s: float) -> list[FutureChart]:
    """One chart for each policy of the answer; jobs stand in the order of their present starts."""
    policies = list(dict.fromkeys(row.policy for row in answer.rows))
    if not policies:
        return []
    of_policy = {policy: {row.job: row for row in answer.rows if row.policy == policy} for policy in policies}
    ends = [row.finish_s for row in answer.rows if row.finish_s is not None]
    span_s = max(max(ends, default=now_s) - now_s, 1.0)
    first = of_policy[policies[0]]
    order = sorted(first, key=lambda job: _turn(first[job]))
    shown = order[:ROWS]
    step_s = next((step_s for step_s in STEPS_S if span_s / step_s <= TICKS), span_s / TICKS)
    ticks = tuple(_tick(at * step_s, span_s) for at in range(int(span_s / step_s) + 1))
    return [
        FutureChart(
            policy,
            tuple(
                _bar(of_policy[policy].get(job), jobs.get(job), job, place, now_s, span_s)
                for place, job in enumerate(shown)
            ),
            ticks,
            TOP + ROW * len(shown) + 16.0,
            len(order) - len(shown),
        )
        for policy in policies
    ]


def _turn(row: ForecastRow) -> tuple[bool, float, float]:
    """By start, those that do not start last."""
    return row.start_s is None, row.start_s or 0.0, row.finish_s or 0.0


def _tick(after_s: float, span_s: float) -> tuple[float, str]:
    return _x(after_s, span_s), f"in {duration(after_s)}" if after_s else "now"


def _x(after_s: float, span_s: float) -> float:
    return round(LEFT + (WIDTH - LEFT - 8.0) * min(max(after_s / span_s, 0.0), 1.0), 1)


def _bar(
    row: ForecastRow | None, job: JobView | None, id: str, place: int, now_s: float, span_s: float
) -> FutureBar:
    start_s = None if row is None else row.start_s
    finish_s = None if row is None else row.finish_s
    name, tenant = (job.name, job.tenant) if job is not None else ("", "")
    wait_x, end_x = _x(0.0, span_s), _x(span_s, span_s)
    run_x = end_x if start_s is None else _x(start_s - now_s, span_s)
    stop_x = end_x if finish_s is None else _x(finish_s - now_s, span_s)
    return FutureBar(
        id,
        name,
        tenant,
        TOP + ROW * place,
        wait_x,
        run_x,
        0.0 if start_s is None else max(stop_x - run_x, 1.5),
        _in_words(id, name, start_s, finish_s, now_s),
    )


def _in_words(id: str, name: str, start_s: float | None, finish_s: float | None, now_s: float) -> str:
    """`job 17 (train): starts in 5m, done in 2h`."""
    head = f"job {id}{f' ({name})' if name else ''}"
    if start_s is None:
        return f"{head}: does not start as far as one can see"
    begins = "runs" if start_s <= now_s + 1 else f"starts in {duration(start_s - now_s)}"
    ends = "no end in sight" if finish_s is None else f"done in {duration(max(finish_s - now_s, 0.0))}"
    return f"{head}: {begins}, {ends}"
