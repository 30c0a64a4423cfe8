"""Homes: where a job belongs, and where it moves."""

from __future__ import annotations

import numpy as np
import pytest

from rota.model.cluster import Cluster, NodeShape
from rota.model.jobs import JobTable
from rota.stages.grounds import Grounds
from rota.systems.gandiva.introspection import defragment, relieve
from rota.systems.gandiva.servers import ServerGroups

ALL = [-1]


def homes_of(servers: list[int], jobs: list[tuple[int, int]]) -> tuple[ServerGroups, list[int]]:
    """Servers of so many GPUs, with jobs (GPUs, server); rows are numbered as listed."""
    sizes = [size for size, _ in jobs]
    homes = ServerGroups({}, {}, sizes.__getitem__)
    for node in range(len(servers)):
        homes.open([node], servers)
    for row, (size, node) in enumerate(jobs):
        homes.add(row, node, size)
    return homes, sizes


def place(homes: ServerGroups, sizes: list[int], size: int, servers: list[int]) -> int:
    """Where the next job, of `size` GPUs, goes."""
    row = len(sizes)
    sizes.append(size)
    key = homes.allocate(row, size, ALL, servers)
    if key >= 0:
        homes.add(row, key, size)
    return key


def test_servers_specialise_and_fill_up_before_they_are_shared_in_turns() -> None:
    """gandiva.md, example 3: affinity, an empty server, then turns, the least loaded of the size first."""
    servers = [4, 4, 4]
    homes, sizes = homes_of(servers, [(1, 0), (1, 0), (2, 2)])
    went = [place(homes, sizes, size, servers) for size in (1, 4, 2, 2, 1, 4, 1)]
    assert went == [0, 1, 2, 2, 0, 1, 0]
    assert [homes.homes[node]["affinity"] for node in range(3)] == [1, 4, 2]
    assert [homes.homes[node]["demand"] for node in range(3)] == [5, 8, 6]


@pytest.mark.parametrize(
    ("servers", "jobs", "size", "expected", "why"),
    [
        ([4, 4], [(1, 0), (2, 1)], 1, 0, "the server of its size"),
        ([4, 4], [(1, 0), (2, 1)], 2, 1, "the server of its size"),
        ([4, 4], [(2, 0), (2, 1)], 1, 0, "no server of its size, none empty: any with room"),
        ([4, 4], [(1, 0), (2, 1)], 4, -1, "no server of its size, none empty, no room: it waits"),
        ([4, 4, 4], [(1, 1)], 8, 0, "two empty servers make one"),
        ([4, 4], [(1, 1)], 8, -1, "only one is empty"),
        ([2, 4], [], 4, 1, "an empty server that is large enough"),
    ],
)
def test_where_a_job_belongs(
    servers: list[int], jobs: list[tuple[int, int]], size: int, expected: int, why: str
) -> None:
    homes, sizes = homes_of(servers, jobs)
    assert place(homes, sizes, size, servers) == expected, why


def test_affinity_ends_with_the_last_job() -> None:
    """An empty server is anybody's."""
    homes, sizes = homes_of([4], [(1, 0)])
    assert homes.remove(0) == 0
    assert homes.homes[0]["affinity"] == 0
    assert place(homes, sizes, 4, [4]) == 0
    assert homes.homes[0]["affinity"] == 4


def test_a_pair_is_one_place_in_the_circle_until_it_parts() -> None:
    homes, _ = homes_of([1], [(1, 0), (1, 0), (1, 0)])
    home = homes.homes[0]
    homes.pair(home, (0, 2))
    assert (home["circle"], homes.room_with_pairs(home), homes.room(home)) == ([0, 1], -1, -2)
    homes.remove(0)
    assert (home["circle"], home["pairs"]) == ([2, 1], {})


def test_a_nearly_empty_server_is_cleared_to_the_fullest_that_has_room() -> None:
    """gandiva.md, example 5: free 3, 1, 2 becomes 4, 0, 2; a job of 4 GPUs fits then."""
    homes, sizes = homes_of([4, 4, 4], [(1, 0), (1, 1), (1, 1), (1, 1), (2, 2)])
    assert defragment(homes, sizes, lambda row, key: True, 0.75) == [(0, 0, 1)]
    assert [homes.room(homes.homes[node]) for node in range(3)] == [4, 0, 2]
    assert place(homes, sizes, 4, [4, 4, 4]) == 0


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ([(1, 0), (1, 1)], "two servers with as many free GPUs would swap jobs for ever"),
        ([(2, 0), (2, 1)], "half is below the threshold of three quarters"),
    ],
)
def test_no_job_moves_without_need(jobs: list[tuple[int, int]], why: str) -> None:
    homes, sizes = homes_of([4, 4], jobs)
    assert defragment(homes, sizes, lambda row, key: True, 0.75) == [], why


def test_jobs_in_turns_move_to_gpus_that_fell_free() -> None:
    """Whoever is next in turn moves, and no more than it takes."""
    homes, sizes = homes_of([2, 2], [(1, 0), (1, 0), (1, 0), (1, 1)])
    homes.homes[0]["circle"][:] = [2, 0, 1]
    assert relieve(homes, sizes, lambda row, key: True, lambda row: -1) == [(2, 0, 1)]
    assert relieve(homes, sizes, lambda row, key: True, lambda row: -1) == []


def test_grounds_are_the_nodes_that_could_hold_a_request() -> None:
    """Two types; the second has less device memory, and CPU for one GPU per node only."""
    shapes = [
        NodeShape(count=2, gpus=2, gpu_type="A"),
        NodeShape(count=2, gpus=2, gpu_type="B", gpu_memory_gib=8.0, cpus=4.0),
    ]
    jobs = JobTable.build(
        [str(row) for row in range(6)],
        submit_s=np.zeros(6),
        gpus=[1, 1, 1, 1, 2, 1],
        gpu_types=[0, 1, 2, 0, 0, 0],
        gpu_memory_gib=[0.0, 0.0, 0.0, 10.0, 0.0, 0.0],
        cpus=[0.0, 0.0, 0.0, 0.0, 8.0, 0.0],
        type_names=("A", "B"),
    )
    grounds = Grounds(Cluster.build(shapes), jobs)
    assert [grounds.accepting(row) for row in range(6)] == [
        [0b0011, 0b1100],
        [0b0011],
        [0b1100],
        [0b0011],
        [0b0011],
        [0b0011, 0b1100],
    ]


def test_only_a_change_of_homes_can_change_where_jobs_belong() -> None:
    servers = [4, 4]
    homes, sizes = homes_of(servers, [(1, 0), (2, 1)])
    homes.has_changed = False
    assert place(homes, sizes, 4, servers) == -1
    assert not homes.has_changed
    homes.remove(0)
    assert homes.has_changed
    assert place(homes, sizes, 4, servers) == 0
