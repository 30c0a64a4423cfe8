"""`mode=artifact`: the ElasticFlow repository's `themis`, and the program it solves in each slot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play
from rota.solvers.worst_ratio import least_worst
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import semantics
from tiers import examples

SLOTS = Setting(semantics=semantics("elasticflow-themis:round=4m"))


def test_all_that_happens_in_a_slot_is_seen_at_its_end():
    """B comes at 300, begins at 480, and ends at 720, where the slot ends in which its work is done."""
    record = play("themis@elasticflow", "A 1x1000 B 1x100@300", "1x2", SLOTS)
    assert finishes(record) == {"A": 1200, "B": 720}


def test_slots_count_from_the_first_arrival():
    record = play("themis@elasticflow", "A 1x100@50 B 1x100@300 C 1x300@2000", "1x2", SLOTS)
    assert finishes(record) == {"A": 290, "B": 770, "C": 2690}


def test_who_would_finish_worst_runs():
    """One GPU; in the first slot the longer is as badly off as the shorter, later the one that waited."""
    record = play("themis@elasticflow", "A 1x240 B 1x240", "1x1", SLOTS)
    assert sorted(finishes(record).values()) == [240, 480]


JOBS = st.lists(
    st.tuples(st.floats(0.0, 5.0), st.floats(0.01, 5.0), st.sampled_from([1, 2, 4, 8])),
    min_size=1,
    max_size=12,
)


@examples(100)
@given(JOBS, st.integers(1, 40))
def test_the_worst_ratio_is_least_and_the_point_allowed(jobs, capacity):
    fixed, over, gpus = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    x = least_worst(fixed, over, gpus, float(capacity))
    assert (x > 0.0).all()
    assert (x <= 1.0 + 1e-9).all()
    assert gpus @ x <= capacity * (1 + 1e-6)
    worst = (fixed + over / x).max()
    # No ratio a little smaller can be had by all.
    needed = over / np.maximum(worst * (1 - 1e-4) - fixed, 1e-12)
    assert (needed > np.minimum(1.0, capacity / gpus) * (1 - 1e-9)).any() or gpus @ needed > capacity * (
        1 - 1e-5
    )


def test_who_has_room_lies_in_the_middle():
    """The first binds at x = 1; the others share what it leaves, each above what it needs at least."""
    x = least_worst(np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.5, 0.5]), np.ones(3), 2.4)
    assert x[0] == 1.0
    assert x[1] == pytest.approx(x[2])
    assert 0.25 < x[1] < 0.7
