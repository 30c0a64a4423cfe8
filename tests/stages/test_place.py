"""Placements that take the emptiest nodes first, one after the other or in equal parts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import play
from rota.model.cluster import parse_cluster
from rota.stages.place import emptiest, even
from rota.table.free import Free, mask_of

PARTS = [
    # free on each node   GPUs   emptiest        even            why
    ((4, 4, 4), 4, {0: 4}, {0: 4}, "the first of equals"),
    ((1, 4, 3), 3, {1: 3}, {1: 3}, "the emptiest, not the best fit"),
    ((4, 4, 4), 6, {0: 4, 1: 2}, {0: 3, 1: 3}, "equal parts"),
    ((4, 4, 4), 7, {0: 4, 1: 3}, {0: 4, 1: 3}, "but for one"),
    ((2, 4, 2), 6, {1: 4, 0: 2}, {0: 2, 1: 2, 2: 2}, "three nodes, where two hold it in parts of 4 and 2"),
    ((1, 4, 0), 5, {1: 4, 0: 1}, {1: 4, 0: 1}, "no equal parts anywhere: where there is room"),
    ((1, 2, 1), 5, None, None, "too few"),
]


@pytest.mark.parametrize(("room", "gpus", "greedy", "parts", "why"), PARTS, ids=[row[-1] for row in PARTS])
def test_parts(
    room: tuple[int, ...],
    gpus: int,
    greedy: dict[int, int] | None,
    parts: dict[int, int] | None,
    why: str,
) -> None:
    for place, expected in ((emptiest, greedy), (even, parts)):
        free = free_of(room)
        devices = place(free, gpus)
        assert (devices and Counter(device // 4 for device in devices)) == expected, why
        assert free.total == sum(room) - (gpus if expected else 0)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 24), st.integers(1, 63))
def test_whoever_fits_by_count_is_placed(room: list[int], gpus: int, mask: int) -> None:
    """On free devices of the nodes allowed, ascending, each once; or nothing is changed."""
    within = mask & mask_of(list(range(len(room))))
    allowed = sum(count for node, count in enumerate(room) if within >> node & 1)
    for place in (emptiest, even):
        free = free_of(tuple(room))
        before = free.copy()
        devices = place(free, gpus, within)
        assert (devices is not None) == (gpus <= allowed)
        if devices is not None:
            assert devices == tuple(sorted(set(devices)))
            assert len(devices) == gpus
            assert all(before.is_free(device) and within >> (device // 4) & 1 for device in devices)
            free.put_all(devices)
        assert free.devices == before.devices


def free_of(room: tuple[int, ...]) -> Free:
    """Nodes of four devices with so many free."""
    free = Free.of(parse_cluster(f"{len(room)}x4"))
    for node, count in enumerate(room):
        if count < 4:
            free.take(node, 4 - count)
    return free


@pytest.mark.parametrize("policy", ["fifo", "fifo:backfill=easy", "srtf", "drf"])
def test_where_a_job_goes_does_not_depend_on_what_others_ask_for(policy: str) -> None:
    """One GPU of any type comes from the first type with room, whether the others make counting do or not."""
    cluster = parse_cluster("1x4:A,1x1:B")
    for other in ("J2 1x11", "J2 2x11"):
        intervals = play(policy, f"J1 1x10 {other}", cluster).intervals.sort("job")
        assert intervals["devices"].to_list()[0] == [0], other
