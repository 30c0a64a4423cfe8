"""Turns in C, from the policy to the record: the same as job by job, to the bit."""

from __future__ import annotations

import pytest

import rota.scheduler.guard.check
import rota.systems.gandiva.seating
import rota.table.occupancy
import rota.table.progress
import rota.table.rows
import rota.table.state
import rota.worlds.simulated.recorder
import rota.worlds.simulated.world
from play import trace_of
from rota.model.cluster import parse_cluster
from rota.scheduler.policy import parse_policy
from rota.traces.generate import generate
from rota.worlds.simulated.ends import FUNCTIONS
from rota.worlds.simulated.run import Setting, prepare
from tiers import first

pytestmark = pytest.mark.skipif(not FUNCTIONS, reason="no C compiler when Rota was installed")

IN_C = [
    (rota.systems.gandiva.seating, "TAKE_TURNS"),
    (rota.scheduler.guard.check, "IS_SOUND"),
    (rota.table.occupancy, "CHANGE_HANDS"),
    (rota.table.progress, "WORK"),
    (rota.table.rows, "EXCHANGE"),
    (rota.table.state, "STOP"),
    (rota.worlds.simulated.recorder, "NOTE"),
    (rota.worlds.simulated.world, "ENTER"),
]


def run(policy: str, cluster: str, seed: int) -> tuple[object, ...]:
    where = parse_cluster(cluster)
    trace = generate(150, seed=seed, load=1.6, cluster=where)
    loop, recorder = prepare(parse_policy(policy).make(), trace, where, Setting())
    loop.run()
    state = loop.state
    tables = [state.log, state.waiting.rows.tolist(), state.run_s.tolist(), state.progress.base.tolist()]
    return recorder.intervals, recorder.ends, tables, loop.counts.decisions


def both(policy: str, cluster: str, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    """Two runs in C, and the same one by one."""
    in_c = [run(policy, cluster, seed) for seed in range(2)]
    for module, name in IN_C:
        assert getattr(module, name) is not None
        monkeypatch.setattr(module, name, None)
    return in_c, [run(policy, cluster, seed) for seed in range(2)]


@pytest.mark.parametrize("cluster", first(1, ["12x2", "3x4", "6x2,2x8", "2x4:V100,2x4:P100"]))
@pytest.mark.parametrize("policy", ["gandiva", "gandiva:quantum=600", "srtf", "las", "tiresias"])
def test_in_c_as_one_by_one(policy: str, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_c, one_by_one = both(policy, cluster, monkeypatch)
    assert in_c == one_by_one


@pytest.mark.soak
def test_void_entries_are_dropped_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that happens at every turn."""
    monkeypatch.setattr(rota.worlds.simulated.world, "HEAP_LEAST", 4)
    in_c, one_by_one = both("gandiva", "3x4", monkeypatch)
    assert in_c == one_by_one


def test_homes_of_several_servers_take_turns_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself; nothing is tried out, and nobody is placed one by one."""
    seating, homes = rota.systems.gandiva.seating.Seating, 0
    in_order = seating._in_order

    def counted(self: object, apart: object, *rest: object) -> object:
        nonlocal homes
        homes += len(apart)  # type: ignore[arg-type]
        return in_order(self, apart, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(seating, "_in_order", counted)
    one_by_one = []
    for name in ("_take_apart", "_place_runners"):
        monkeypatch.setattr(seating, name, lambda *_, name=name: one_by_one.append(name))
    trace = trace_of("A 4x500 B 4x500 C 3x500 D 2x100")
    loop, _ = prepare(parse_policy("gandiva").make(), trace, parse_cluster("3x2"), Setting())
    loop.run()
    assert homes > 10
    assert not one_by_one
