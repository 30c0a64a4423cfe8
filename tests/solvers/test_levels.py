"""Levels of water filling: the bits of programs written down one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import PolicyError
from rota.solvers import inner_walk, levels
from rota.solvers.division import DemandRows, Division, Objective, Tie, best, single
from rota.solvers.levels import WaterLevels
from tiers import examples


def one_by_one(division, least, slope):
    """The answer, or how there is none."""
    demands = DemandRows(division.gains, least, slope)
    try:
        return best(division, Objective(np.zeros(division.size), 1.0), demands, Tie.INTERIOR)
    except PolicyError as error:
        return str(error)


def kept(program, least, slope):
    try:
        return program.best(least, slope)
    except PolicyError as error:
        return str(error)


def assert_same(one, other):
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    assert one.status is other.status
    np.testing.assert_array_equal(one.value, other.value)
    np.testing.assert_array_equal(one.columns, other.columns)
    if len(one.columns):
        np.testing.assert_array_equal(one.slack, other.slack)
        np.testing.assert_array_equal(one.prices, other.prices)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 3))
@examples(150)
def test_levels_are_the_programs_one_by_one(seed, jobs, types):
    """Few values, so that jobs are alike in some levels and not in others."""
    draw = np.random.default_rng(seed)
    rates = draw.choice([1.0, 2.0, 4.0], (jobs, types))
    division = single(draw.choice([1.0, 2.0], jobs), rates, draw.choice([2.0, 4.0], types))
    program = WaterLevels(division, division.gains)
    for _ in range(4):
        least, slope = draw.choice([0.0, 0.1, 3.0], jobs, p=[0.6, 0.3, 0.1]), draw.choice([0.0, 1.0], jobs)
        assert_same(kept(program, least, slope), one_by_one(division, least, slope))


def test_an_answer_stays_when_the_next_level_is_solved():
    division = single(np.ones(2), np.array([[1.0, 2.0], [3.0, 1.0]]), np.ones(2))
    program = WaterLevels(division, division.gains)
    first = program.best(np.zeros(2), np.ones(2))
    before = first.columns.copy()
    program.best(np.full(2, 0.1), np.array([1.0, 2.0]))
    assert (first.columns == before).all()


def test_without_c(monkeypatch):
    """And with pairs: programs are written down one by one."""
    monkeypatch.setattr(levels, "can_walk", lambda rows: False)
    alone = single(np.ones(2), np.array([[1.0, 2.0], [3.0, 1.0]]), np.ones(2))
    pairs = Division(np.array([[0, -1], [0, 1]]), np.ones(2), np.ones((2, 2, 1)), np.ones(1), np.ones(2))
    for division in (alone, pairs):
        least, slope = np.zeros(2), np.ones(2)
        answer = WaterLevels(division, division.gains).best(least, slope)
        assert_same(answer, one_by_one(division, least, slope))


@pytest.mark.skipif(inner_walk.native.library(inner_walk.SOURCE) is None, reason="C was not built")
def test_written_once(monkeypatch):
    written = []
    monkeypatch.setattr(levels, "whole", lambda program: written.append(1) or inner_walk.whole(program))
    division = single(np.ones(2), np.array([[1.0, 2.0], [3.0, 1.0]]), np.ones(2))
    program = WaterLevels(division, division.gains)
    for least in (0.0, 0.1, 0.2):
        program.best(np.full(2, least), np.ones(2))
    assert len(written) == 1
