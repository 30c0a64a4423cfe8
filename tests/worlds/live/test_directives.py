"""What agents are told: versions, nothing before its time, nothing for ever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from live_stage import Stage

from rota.wire.sync import Part, Wanted
from rota.worlds.live.directives import Directives
from rota.worlds.live.node_parts import ranks_of


def part(row: int, attempt: int = 1, wanted: Wanted = Wanted.RUN) -> Part:
    return Part(row=row, job=str(row + 1), attempt=attempt, version=0, wanted=wanted)


def keys(parts: Sequence[Part]) -> list[tuple[int, int]]:
    return [(one.row, one.attempt) for one in parts]


def test_nothing_is_told_before_it_is_published() -> None:
    directives = Directives("a")
    directives.stage("n0", part(1))
    assert directives.since("n0", 0) == []
    directives.publish()
    assert keys(directives.since("n0", 0)) == [(1, 1)]
    assert directives.since("n1", 0) == []


def test_what_did_not_happen_is_never_told() -> None:
    directives = Directives("a")
    directives.stage("n0", part(1))
    directives.drop_staged()
    directives.publish()
    assert (directives.since("n0", 0), directives.version) == ([], 0)


def test_versions_grow_and_only_what_is_new_is_told() -> None:
    directives = Directives("a")
    for row in (1, 2):
        directives.stage("n0", part(row))
    directives.publish()
    seen = directives.version
    directives.stage("n0", part(1, wanted=Wanted.STOP))
    directives.publish()
    news = directives.since("n0", seen)
    assert [(one.row, one.wanted) for one in news] == [(1, Wanted.STOP)]
    assert news[0].version > seen
    assert [one.version for one in directives.since("n0", 0)] == sorted(
        one.version for one in directives.since("n0", 0)
    )
    assert keys(directives.since("n0", 0)) == [(2, 1), (1, 1)], "in the order of change"


def test_the_last_word_of_one_publication_counts() -> None:
    directives = Directives("a")
    directives.stage("n0", part(1))
    directives.stage("n0", part(1, wanted=Wanted.KILL))
    directives.publish()
    assert [one.wanted for one in directives.since("n0", 0)] == [Wanted.KILL]


def test_what_is_to_be_forgotten_goes_once_it_was_seen() -> None:
    directives = Directives("a")
    directives.stage("n0", part(1, wanted=Wanted.FORGET))
    directives.publish()
    assert keys(directives.since("n0", 0)) == [(1, 1)]
    assert directives.keys("n0") == {(1, 1)}, "the answer may have got lost"
    assert directives.since("n0", directives.version) == []
    assert directives.keys("n0") == set()


def test_the_controller_begins_anew() -> None:
    """Agents see another controller; versions go on, so that nothing old passes for new."""
    told: list[list[str]] = []
    directives = Directives("a")
    directives.on_change(lambda nodes: told.append(list(nodes)))
    directives.stage("n0", part(1))
    directives.publish()
    directives.stage("n1", part(2))
    version = directives.version
    directives.begin_anew("b")
    assert (directives.incarnation, directives.keys("n0"), told) == ("b", set(), [["n0"], ["n0"]])
    directives.publish()
    assert directives.since("n1", 0) == [], "what was staged went with the rest"
    directives.stage("n0", part(1))
    directives.publish()
    assert directives.since("n0", version)[0].version == version + 1


def test_an_answer_says_who_answers() -> None:
    directives = Directives("a")
    directives.stage("n0", part(1))
    directives.publish()
    reply = directives.reply("n0", 0, 12.0, 60.0)
    assert (reply.controller, reply.version, reply.now_s, reply.lost_after_s) == ("a", 1, 12.0, 60.0)
    assert keys(reply.parts) == [(1, 1)]


def test_nobody_is_told_of_nothing() -> None:
    told: list[object] = []
    directives = Directives("a")
    directives.on_change(told.append)
    directives.publish()
    assert told == []


@pytest.mark.parametrize(
    ("kind", "devices", "expected"),
    [
        ("gpu", [[0, 1]], [[(0, 0, [0]), (1, 1, [1])]]),
        ("gpu", [[2, 3], [1]], [[(0, 0, [2]), (1, 1, [3])], [(2, 0, [1])]]),
        ("node", [[0, 1], [3]], [[(0, 0, [0, 1])], [(1, 0, [3])]]),
        ("gpu", [[]], [[(0, 0, [])]]),
        ("node", [[]], [[(0, 0, [])]]),
    ],
)
def test_ranks(kind: str, devices: list[list[int]], expected: list[list[tuple[int, int, list[int]]]]) -> None:
    made = ranks_of(kind, devices)
    assert [[(one.rank, one.local_rank, one.devices) for one in place] for place in made] == expected


@pytest.mark.parametrize(
    ("gpus", "devices", "told"),
    [(3, (0, 1, 2), {"n0": 8.0, "n1": 4.0}), (1, (2,), {"n1": 12.0}), (0, (), {"n0": 12.0})],
    ids=["it follows the devices", "all of it", "without devices"],
)
def test_a_node_is_told_how_much_of_the_stated_memory_falls_to_it(
    gpus: int, devices: tuple[int, ...], told: dict[str, float]
) -> None:
    stage = Stage(memory_gib=16.0, n0=2, n1=1)
    row = stage.submit(gpus=gpus, memory_gib=12.0)
    stage.grant(row, *devices, node=-1 if devices else 0)
    parts = {node: stage.orders(node).get((row, 1)) for node in ("n0", "n1")}
    assert {node: part.memory_gib for node, part in parts.items() if part is not None} == told


def test_unequal_nodes_know_how_many_devices_the_job_has_in_all() -> None:
    """A node knows its own two, or one; which of the others has how many it is told."""
    stage = Stage(n0=2, n1=1)
    row = stage.submit(gpus=3)
    stage.grant(row, 0, 1, 2)
    assert [stage.orders(node)[row, 1].env["ROTA_GPUS"] for node in ("n0", "n1")] == ["3", "3"]
