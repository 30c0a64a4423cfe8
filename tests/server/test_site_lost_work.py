"""Whoever loses all its work when it has to go is left alone for longer each time: it comes to its end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from answers_play import AskedSite, site
from site_play import EPOCH_S, Site

from rota.model.reasons import Code
from rota.model.units import format_duration
from rota.server.views import attempt_view
from tiers import first

HUNGRY: dict[str, Any] = {"saves": False, "memory_gib": 40.0}
"""Two of them do not fit into the 64 GiB of a node: none can be suspended beside the other."""
MIN_RUN_S = 10.0
WORK_S = 200.0
TURNS = ["las:quantum=10", "gandiva:quantum=10"]


def lost(one: Site) -> list[list[float]]:
    """Seconds of work that the attempts of each job have lost by preemption, as people are told."""
    attempts = [[attempt_view(a, 0.0) for a in one.store.attempts(row.row)] for row in one.rows()]
    return [[view.lost_s for view in views if view.lost_s] for views in attempts]


@pytest.mark.parametrize("policy", TURNS)
@pytest.mark.parametrize("kills", first(1, {"": False, "under kills": True}))
def test_two_that_cannot_stay_in_memory_both_come_to_their_end(
    tmp_path: Path, policy: str, kills: bool
) -> None:
    """Each time one of them is stopped it has run for as long as it had lost before, or nearly so."""
    one = Site(tmp_path, {"n0": 1}, policy, min_run_s=MIN_RUN_S)
    for _ in range(2):
        one.submit(WORK_S, **HUNGRY)

    def kill(turn: int) -> None:
        if kills and turn % 7 == 6:
            one.kill_controller()

    one.run(300, kill)
    one.check_end()
    assert bool(one.kills) == kills
    for losses in lost(one):
        assert losses, "in turns, they had to go"
        for place, loss in enumerate(losses):
            assert loss >= max(MIN_RUN_S, sum(losses[:place])) - 0.1
        assert sum(losses[:-1]) < WORK_S, "who has lost that much is left alone to its end"


@pytest.mark.parametrize("policy", TURNS)
def test_who_fits_beside_the_other_takes_turns_as_ever(tmp_path: Path, policy: str) -> None:
    """Nothing is lost: each is suspended for the other every few seconds, in memory."""
    one = Site(tmp_path, {"n0": 1}, policy, min_run_s=MIN_RUN_S)
    rows = [one.submit(WORK_S, saves=False, memory_gib=20.0) for _ in range(2)]
    one.run(500)
    one.check_end()
    assert lost(one) == [[], []]
    assert [len(one.store.attempts(row)) for row in rows] == [1, 1]
    assert min(row.now.preemptions for row in one.rows()) > 5


def in_turns(folder: Path) -> tuple[AskedSite, int, int]:
    """Two jobs of which one has lost work, has begun anew, and would soon have to go again; and the other."""
    one = site(folder, TURNS[0], {"n0": 1}, min_run_s=MIN_RUN_S)
    rows = [one.submit(WORK_S, time_s=WORK_S + 1.0, **HUNGRY) for _ in range(2)]
    while not all(len(losses) >= 2 for losses in lost(one)):
        one.turn()
    waiting = next(row for row in rows if one.rows()[row].now.state == "PENDING")
    runs = rows[1 - rows.index(waiting)]
    for _ in range(100):
        if any("preemption cost it" in sentence for sentence in one.sentences(waiting)):
            return one, runs, waiting
        one.turn()
    raise AssertionError(f"{one.sentences(waiting)}")


def known(one: AskedSite) -> list[list[float]]:
    """What the scheduler has in mind of it, by job and attempt."""
    while one.scheduler.world is None:
        one.turn()
    return [[attempt.lost_s for attempt in job.attempts] for job in one.scheduler.world.live.values()]


def test_it_is_said_and_kept_in_mind(tmp_path: Path) -> None:
    """By `rota why`; the next controller knows it, and so does whoever looks ahead."""
    one, runs, waiting = in_turns(tmp_path)
    said, lost_s = one.why(waiting), sum(lost(one)[runs])
    (refused,) = [reason.sentence for reason in said.reasons if reason.code == Code.REFUSED]
    assert re.fullmatch(
        f"was to start, but was refused: job {runs + 1} has done again [0-9.]+s of the "
        f"{format_duration(lost_s)} of work that preemption cost it, and would be preempted",
        refused,
    )
    assert one.scheduler.world is not None
    attempt = one.scheduler.world.live[runs].attempt
    assert attempt is not None
    assert attempt.ready_s is not None
    until_s = attempt.ready_s + lost_s
    assert said.start_s == pytest.approx(EPOCH_S + until_s, abs=1.0), f"as it is foretold: {said.basis}"
    new = one.dry_run(time_s=1.0)
    assert new.start_s == pytest.approx(EPOCH_S + until_s, abs=1.0), "who would go first waits as well"
    before = known(one)
    one.kill_controller()
    assert known(one) == before
    while one.rows()[waiting].now.state == "PENDING":
        one.turn()
    assert one.time.now == pytest.approx(until_s, abs=1.0)
