"""Among running jobs that a policy ranks alike, the one gives way whose preemption costs least."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from site_play import EPOCH_S, Site

from rota.wire.sync import Cost, ProgressReport
from rota.worlds.live.preemption import preemption_costs
from rota.worlds.live.world import LiveWorld

POLICIES = ["las:quantum=10", "tiresias:limits=10"]
"""After 12 s two jobs have the same rank, and a newcomer goes before both; the later one would give way."""


def world_of(site: Site) -> LiveWorld:
    """The world after one more turn."""
    site.turn()
    assert site.scheduler.world is not None
    return site.scheduler.world


@pytest.mark.parametrize(
    ("first", "second", "victim", "why"),
    [
        ({}, {}, 1, "both save: the one that came later"),
        ({}, {"saves": False, "checkpoint": "none"}, 0, "the second would lose all its work"),
        ({"saves": False, "checkpoint": "none"}, {}, 1, "the first would lose all its work"),
        ({"saves": False}, {"saves": False, "checkpoint": "none"}, 0, "the first can be suspended"),
    ],
    ids=["alike", "second loses", "first loses", "first is suspended"],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_cheapest_gives_way(
    tmp_path: Path, policy: str, first: dict[str, Any], second: dict[str, Any], victim: int, why: str
) -> None:
    site = Site(tmp_path, {"n0": 2}, policy)
    site.submit(40, **first)
    site.submit(40, **second)
    newcomer = site.submit(5, begin_s=EPOCH_S + 12)
    assert set(world_of(site).live.state.grants) == {0, 1}
    while newcomer not in (world := world_of(site)).live.state.grants:
        assert site.time.now < 13
    assert set(world.live.state.grants) == {1 - victim, newcomer}, why
    site.run()
    site.check_end()


def test_what_a_preemption_costs(tmp_path: Path) -> None:
    """Seconds of work to do again, and measured moves: own ones, failing that those of the workload."""
    site = Site(tmp_path, {"n0": 5})
    rows = [
        site.submit(100),
        site.submit(100, saves=False),
        site.submit(100, saves=False, checkpoint="none"),
        site.submit(100, saves=False, checkpoint="own"),
        site.submit(100, saves=False, checkpoint="none"),
    ]
    world_of(site)
    world = world_of(site)
    world.live.state.now = 15.0
    usual = {"start": 1.0, "ready": 5.0, "step": 2.0, "restore": 0.5, "leave": 0.25, "stop": 0.125}
    for kind, seconds in {**usual, "suspend": 0.0625, "resume": 0.03125}.items():
        world.live.costs.add("", kind, seconds)
    attempt = world.live[rows[0]].attempt
    halfway = world.live[rows[4]].attempt
    assert attempt is not None
    assert halfway is not None
    attempt.costs["leave"] = 2.0
    halfway.progress = ProgressReport(steps=100, checkpoint_step=50)
    done = world.progress.done(rows[2], world.live.state.now)
    assert done == pytest.approx(10.0, abs=0.1)
    again = 1.0 + 3.0 + 0.5
    costs_s = preemption_costs(world.live)
    expected = [2.0 + again, 0.09375, done + 0.125 + again, 0.125 + again, done / 2 + 0.125 + again]
    assert [costs_s[row] for row in rows] == pytest.approx(expected, abs=0.1)


def test_measurements_survive_the_controller(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 1})
    site.submit(5)
    report = site.machines["n0"]._report
    site.machines["n0"]._report = lambda body: report(body).model_copy(  # type: ignore[method-assign]
        update={"costs": [Cost(kind="start", seconds=3.0)]}
    )
    world_of(site)
    assert world_of(site).live.costs.seconds("anything", "start") == 3.0
    site.kill_controller()
    world = world_of(site)
    assert world.live.costs.seconds("anything", "start") == 3.0
    assert world.live.costs.seconds("anything", "stop") is None
