"""A rebuild that passes by whom no room can help gives what trying everybody gives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  (registers the profile)
from replica_twins import Twins
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant, Role
from rota.scheduler.moments.packing import pack
from rota.scheduler.moments.values import digest
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import Placement
from rota.stages.priority import ByPriority
from rota.table.occupancy import Occupancy
from scripted import state_of


class Tried(ByPriority):
    """Tries everybody, with everybody behind as a victim."""

    def _by_place(self, snapshot: Snapshot) -> tuple[list[Grant], list[int]]:
        rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
        order = sorted(rows, key=lambda row: (self.key(snapshot, row), row))
        fit = self.fitter(snapshot)
        return walked(order, dict(snapshot.grants), fit.scratch(snapshot), fit)


def walked(
    order: list[int], present: dict[int, Grant], scratch: Occupancy, fit: Fitter
) -> tuple[list[Grant], list[int]]:
    """What a rebuild along `order` changes: nobody is passed by, and nothing is counted."""
    keeping = [row for row in order if row in present]
    grants: dict[int, Grant] = {}
    evicted: set[int] = set()
    for place, row in enumerate(order):
        if row in present and row not in evicted:
            continue
        behind = [other for other in keeping if order.index(other) > place]
        grant, losers = fit_evicting(row, behind, present, scratch, fit, row in evicted)
        if grant is None:
            continue
        scratch.hold(grant)
        grants[row] = grant
        evicted.update(losers)
        keeping = [other for other in keeping if other not in losers]
    moved = [grant for row, grant in grants.items() if present.get(row) != grant]
    return moved, [row for row in order if row in evicted and row not in grants]


def is_free(scratch: Occupancy, grant: Grant) -> bool:
    """True if all that it holds is nobody's."""
    return bool(grant.devices) and all(map(scratch.free.is_free, grant.devices))


def fit_evicting(
    row: int, behind: list[int], present: dict[int, Grant], scratch: Occupancy, fit: Fitter, was_evicted: bool
) -> tuple[Grant | None, list[int]]:
    """Place `row`, evicting from the end of `behind` one by one until it fits; undo if it never does."""
    old = present.get(row)
    if old and was_evicted and is_free(scratch, old) and fit.admits(scratch, old):
        return old, []
    grant, losers = fit(scratch, row), list[int]()
    while grant is None and behind:
        losers.append(behind.pop())
        scratch.release(present[losers[-1]])
        grant = fit(scratch, row)
    if grant is None:
        for loser in losers:
            scratch.hold(present[loser])
        return None, []
    return grant, losers


def crowded(rng: Random) -> Twins:
    """Many jobs that ask for much the same, on a cluster with types, quotas, shares and closed devices."""
    twins = Twins(rng, capacity=60)
    for _ in range(60):
        twins.state.now += 1.0
        rng.choice([*[Twins.arrive] * 6, Twins.start, Twins.start, Twins.hold, Twins.close, Twins.devices])(
            twins
        )
    for row in list(twins.state.running.rows.tolist()):
        if twins.state.grants[row].role == Role.OPPORTUNISTIC:
            twins.state.free(row)
            twins.state.stop(row)
    return twins


@pytest.mark.slow
@pytest.mark.parametrize("placement", [Placement.CONSOLIDATE, Placement.PACKED, Placement.SPREAD])
@given(st.integers(0, 2**40).map(Random))
def test_the_running_set_is_the_same(placement: Placement, rng: Random) -> None:
    state = crowded(rng).state
    keys = [rng.randint(0, 3) for _ in range(60)]
    policies = [
        kind(lambda _, row: keys[row], preemptive=True, placement=placement) for kind in (ByPriority, Tried)
    ]
    quick, slow = (policy._by_place(Snapshot(state)) for policy in policies)
    assert quick == slow


def test_a_gang_is_fed_by_two_nodes() -> None:
    """n0 can feed two GPUs of X or Y and has four free: X takes one elsewhere, Z the rest."""
    cluster = Cluster.build([NodeShape(count=2, gpus=4, cpus=16)])
    jobs = "P 0x9 Q 2x9 X 3x9 Z 3x9 Y 3x9"
    state = state_of(
        jobs, cluster, [Grant(0, (), node=0), Grant(1, (4, 5))], cpus=[8.0, 0.0, 12.0, 0.0, 12.0]
    )
    quick, slow = (
        kind(lambda _, row: row, preemptive=True, placement=Placement.CONSOLIDATE)._by_place(Snapshot(state))
        for kind in (ByPriority, Tried)
    )
    assert quick == slow
    assert [grant.job for grant in quick[0]] == [2, 3]


def test_a_job_on_a_closed_device_can_be_lifted_and_put_back() -> None:
    """A preemptive policy tries what would fit without a job that runs on a drained node."""
    state = state_of("A 4x9 B 4x9 C 8x9", "2x4", [Grant(0, (0, 1, 2, 3)), Grant(1, (4, 5, 6, 7))])
    state.lose(0)
    before = digest(pack(Snapshot(state)))
    assert ByPriority(lambda _, row: -row, preemptive=True).decide(Snapshot(state), {}).grants == []
    scratch = state.occupancy.copy()
    scratch.release(state.grants[0])
    scratch.hold(state.grants[0])
    assert (scratch.free.total, scratch.free.count) == (0, [0, 0])
    assert digest(pack(Snapshot(state))) == before
