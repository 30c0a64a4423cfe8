"""Stride scheduling of gangs, quantum by quantum, on the examples of systems/gandiva_fair.md."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rota.solvers.stride import BigGang, StrideGang, advance, split_turn, turn


def quanta(count: int, room: float, jobs: Mapping[int, tuple[float, float]]) -> list[list[int]]:
    """Who runs in each of `count` quanta on one server; `jobs` have GPUs and tickets."""
    passed = dict.fromkeys(jobs, 0.0)
    ran = []
    for _ in range(count):
        left = room

        def fits(key: int) -> bool:
            nonlocal left
            if jobs[key][0] > left:
                return False
            left -= jobs[key][0]
            return True

        ran.append(turn([StrideGang(passed[key], jobs[key][0], key) for key in jobs], fits))
        for key in ran[-1]:
            passed[key] = advance(passed[key], 1.0, *jobs[key])
    return ran


P, Q = 0, 1


@pytest.mark.parametrize(
    ("room", "jobs", "expected"),
    [
        pytest.param(4, {P: (4, 2), Q: (4, 1)}, "PQPPQPPQP", id="example 1"),
        pytest.param(4, {P: (3, 3), Q: (2, 2)}, "PQPQPQ", id="example 3"),
    ],
)
def test_two_gangs(room: float, jobs: dict[int, tuple[float, float]], expected: str) -> None:
    ran = quanta(len(expected), room, jobs)
    assert "".join("PQ"[key] for (key,) in ran) == expected


def test_a_gang_beside_four_small_jobs() -> None:
    """Example 2: they alternate; without the factor for the gang it would have 32 to their 8."""
    jobs = {0: (4.0, 1.0), **dict.fromkeys(range(1, 5), (1.0, 0.25))}
    assert quanta(4, 4.0, jobs) == [[0], [1, 2, 3, 4], [0], [1, 2, 3, 4]]


def split(
    count: int, big: tuple[dict[int, float], float], small: Mapping[int, tuple[float, float]]
) -> list[dict[int | str, float]]:
    """GPUs of the big job and of the small ones of each server in each quantum, on servers of 4 GPUs."""
    on, tickets = big
    gpus = sum(on.values())
    passed, entries = 0.0, dict.fromkeys(small, 0.0)
    ran: list[dict[int | str, float]] = []
    for _ in range(count):
        servers = [StrideGang(entries[node], small[node][0], node) for node in small]
        runs = split_turn([BigGang(StrideGang(passed, gpus, 9), on)], servers, dict.fromkeys(small, 4.0))
        used = {node: min(small[node][0], 4.0 - (on.get(node, 0.0) if runs else 0.0)) for node in small}
        ran.append({"X": gpus if runs else 0.0, **used})
        passed += advance(0.0, 1.0, gpus, tickets) if runs else 0.0
        for node in small:
            entries[node] = advance(entries[node], 1.0, used[node], small[node][1])
    return ran


def total(ran: list[dict[int | str, float]]) -> dict[int | str, float]:
    """GPU-quanta of each."""
    return {key: sum(quantum[key] for quantum in ran) for key in ran[0]}


def test_a_big_job_beside_one_tenant_on_two_servers() -> None:
    """Example 4: turn by turn; with two tenants on the servers each of the three gets a third."""
    both = {0: 4.0, 1: 4.0}
    assert total(split(6, (both, 1.0), {0: (4, 0.5), 1: (4, 0.5)})) == {"X": 24, 0: 12, 1: 12}
    assert total(split(6, (both, 1.0), {0: (4, 1.0), 1: (4, 1.0)})) == {"X": 16, 0: 16, 1: 16}


def test_a_server_of_which_the_big_job_leaves_a_part() -> None:
    """Example 9: what is left beside it is used, and counted."""
    ran = split(6, ({0: 4.0, 1: 2.0}, 1.0), {0: (4, 0.5), 1: (4, 0.5)})
    assert total(ran) == {"X": 18, 0: 12, 1: 18}
