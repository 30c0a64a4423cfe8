"""A job of a population that has to do with fewer GPUs than it was to have."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Array, Ints


def shrink(states: Array, at: Ints, job: int, keeps: Array) -> None:
    """`job` keeps so many of its GPUs in the members `at` of `states`, [node, member, job], in place: on the
    nodes where it has most.
    """
    rows = states[:, at, job]
    order = np.argsort(-rows, axis=0, kind="stable")
    fullest = np.take_along_axis(rows, order, axis=0)
    before = np.cumsum(fullest, axis=0, dtype=np.int64) - fullest
    kept = np.minimum(fullest, np.maximum(keeps - before, 0)).astype(states.dtype)
    np.put_along_axis(rows, order, kept, axis=0)
    states[:, at, job] = rows
