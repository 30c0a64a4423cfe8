"""A plain turnover is told at one call in C: never where the guard, job by job, would say anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  (registers the profile)
from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Purpose, Role
from rota.model.whole import whole_grant
from rota.scheduler.decision import Decision
from rota.scheduler.guard.check import change_hands, check, is_plain_turnover, is_plainly_sound
from rota.table.progress import Progress
from rota.table.state import State
from rota.table.turnover import is_built

pytestmark = pytest.mark.skipif(not is_built(), reason="no C compiler when Rota was installed")

CLUSTER = parse_cluster("3x4")
JOBS = trace_of(" ".join(f"j{n} {1 + n % 3}x100@0" for n in range(12))).jobs


def state_with(running: list[Grant]) -> State:
    state = State(JOBS, CLUSTER, Progress(len(JOBS)))
    for row in range(len(JOBS)):
        state.submit(row)
    for grant in running:
        state.start(grant)
    return state


HELD = [whole_grant(0, (0,)), whole_grant(1, (1, 2)), whole_grant(2, (4, 5, 6)), whole_grant(3, (7,))]
ROWS = st.integers(-1, 13)
DEVICES = st.one_of(
    st.sampled_from([grant.devices for grant in HELD]),
    st.lists(st.integers(-1, 13), max_size=4).map(tuple),
    st.sampled_from([(8,), (8, 9), (9, 10, 11), (3,), (1, 2, 3)]),
)
GRANTS = st.one_of(
    st.builds(whole_grant, ROWS, DEVICES),
    st.builds(Grant, ROWS, DEVICES, st.sampled_from([0.5, 1.0]), st.sampled_from(Role)),
    st.builds(lambda row, devices: Grant(row, devices, cpus=2.0), ROWS, DEVICES),
)


@given(st.lists(ROWS, max_size=4), st.lists(GRANTS, max_size=4))
def test_what_it_finds_sound_is_sound(gone: list[int], come: list[Grant]) -> None:
    state, decision = state_with(HELD), Decision({}, come, gone)
    if not is_plain_turnover(state, decision):
        return
    assert is_plainly_sound(state, decision)
    assert change_hands(state, decision)
    assert not check(state, decision)
    assert not any(grant.job in state.grants for grant in come)


@given(st.sets(st.sampled_from([0, 1, 2, 3]), min_size=1), st.permutations(range(4, 12)))
def test_it_finds_the_common_case(gone: set[int], rows: list[int]) -> None:
    """Whoever waits gets what others leave, or what is free, as it asks to run."""
    state = state_with(HELD)
    left = [device for row in gone for device in HELD[row].devices] + [3, 8, 9, 10, 11]
    come = []
    for row in rows:
        gpus = state.gpus_of[row]
        if gpus <= len(left):
            come.append(whole_grant(row, tuple(sorted(left[:gpus]))))
            left = left[gpus:]
    assert is_plain_turnover(state, Decision({}, come, sorted(gone)))


@pytest.mark.parametrize(
    ("gone", "come"),
    [
        ([0, 0], [whole_grant(4, (1, 2))]),  # named twice
        ([4], [whole_grant(5, (8, 9, 10))]),  # does not run
        ([0], [whole_grant(6, (0,)), whole_grant(6, (8,))]),  # two grants to one job
        ([0], [whole_grant(6, (0,)), whole_grant(9, (0,))]),  # one device for two
        ([0], [whole_grant(6, (7,))]),  # somebody else has it
        ([0], [whole_grant(4, (0,))]),  # one GPU too few
        ([0], [whole_grant(3, (0,))]),  # moves
        ([np.int64(0)], [whole_grant(6, (0,))]),  # a number of another kind is looked at one by one
    ],
)
def test_everything_else_is_left_to_the_guard(gone: list[int], come: list[Grant]) -> None:
    assert not is_plain_turnover(state_with(HELD), Decision({}, come, gone))


def test_who_was_measured_is_left_to_the_loop() -> None:
    state = state_with([Grant(0, (0,), purpose=Purpose.PROFILE)])
    assert not is_plain_turnover(state, Decision({}, [whole_grant(6, (0,))], [0]))


def test_nothing_stays_behind_from_one_question_to_the_next() -> None:
    state = state_with(HELD)
    sound = Decision({}, [whole_grant(6, (0,)), whole_grant(4, (8, 9))], [0])
    taken_twice = [whole_grant(4, (1, 2)), whole_grant(5, (4, 5, 6)), whole_grant(6, (1,))]
    broken = Decision({}, taken_twice, [1, 2, 0])
    for _ in range(3):
        assert is_plain_turnover(state, sound)
        assert not is_plain_turnover(state, broken)
