"""Of jobs that take turns on a device its memory holds what all keep, and the largest rest: who counts it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant, Role
from rota.scheduler.decision import Decision
from rota.scheduler.guard.claims import check_claims
from rota.scheduler.loop import Loop
from rota.scheduler.moments.packing import pack, unpack
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.table.occupancy import EPSILON
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.world import SimulatedWorld
from scripted import Scripted, state_of
from tiers import examples

GPU = Cluster.build([NodeShape(count=1, gpus=1, gpu_memory_gib=16)])
PEAKS, KEPT = [7.0, 11.0, 3.0, 4.0], [2.0, 1.0, 0.0, 0.0]
"""The first two need 18 GiB at once, and 2 + 1 + 10 = 13 in turns; the others do not say what they keep."""
SHARES = [1.0, 1.0, 0.25, 0.25]
JOBS = trace_of("A 1x30 B 1x30 C 1x9 D 1x9", gpu_memory_gib=PEAKS, gpu_persistent_gib=KEPT, gpu_share=SHARES)


def turn(row: int, share: float = 0.25) -> Grant:
    return Grant(row, (0,), share, Role.TURNS)


def in_use(jobs: list[tuple[float, float, bool]]) -> float:
    """The most that is in use, whoever's turn it is, by jobs as (peak, kept, takes turns)."""
    resting = [kept if turns and 0.0 < kept <= peak else peak for peak, kept, turns in jobs]
    return max(sum(resting) - resting[at] + peak for at, (peak, _, _) in enumerate(jobs))


MOVES = ["stays", "goes", "comes"]
GIBS = st.integers(0, 24).map(lambda quarters: quarters / 4)


@given(st.lists(st.tuples(GIBS, GIBS, st.booleans(), st.sampled_from(MOVES)), min_size=1, max_size=6))
@examples(300)
def test_the_guard_counts_the_worst_turn(drawn: list[tuple[float, float, bool, str]]) -> None:
    """One by one, those that come are refused if some turn would need more than there is."""
    peaks, kept = [one[0] for one in drawn], [one[1] for one in drawn]
    text = " ".join(f"J{row} 1x9" for row in range(len(drawn)))
    state = state_of(trace_of(text, gpu_memory_gib=peaks, gpu_persistent_gib=kept), GPU)
    roles = [Role.TURNS if one[2] else Role.PACKED for one in drawn]
    given = [Grant(row, (0,), 0.1, role) for row, role in enumerate(roles)]
    there: list[tuple[float, float, bool]] = []
    for grant, (peak, keeps, turns, what) in zip(given, drawn, strict=True):
        if what != "comes" and in_use([*there, (peak, keeps, turns)]) <= 16.0:
            there.append((peak, keeps, turns))
            state.start(grant)
    assert abs(state.occupancy.device_memory.used.get(0, 0.0) - (in_use(there) if there else 0.0)) < EPSILON
    gone = [row for row, one in enumerate(drawn) if one[3] == "goes" and row in state.grants]
    there = [one[:3] for row, one in enumerate(drawn) if row in state.grants and row not in gone]
    refused = []
    for row, (peak, keeps, turns, what) in enumerate(drawn):
        if what == "comes" and peak and in_use([*there, (peak, keeps, turns)]) > 16.0:
            refused.append(row)
        elif what == "comes":
            there.append((peak, keeps, turns))
    coming = [grant for grant in given if drawn[grant.job][3] == "comes"]
    assert [breach.job for breach in check_claims(state, Decision({}, coming, gone))] == refused


def loop_of(*granted: Grant) -> Loop:
    return Loop(SimulatedWorld(JOBS, GPU), Scripted({"grants": list(granted)}), RunRecorder())


def test_two_that_need_more_at_once_than_there_is_run_in_turns() -> None:
    """Half of the device each: both end when they have had 30 s of it."""
    loop = loop_of(turn(0, 0.5), turn(1, 0.5))
    loop.run(59.0)
    assert loop.state.occupancy.device_memory.used == {0: 13.0}
    loop.run(61.0)
    assert isinstance(loop.recorder, RunRecorder)
    assert [one[1:3] for one in loop.recorder.intervals] == [(0.0, 60.0)] * 2


def test_who_comes_beside_them_finds_what_is_left() -> None:
    """3 GiB are: C fits, D does not."""
    state = state_of(JOBS, GPU, [turn(0), turn(1)])
    fit = Fitter(Snapshot(state), consolidate)
    assert fit(state.occupancy, 2) == Grant(2, (0,), 0.25, Role.PACKED)
    assert fit(state.occupancy, 3) is None


def test_a_stored_moment_counts_on() -> None:
    """It is packed without the turns, which follow from the grants."""
    loop = loop_of(turn(0), turn(1))
    loop.run(1.0)
    there = unpack(pack(loop.snapshot()), frozenset()).occupancy
    assert there.device_memory.used == {0: 13.0}
    there.release(turn(1))
    assert (there.device_memory.used, there.device_memory.in_turns) == ({0: 7.0}, {0: [5.0]})
