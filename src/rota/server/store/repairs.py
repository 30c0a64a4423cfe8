"""Records that cannot be read as they stand: what can be read of them, and a sentence about the rest.

A disk that lies, an older version's mistake or an editor must not keep a controller from starting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
from pydantic import ValidationError

from rota.model.columns import Array
from rota.model.job_columns import COLUMNS
from rota.server.store.rows import NodeRow
from rota.wire.job import JobSpec
from rota.wire.sync import DeviceInfo, NodeInfo

UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, AssertionError)
"""What reading a record that is none may raise; pydantic's errors are ValueErrors."""
NO_SPEC = JobSpec(command=["(this job's specification cannot be read)"])
NOT_NEGATIVE = frozenset({
    "submit_s", "since_s", "run_s", "service", "service_rate", "placed_s", "progress_base", "progress_rate",
    "progress_since", "starts", "moves", "preemptions", "failures", "first_start_s", "finish_s",
})  # fmt: skip
"""Columns of jobs' work in which a number below zero is invalid."""
MAY_LACK = frozenset({"first_start_s", "finish_s", *(column.name for column in COLUMNS if column.is_maybe)})
"""Columns in which NaN stands for no value."""
ENDLESS = frozenset({"progress_since"})
"""Columns that may be infinite: no work is done until then."""
MOST_NAMED = 3


class UnreadInfo(NodeInfo):
    """What could be read of a machine; stored again, it is an ordinary record."""

    problem: str = ""


def told(error: BaseException) -> str:
    """The fault of a record, as a clause."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place or 'it'} is {_short(first.get('input'))}: {str(first['msg'])[:120]}"
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return _short(str(error) or type(error).__name__)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def spec_of(text: str) -> tuple[JobSpec, str]:
    """A specification, or `NO_SPEC` and why it cannot be read."""
    try:
        return JobSpec.model_validate_json(text), ""
    except UNREADABLE as error:
        return NO_SPEC, f"its specification cannot be read: {told(error)}"


def info_of(text: str) -> NodeInfo:
    """The report of a machine about itself; an `UnreadInfo` if the record is not whole."""
    try:
        return NodeInfo.model_validate_json(text)
    except UNREADABLE as error:
        return _salvaged(text, told(error))


def _salvaged(text: str, problem: str) -> UnreadInfo:
    try:
        raw = json.loads(text)
    except ValueError:
        raw = None
    said: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    devices = said.get("devices")
    listed = devices if isinstance(devices, list) else []
    return UnreadInfo(
        name=str(said.get("name") or ""),
        address=str(said.get("address") or ""),
        boot_id=str(said.get("boot_id") or ""),
        kind=str(said.get("kind") or "cpu"),
        version=str(said.get("version") or ""),
        cpus=_sound(said.get("cpus"), 1e6),
        memory_gib=_sound(said.get("memory_gib"), 1e7),
        devices=[_device(index, one) for index, one in enumerate(listed)],
        problem=problem,
    )


def _sound(value: object, most: float) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= most else 0.0


def _device(index: int, said: object) -> DeviceInfo:
    known: Mapping[str, Any] = said if isinstance(said, dict) else {}
    return DeviceInfo(
        index=index,
        type=str(known.get("type") or "unknown"),
        memory_gib=_sound(known.get("memory_gib"), 1e7),
        uuid=str(known.get("uuid") or ""),
    )


def mended_nodes(nodes: Sequence[NodeRow]) -> tuple[list[NodeRow], list[str]]:
    """The nodes with as many devices as their numbers say, and the faults of their records."""
    sentences, mended = [], []
    for node, follower in zip_longest(nodes, nodes[1:]):
        info, problem = node.info, getattr(node.info, "problem", "")
        has = len(info.devices)
        had = has if follower is None else max(0, follower.first_device - node.first_device)
        if has != had:
            problem = problem or f"it names {has} devices and has the numbers of {had}"
        if problem:
            sentences.append(f"the record of node {node.name} cannot be read in whole: {problem}")
            lacking = [
                DeviceInfo(
                    index=i, type="unknown", healthy=False, why="the record of its node cannot be read"
                )
                for i in range(has, had)
            ]
            node = replace(
                node,
                info=info.model_copy(update={"name": node.name, "devices": [*info.devices[:had], *lacking]}),
            )
        mended.append(node)
    return mended, sentences


def array_of(values: Sequence[Any], kind: str, name: str, problem: Callable[[int, str], None]) -> Array:
    """A column; `problem` is called with the place and a clause for each value that is no number."""
    try:
        return np.array(values, dtype=kind)
    except UNREADABLE:
        column = np.zeros(len(values), dtype=kind)
        for i, value in enumerate(values):
            try:
                column[i] = np.nan if value is None and kind == "float64" else value
            except UNREADABLE:
                problem(i, f"{name} is {_short(repr(value))}, which is no number")
        return column


def mend_numbers(columns: Mapping[str, Array], ids: Sequence[str]) -> list[str]:
    """Set impossible values (a run time below zero, a missing number where one must be) to 0, in place.

    Returns a sentence for each column that had any.
    """
    sentences = []
    for name, column in columns.items():
        wrong = np.zeros(len(column), dtype=np.bool_)
        if name in ENDLESS:
            wrong |= np.isnan(column)
        elif column.dtype.kind == "f":
            wrong |= np.isinf(column) if name in MAY_LACK else ~np.isfinite(column)
        if name in NOT_NEGATIVE:
            wrong |= column < 0
        rows = np.flatnonzero(wrong)
        if len(rows):
            few = ", ".join(f"{column[row]:g} of job {ids[row]}" for row in rows[:MOST_NAMED].tolist())
            more = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
            counts = "none" if name in MAY_LACK else "0"
            sentences.append(f"{name} on record cannot be: {few}{more}; they count as {counts}")
            column[rows] = np.nan if name in MAY_LACK else 0
    return sentences
