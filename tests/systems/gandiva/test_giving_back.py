"""Gangs that have servers for themselves give them back for whoever would have no home."""

from __future__ import annotations

from collections import Counter

import pytest
from test_naive_gandiva import gangs_of

from play import finishes, play, starts, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.scheduler.policy import parse_policy
from rota.systems.gandiva.servers import ServerGroup
from rota.worlds.simulated.run import Setting, prepare
from tiers import each_seed


@pytest.mark.parametrize(
    ("newcomers", "expected", "why"),
    [
        ("N 1x10@200", {"N": 200.0}, "one of the servers, and the other stays empty"),
        ("N 1x10@200 M 2x10@200", {"N": 200.0, "M": 200.0}, "each gets one of the servers"),
        ("N 16x10@200", {"N": 1005.0}, "it needs all servers, and would not get them by that: nobody moves"),
        ("N 4x10@200 M 8x10@200", {"N": 200.0, "M": 260.0}, "M's size has a home: it takes its turn there"),
    ],
)
def test_gangs_give_their_servers_back_for_who_would_have_no_home(
    newcomers: str, expected: dict[str, float], why: str
) -> None:
    """A and B have two servers each, since C and D have ended; no server is left for another size."""
    jobs = f"C 4x5 D 4x5 A 8x1000@1 B 8x1000@2 {newcomers}"
    began = starts(play("gandiva", jobs, "4x4"))
    assert {name: began[name] for name in expected} == expected, why


def test_gangs_that_gave_their_servers_back_move_there_again() -> None:
    """A and B take turns while N runs, 300 s, and then have two servers each again."""
    jobs = "C 4x5 D 4x5 A 8x1000@1 B 8x1000@2 N 1x300@200"
    ends = {"C": 5.0, "D": 5.0, "A": 1001.0 + 2 * 60.0, "B": 1005.0 + 3 * 60.0, "N": 500.0}
    assert finishes(play("gandiva", jobs, "4x4")) == ends


def could_begin(size: int, homes: list[ServerGroup], sizes: list[int], servers: list[int]) -> bool:
    """True if there were room for a job of `size` GPUs, did gangs of a size share their largest group."""
    groups = [home for home in homes if len(home["nodes"]) > 1 and size_of(home, sizes) == home["affinity"]]
    of_size = Counter(home["affinity"] for home in groups)
    if size <= max(servers):
        given = [home for home in groups if of_size[home["affinity"]] > 1]
        return any(servers[node] >= size for home in given for node in home["nodes"])
    empty = sum(home["gpus"] for home in homes if not home["circle"])
    kept = sum(max(home["gpus"] for home in groups if home["affinity"] == gang) for gang in of_size)
    return empty + sum(home["gpus"] for home in groups) - kept >= size


def size_of(home: ServerGroup, sizes: list[int]) -> int:
    """GPUs of each job of `home`; 0 if they ask for more and for fewer."""
    asked = {sizes[row] for row in home["circle"]}
    return asked.pop() if len(asked) == 1 else 0


@each_seed(30, 150, 600, at_once=30)
def test_nobody_is_without_a_home_that_gangs_could_give_back(seed: int) -> None:
    """At no moment of a run: whoever comes when all servers are taken begins as if no gang had moved."""
    scene = gangs_of(seed)
    text = " ".join(f"j{n} {gpus}x{run_s}@{submit_s}" for n, (submit_s, gpus, run_s) in enumerate(scene.jobs))
    cluster = Cluster.build([NodeShape(1, size) for size in scene.sizes])
    loop, _ = prepare(parse_policy("gandiva").make(), trace_of(text), cluster, Setting())
    while loop.step():
        memory, sizes = loop.memory, loop.state.jobs.gpus.tolist()
        for row in loop.snapshot().waiting.tolist():
            if row not in memory["home_of"]:
                homes = list(memory["homes"].values())
                waits = f"j{row} waits at {loop.state.now:g} s"
                assert not could_begin(sizes[row], homes, sizes, scene.sizes), waits
