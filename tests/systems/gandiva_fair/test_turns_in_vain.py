"""Gandiva_fair where a turn brings nothing: turns grow until they do, and shares of time stay as due."""

from __future__ import annotations

import polars as pl
import pytest

from play import finishes, play, trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Can
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.systems.gandiva_fair.balance import Movable, to_idle
from rota.systems.gandiva_fair.servers import Servers
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.run import run as play_run

NOTHING = Setting(can=parse_can("nothing"))


@pytest.mark.parametrize(
    ("setting", "jobs", "cluster", "ends"),
    [
        # turns of 1 1 2 2 4 4 minutes each, and the one that is long enough
        (NOTHING, "A 1x300 B 1x300", "1x1", {"A": 1980, "B": 2280}),
        # B has nothing to show for its first turn, A for its second: from then on a minute of two
        (Setting(costs=parse_costs("switch=60s")), "A 1x300 B 1x300", "1x1", {"A": 1140, "B": 1260}),
        # a stop costs the work of a turn
        (Setting(costs=parse_costs("preempt=60s")), "A 1x300 B 1x300", "1x1", {"A": 1080, "B": 1200}),
        # a gang of both servers beside a job on each
        (NOTHING, "X 8x300 Y 1x300 Z 1x300", "2x4", {"X": 1680, "Y": 1380, "Z": 1380}),
    ],
    ids=["bears nothing", "long starts", "dear stops", "two servers"],
)
def test_turns_in_vain_grow(setting: Setting, jobs: str, cluster: str, ends: dict[str, float]) -> None:
    assert finishes(play("gandiva_fair", jobs, cluster, setting)) == ends


def test_a_long_turn_is_made_up_for() -> None:
    """Who has turns of hours, for shorter ones bring it nothing, has no more of the time than the other."""
    trace = trace_of(
        "A 1x20000 B 1x1000000",
        workload=[0, 1],
        workload_names=("saves nothing", "saves"),
        tenant=[0, 1],
        tenant_names=("a", "b"),
    )
    setting = Setting(can={"saves nothing": Can.NOTHING}, until_s=1e5)
    record = play("gandiva_fair", trace, "1x1", setting)
    held = dict(
        record.intervals.filter(pl.col("end_s") <= 45360.0)
        .group_by("job_id")
        .agg((pl.col("end_s") - pl.col("start_s")).sum())
        .iter_rows()
    )
    assert sum(held.values()) == 45360.0
    assert held["B"] == pytest.approx(held["A"], rel=0.03)


def test_nobody_moves_in_a_long_turn() -> None:
    """Of two alike on a crowded server the one moves that is not in the middle of its turn."""
    servers = Servers(parse_cluster("2x2"), [2, 2])
    for row in range(3):
        servers.enter(row, {0: 1}, 1.0, 1.0)
    movable = Movable(
        {row: {0: 0b11} for row in range(3)},
        [1] * 3,
        dict.fromkeys(range(3), 1.0),
        {},
        600.0,
        0.0,
        is_busy=lambda row: row < 2,
    )
    assert next(to_idle(servers, 0, movable)) == (2, 1)


def test_the_end_of_a_long_turn_is_told() -> None:
    """At 600 s A and B have had turns of two minutes in vain: now A's lasts four, and B waits for a round."""
    trace, said = trace_of("A 1x300 B 1x300"), dict[str, str]()
    inner = parse_policy("gandiva_fair").make()

    class Telling:
        needs, levers = inner.needs, inner.levers

        def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
            decision = inner.decide(snapshot, memory)
            if snapshot.now == 780.0:
                said.update(
                    (id, decision.ranking.turn(snapshot, row).sentence()) for row, id in enumerate("AB")
                )
            return decision

    play_run(Telling(), trace, parse_cluster("1x1"), NOTHING)
    assert said["A"].endswith("its turn ends in 3m")
    assert said["B"].endswith("before it in this turn: A; the next round begins in 1m")
