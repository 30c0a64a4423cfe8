"""A job's life as stretches of time: what it did when, where, and who or what put an end to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from site_play import Site
from store_place import SPEC
from test_store import RUNNING

from rota.server.jobs import MOST_INTERVALS
from rota.server.store.new_jobs import asked
from rota.server.store.rows import AttemptRow, EventRow, IntervalRow, JobRow, JobState
from rota.server.timeline import Timeline
from rota.table.state import Phase
from rota.wire.timeline import StretchView

WAITS = JobState(phase=int(Phase.PENDING))
STILL = replace(WAITS, state="SUSPENDED", attempt=1)
RUNS = replace(RUNNING, since_s=9.0, placed_s=9.0, adjusted_s=9.0)
OVER = JobState(state="COMPLETED", phase=int(Phase.COMPLETED), finish_s=20.0)
NEVER = JobState(state="CANCELLED", phase=int(Phase.CANCELLED), finish_s=7.0)


def interval(
    start_s: float, end_s: float, how: str, attempt: int = 1, overhead_s: float = 0.0
) -> IntervalRow:
    return IntervalRow(0, attempt, start_s, end_s, (0, 1), (0, 0), 1.0, "alone", how, overhead_s)


def tried(number: int = 1, end_s: float | None = None, how: str = "", cause: str = "") -> AttemptRow:
    places = [{"name": "n1", "devices": [0]}]
    parts = {"places": places, "ready_s": 10.5}
    return AttemptRow(0, number, "x", [0, [2], 0.5], parts, "run", 1.0, end_s=end_s, how=how, cause=cause)


def told(stretch: StretchView) -> str:
    """`running 5-9 on n0, preempted: for job 2`; moments from the epoch on."""
    to_s = "" if stretch.to_s is None else f"{stretch.to_s - 100:g}"
    where = f" on {','.join(stretch.nodes)}" if stretch.nodes else ""
    end = f", {stretch.end}" if stretch.end else ""
    why = f": {stretch.why}" if stretch.why not in ("", stretch.end) else ""
    return f"{stretch.doing} {stretch.from_s - 100:g}-{to_s}{where}{end}{why}"


FOR_2 = EventRow(5.0, "rota", "preempt", "1", "preempted for job 2")
LIVES = [
    # now    intervals and attempts                                         stretches
    (WAITS, [], [],                                                         ["waiting 1-"]),
    (NEVER, [], [],                                                         ["waiting 1-7"]),
    (OVER,  [interval(1, 20, "finished")], [tried(end_s=20.0, how="finished", cause="it ended")],
     ["running 1-20 on n0, finished: it ended"]),
    (OVER,  [interval(4, 20, "finished")], [tried(end_s=20.0, how="finished")],
     ["waiting 1-4", "running 4-20 on n0, finished"]),
    (WAITS, [interval(1, 5, "preempted")], [tried(end_s=5.5, how="preempted", cause="it left")],
     ["running 1-5 on n0, preempted: preempted for job 2", "waiting 5-: preempted for job 2"]),
    (STILL, [interval(1, 5, "preempted")], [tried()],
     ["running 1-5 on n0, preempted: preempted for job 2", "suspended 5-: preempted for job 2"]),
    (OVER,  [interval(1, 5, "preempted"), interval(8, 20, "finished")], [tried(end_s=20.0, how="finished")],
     ["running 1-5 on n0, preempted: preempted for job 2", "suspended 5-8: preempted for job 2",
      "running 8-20 on n0, finished"]),
    (RUNS,  [interval(1, 5, "failed")], [tried(end_s=5.0, how="failed", cause="exit code 3"), tried(2)],
     ["running 1-5 on n0, failed: exit code 3", "waiting 5-9: exit code 3", "running 9- on n1"]),
    (RUNS,  [interval(1, 9, "resized")], [tried(end_s=9.0, how="resized", cause="goes on"), tried(2)],
     ["running 1-9 on n0, resized: goes on", "running 9- on n1"]),
    (RUNS,  [interval(1, 9, "adjusted")], [tried()],
     ["running 1-9 on n0, adjusted", "running 9- on n1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("now", "held", "attempts", "stretches"), LIVES, ids=[str(life[-1]) for life in LIVES]
)
def test_lives(
    now: JobState, held: list[IntervalRow], attempts: list[AttemptRow], stretches: list[str]
) -> None:
    job = JobRow(0, "1", "ann", 1.0, None, None, 0, asked(SPEC, "ann", "vision", 100.0), now)
    life = Timeline(job, attempts, held, [FOR_2], ["n0", "n1"], 100.0).stretches()
    assert [told(stretch) for stretch in life] == stretches


def test_what_it_holds_now() -> None:
    """Devices and claim of the attempt, and how long it took to start."""
    job = JobRow(0, "1", "ann", 9.0, None, None, 0, asked(SPEC, "ann", "vision", 100.0), RUNS)
    [now] = Timeline(job, [tried()], [], [], ["n0", "n1"], 100.0).stretches()
    assert (now.gpus, now.share, now.starting_s, now.to_s) == (1, 0.5, 1.5, None)


def test_a_life_that_is_too_long_begins_later() -> None:
    """What was before the first interval that is shown is not taken for waiting."""
    held = [interval(10.0 + i, 11.0 + i, "adjusted") for i in range(MOST_INTERVALS)]
    job = JobRow(0, "1", "ann", 1.0, None, None, 0, asked(SPEC, "ann", "vision", 100.0), OVER)
    life = Timeline(job, [tried()], held, [], ["n0"], 100.0, is_cut=True).stretches()
    assert (len(life), told(life[0])) == (MOST_INTERVALS, "running 10-11 on n0, adjusted")


def test_who_preempted_it_is_on_record(tmp_path: Path) -> None:
    """Also of a job that was suspended and goes on: its attempt does not know any more."""
    site = Site(tmp_path, {"n0": 1}, "srtf")
    first = site.submit(50, time_s=60.0)
    while site.time.now < 5:
        site.turn()
    second = site.submit(5, time_s=10.0)
    while site.time.now < 40:
        site.turn()
    events = [event.text for event in site.store.events_of(str(first + 1), 100) if event.kind == "preempt"]
    assert events == [f"preempted for job {second + 1}"]
