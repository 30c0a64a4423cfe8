"""Memories survive as bytes, and damage is noticed."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rota.errors import PolicyError, RotaError
from rota.scheduler.moments.values import digest
from rota.server.store.blob import pack_value, unpack_value

ARRAYS = hnp.arrays(
    st.sampled_from(["bool", "int8", "int64", "<u2", ">i4", "float64", "float32", "<U3"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
KEYS = st.text(max_size=5).filter(lambda key: not key.startswith("$"))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    PLAIN | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_round_trip(value: object) -> None:
    """Every bit of it: the digest tells types, order, dtypes and shapes apart."""
    assert digest(unpack_value(pack_value(value))) == digest(value)


@given(VALUES, st.data())
def test_damage_is_noticed(value: object, data: st.DataObject) -> None:
    packed = bytearray(pack_value(value))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RotaError, match="stored memory is"):
        unpack_value(bytes(packed))


@given(VALUES, st.data())
def test_a_piece_is_not_taken_for_the_whole(value: object, data: st.DataObject) -> None:
    packed = pack_value(value)
    cut = data.draw(st.integers(1, len(packed) - 1))
    with pytest.raises(RotaError, match="stored memory is"):
        unpack_value(packed[:cut])


def test_nothing_is_the_empty_memory() -> None:
    assert unpack_value(b"") == {}


def test_what_was_read_may_be_written_to() -> None:
    memory = unpack_value(pack_value({"queue": np.zeros(3)}))
    memory["queue"][1] = 7
    assert memory["queue"].tolist() == [0, 7, 0]


def test_slices_and_special_numbers() -> None:
    value = {"a": np.arange(10)[::-2], "nan": [math.nan, math.inf, -0.0]}
    assert digest(unpack_value(pack_value(value))) == digest(value)


def test_what_cannot_be_stored() -> None:
    with pytest.raises(PolicyError, match=r"memory\['x'\] holds a set"):
        pack_value({"x": {1}})


def test_policy_process_needs_no_database() -> None:
    program = "import sys, rota.server.store.blob; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
