"""A view of some nodes: what it shows after any changes is what a fresh one would show."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Reservation, Role
from rota.scheduler.moments.packing import pack_occupancy
from rota.table.state import Phase, State
from rota.table.view import View
from scripted import state_of
from tiers import examples

CLUSTER = parse_cluster("4x2")
TRACE = trace_of(" ".join(f"J{row} {gpus}x9" for row, gpus in enumerate([1, 2, 1, 2, 1, 0])), gang=[True] * 6)


def view_of(whole: State, nodes: list[int]) -> View:
    return View(whole, CLUSTER.take(nodes), nodes)


def contents(view: View) -> dict[str, Any]:
    """What a policy would see, the order of rows and the log aside."""
    packed = pack_occupancy(view.occupancy)
    packed["sharers"] = {device: sorted(rows) for device, rows in packed["sharers"].items()}
    return {
        "waiting": view.waiting.sorted().tolist(),
        "running": view.running.sorted().tolist(),
        "grants": dict(view.grants),
        "gpus": view.waiting_gpus,
        "special": view.special,
        "free": view.occupancy.free.total,
        "reservations": view.reservations,
        **packed,
    }


@st.composite
def grants(draw: st.DrawFn, whole: State, row: int) -> Grant | None:
    """A grant for `row` somewhere free: whole devices, half a device beside others, or a node."""
    gpus, claimed = whole.gpus_of[row], whole.occupancy.claimed
    if not gpus:
        return Grant(row, (), node=draw(st.integers(0, 3)))
    half = draw(st.booleans())
    shared = whole.occupancy.sharers
    free = [d for d in range(8) if claimed[d] == 0.0 or (half and claimed[d] == 0.5 and d in shared)]
    devices = tuple(sorted(draw(st.permutations(free))[:gpus]))
    if len(devices) < gpus:
        return None
    return Grant(row, devices, 0.5, Role.PACKED) if half else Grant(row, devices)


def act(data: st.DataObject, whole: State) -> set[int]:
    """One thing that happens to the whole; returns the rows it changed."""
    row = data.draw(st.integers(0, 5))
    if data.draw(st.booleans()):
        if row in whole.running:
            whole.free(row)
            whole.stop(row, data.draw(st.sampled_from([Phase.PENDING, Phase.COMPLETED])))
            return {row}
        grant = data.draw(grants(whole, row)) if row in whole.waiting else None
        if grant is None:
            return set()
        whole.start(grant)
        return {row}
    node = data.draw(st.integers(0, 3))
    (whole.regain if node in whole.occupancy.down_nodes else whole.lose)(node)
    whole.reservations = data.draw(
        st.sampled_from([(), (Reservation(0, (0, 1), 9.0),), (Reservation(0, (5,), 9.0),)])
    )
    return set()


@given(st.data())
@examples(150)
def test_following_shows_what_a_fresh_view_would(data: st.DataObject) -> None:
    whole, nodes = state_of(TRACE, CLUSTER), [2, 0]
    view, members = view_of(whole, nodes), {0, 1, 2, 5}
    view.follow(members)
    changed: set[int] = set()
    for _ in range(data.draw(st.integers(1, 12))):
        changed |= act(data, whole)
        if not data.draw(st.booleans()):
            continue
        strangers = {d for row, g in whole.grants.items() if row not in members for d in g.devices}
        view.follow(sorted(changed & members), strangers)
        if data.draw(st.booleans()):
            nodes = data.draw(st.permutations(range(4)))[: data.draw(st.integers(1, 4))]
            view.cover(CLUSTER.take(nodes), nodes, strangers)
        changed = set()
        fresh = view_of(whole, nodes)
        fresh.follow(sorted(members), strangers)
        assert contents(view) == contents(fresh)


@pytest.mark.parametrize(
    ("grant", "inside", "why"),
    [
        (Grant(0, (4,)), Grant(0, (0,)), "node 2 is the view's first"),
        (Grant(1, (0, 1)), Grant(1, (2, 3)), "node 0 its second"),
        (Grant(5, (), node=0), Grant(5, (), node=1), "a job without devices"),
        (Grant(1, (1, 2)), None, "half of it lies outside"),
        (Grant(5, (), node=3), None, "another node"),
    ],
)
def test_numbers_inside_and_outside(grant: Grant, inside: Grant | None, why: str) -> None:
    view = view_of(state_of(TRACE, CLUSTER), [2, 0])
    assert view.contains(grant) == (inside is not None), why
    if inside is not None:
        assert (view.inward(grant), view.outward(inside)) == (inside, grant), why


def test_what_is_known_of_a_job_is_the_wholes_own() -> None:
    whole = state_of(TRACE, CLUSTER)
    view = view_of(whole, [0])
    whole.now = 3.0
    whole.start(Grant(0, (0,)))
    whole.now = 7.0
    view.follow([0])
    assert (view.now, view.ran_s(0), view.service_gpu_s(0), view.submitted) == (7.0, 4.0, 4.0, 6)
