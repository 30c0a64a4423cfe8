"""What the division of cores and memory promises, whoever asks for what."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.cluster import Cluster, NodeShape
from rota.model.columns import Floats
from rota.model.grants import Grant
from rota.systems.synergy.room import Ask, Room
from rota.systems.synergy.tune import settle
from rota.table.free import Free
from tiers import examples

amounts = st.sampled_from([0.5, 1.0, 2.0, 3.0, 4.0, 7.5, 12.0])
wishes = st.tuples(st.integers(1, 6), amounts, amounts)
nodes = st.tuples(
    st.integers(1, 4), st.sampled_from([0.0, 4.0, 12.0, 20.0]), st.sampled_from([0.0, 8.0, 16.0])
)


def cluster_of(shapes: list[tuple[int, float, float]]) -> Cluster:
    return Cluster.build([NodeShape(1, gpus, cpus=cpus, memory_gib=gib) for gpus, cpus, gib in shapes])


def asks_of(cluster: Cluster, wanted: list[tuple[int, float, float]]) -> list[Ask]:
    """As many of the jobs as the cluster has GPUs for."""
    left, asks = cluster.gpus, []
    for row, (gpus, cpus, gib) in enumerate(wanted):
        if gpus <= left:
            left -= gpus
            everywhere = np.ones(cluster.nodes, dtype=bool)
            asks.append(Ask(row, gpus, np.array([cpus, gib, np.nan]), Grant(row, ()), everywhere))
    return asks


def room_of(cluster: Cluster) -> Room:
    return Room(cluster, Free.of(cluster), np.zeros((cluster.nodes, 3)))


def used(room: Room) -> Floats:
    total = np.zeros_like(room.left)
    for seat in room.seats.values():
        for node, gpus in seat.parts:
            total[node] += gpus * seat.each
    return total


@examples(120)
@given(st.lists(nodes, min_size=1, max_size=4), st.lists(wishes, max_size=12))
def test_everybody_gets_his_gpus_and_no_less_than_his_share(
    shapes: list[tuple[int, float, float]], wanted: list[tuple[int, float, float]]
) -> None:
    """No node gives more than it has, and who gets less than he wants has his share of the poorest of his
    nodes."""
    cluster = cluster_of(shapes)
    room, asks = room_of(cluster), asks_of(cluster, wanted)
    assert settle(room, asks, migrate=True) == []
    assert sorted(room.seats) == [ask.row for ask in asks], "free GPUs are always enough"
    assert (used(room) <= room.capacity + 1e-6).all()
    for ask in asks:
        seat = room.seats[ask.row]
        assert len(seat.devices) == ask.gpus
        at = [node for node, _ in seat.parts]
        share = room.share[at].min(axis=0)
        limited = ~room.unlimited[at].any(axis=0)
        wants = np.where(np.isnan(ask.wants), share, ask.wants)
        floor = np.minimum(wants, share)
        assert (seat.each[limited] >= floor[limited] - 1e-6).all(), "the floor"
    assert sorted(d for seat in room.seats.values() for d in seat.devices) == sorted(
        {d for seat in room.seats.values() for d in seat.devices}
    )


@examples(60)
@given(st.lists(nodes, min_size=1, max_size=4), st.lists(wishes, max_size=12))
def test_greedy_gives_what_is_wanted_or_nothing(
    shapes: list[tuple[int, float, float]], wanted: list[tuple[int, float, float]]
) -> None:
    cluster = cluster_of(shapes)
    room, asks = room_of(cluster), asks_of(cluster, wanted)
    out = settle(room, asks, migrate=True, greedy=True)
    assert out is not None
    assert sorted([*room.seats, *(ask.row for ask in out)]) == [ask.row for ask in asks]
    assert (used(room) <= room.capacity + 1e-6).all()
    for ask in asks:
        if ask.row in room.seats and room_of(cluster).feeds_empty(ask):
            assert (room.seats[ask.row].each[:2] >= ask.wants[:2] - 1e-6).all()


@examples(60)
@given(st.lists(nodes, min_size=1, max_size=3), st.lists(wishes, max_size=10))
def test_it_comes_to_rest(
    shapes: list[tuple[int, float, float]], wanted: list[tuple[int, float, float]]
) -> None:
    """Divided again and again with nobody coming or going, nothing moves any more after a few rounds."""
    cluster = cluster_of(shapes)
    asks = asks_of(cluster, wanted)
    history: list[dict[int, tuple[int, ...]]] = []
    for _ in range(len(asks) + 3):
        room = room_of(cluster)
        settle(room, asks, migrate=True)
        history.append({row: seat.devices for row, seat in room.seats.items()})
        asks = [ask._replace(held=history[-1][ask.row]) for ask in asks]
    assert history[-1] == history[-2]


def test_who_is_cut_on_one_node_takes_nothing_that_is_needed_on_another() -> None:
    """X, on both nodes, has memory above its share and cores below: it is cut for the second, and rises on
    the first, where R has to give what N needs."""
    cluster = cluster_of([(4, 12.0, 64.0), (4, 12.0, 64.0)])
    room = room_of(cluster)
    wanted = {
        "X": (2, 1.0, 32.0),
        "R": (1, 7.0, 8.0),
        "S": (1, 1.0, 8.0),
        "T": (1, 1.0, 16.0),
        "N": (3, 3.0, 16.0),
    }
    *seated, new = asks_of(cluster, list(wanted.values()))
    for ask, parts in zip(seated, ([(0, 1), (1, 1)], [(0, 1)], [(0, 1)], [(1, 1)]), strict=True):
        room.seat(ask, parts, room.wanted(ask.wants))
    assert settle(room, [new], migrate=True) == []
    assert (used(room) <= room.capacity + 1e-6).all()
    each = {name: tuple(room.seats[row].each[:2].tolist()) for row, name in enumerate(wanted)}
    assert each == {"X": (3, 16), "R": (3, 16), "S": (1, 8), "T": (1, 16), "N": (3, 16)}


def test_who_fits_where_it_is_once_somebody_was_cut_there_stays() -> None:
    """A has all the memory of the second node until B, who finds nine cores nowhere, takes its share: then
    there is enough for D as well, and no need to go to the first."""
    cluster = cluster_of([(4, 12.0, 64.0), (4, 12.0, 64.0)])
    asks = asks_of(cluster, [(2, 1.0, 32.0), (1, 9.0, 16.0), (1, 1.0, 8.0), (3, 3.0, 16.0)])
    held = [(4, 5), (6,), (7,), (0, 1, 2)]
    room = room_of(cluster)
    settle(room, [ask._replace(held=at) for ask, at in zip(asks, held, strict=True)], migrate=True)
    assert {row: seat.devices for row, seat in sorted(room.seats.items())} == dict(enumerate(held))


def test_who_moves_takes_the_gpus_of_nobody_who_has_yet_to_be_seated() -> None:
    """A finds twelve cores on both nodes together and keeps one of its GPUs, not one of B's, who stays."""
    cluster = cluster_of([(4, 12.0, 64.0), (4, 12.0, 64.0)])
    asks = asks_of(cluster, [(2, 9.0, 16.0), (2, 9.0, 16.0)])
    held = [(2, 3), (0, 1)]
    room = room_of(cluster)
    settle(room, [ask._replace(held=at) for ask, at in zip(asks, held, strict=True)], migrate=True)
    assert {row: seat.devices for row, seat in sorted(room.seats.items())} == {0: (2, 4), 1: (0, 1)}


def test_greedy_leaves_where_it_is_what_no_cluster_could_feed() -> None:
    """Five GPUs with nine cores each there are nowhere: their share will do, and they have it."""
    cluster = cluster_of([(4, 12.0, 64.0), (4, 12.0, 64.0)])
    (ask,) = asks_of(cluster, [(5, 9.0, 16.0)])
    room = room_of(cluster)
    settle(room, [ask._replace(held=(0, 1, 4, 5, 6))], migrate=True, greedy=True)
    assert room.seats[0].devices == (0, 1, 4, 5, 6)


@pytest.mark.parametrize(
    ("scatters", "gpus", "cpus", "parts", "why"),
    [
        (False, 2, 1.0, [(1, 2)], "the fullest node that holds all"),
        (True, 2, 1.0, [(0, 2)], "the first GPUs"),
        (False, 4, 2.0, [(2, 4)], "one node, although others come first"),
        (True, 4, 2.0, [(0, 2), (1, 2)], "the first node feeds two of them"),
    ],
)
def test_where_a_job_is_placed(
    scatters: bool, gpus: int, cpus: float, parts: list[tuple[int, int]], why: str
) -> None:
    """Nodes of 3 GPUs with 4 cores, 2 with 8, and 4 with 16."""
    cluster = cluster_of([(3, 4.0, 0.0), (2, 8.0, 0.0), (4, 16.0, 0.0)])
    room, (ask,) = room_of(cluster), asks_of(cluster, [(gpus, cpus, 0.0)])
    room.scatters = scatters
    assert room.place(ask, room.wanted(ask.wants)) == parts, why
