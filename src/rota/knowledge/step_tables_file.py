"""Reads what was measured of workloads: two CSV files, perhaps compressed with gzip.

Times     app, file, placement, num_nodes, num_replicas, local_bsz, step_time, sync_time
          `file` is `placements` (a row names the GPUs of each node, such as 24) or `scalability` (one GPU or
          more on each of `num_nodes`); `placements-rtx` is of GPUs of the type rtx
Epochs    app, batch_size, epoch, progress, iteration, grad_sqr, grad_var; one row per size and epoch, what is
          true at its end

They are those of petuum/adaptdl (osdi21-artifact) and siasosp23/artifacts, `traces/APP/*.csv`, put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from re import fullmatch
from typing import TYPE_CHECKING

import numpy as np

from rota.errors import InputError
from rota.knowledge.side_file import read_text
from rota.knowledge.step_tables import EpochTable, MeasuredWorkload, StepTable, StepTables

if TYPE_CHECKING:
    import polars as pl

_TIMES = ("app", "file", "placement", "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
_EPOCHS = ("app", "batch_size", "epoch", "progress", "iteration", "grad_sqr", "grad_var")
_SHAPES, _SIZES = "placements", "scalability"
_LEAST = {
    **dict.fromkeys(("num_nodes", "num_replicas", "local_bsz", "batch_size"), 1.0),
    **dict.fromkeys(("step_time", "progress", "iteration"), TINY := 1e-12),
}
"""Least of a column, if it is not 0."""
_MOST = 2.0**53
"""Most of any: up to here whole numbers are exact."""


def read_step_tables(
    times: str | PathLike[str],
    epochs: str | PathLike[str],
    local_most: Mapping[str, int] | None = None,
    slower: Mapping[str, float] | None = None,
) -> StepTables:
    """The workloads that both files know.

    `local_most` is the largest batch of one GPU, `slower` how many times longer everything takes, of some.
    """
    limits, factors = dict(local_most or {}), dict(slower or {})
    of_epochs, of_times = read_epochs(epochs), read_times(times)
    names = sorted(set(of_epochs) & set(of_times))
    if not names:
        raise InputError.at("has no workload that the other file knows", file=epochs, expected=_few(of_times))
    for name in (*limits, *factors):
        if name not in names:
            raise InputError.at(f"{name!r} was not measured", file=times, expected=_few(names))
    workloads = {
        name: MeasuredWorkload(of_epochs[name], of_times[name], limits.get(name), factors.get(name, 1.0))
        for name in names
    }
    return StepTables(workloads, str(times))


def _few(names: Iterable[str]) -> str:
    return "one of " + ", ".join(sorted(names)[:6])


def _frame(path: str | PathLike[str], columns: tuple[str, ...], words: tuple[str, ...]) -> pl.DataFrame:
    """The file with its columns as numbers, except those of `words`; an empty cell is null."""
    import polars as pl  # here, since every controller loads this module for its providers' sake

    try:
        frame = pl.read_csv(read_text(Path(path)).encode(), infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise InputError.at(f"cannot be read ({str(error).splitlines()[0]})", file=path) from None
    missing = next((name for name in columns if name not in frame.columns), None)
    if missing is not None:
        raise InputError.at("is not there", file=path, row=1, field=missing, expected=", ".join(columns))
    if not frame.height:
        raise InputError.at("holds no rows", file=path, expected=", ".join(columns))
    numbers = [name for name in columns if name not in words]
    cast = frame.select(*words, *(pl.col(name).cast(pl.Float64, strict=False) for name in numbers))
    for name in numbers:
        wrong = (cast[name].is_null() & frame[name].is_not_null()).arg_true()
        if len(wrong):
            raise InputError.at(
                f"{frame[name][wrong[0]]!r} is no number", file=path, row=wrong[0] + 2, field=name
            )
        least = _LEAST.get(name, 0.0)
        beyond = (~cast[name].is_between(least, _MOST)).fill_null(False).arg_true()
        if len(beyond):
            expected = f"a number from {least:g} on" if least != TINY else "a number above 0"
            raise InputError.at(
                f"{frame[name][beyond[0]]!r} cannot be", file=path, row=beyond[0] + 2, field=name,
                expected=expected,
            )  # fmt: skip
    return cast


def _whole(path: str | PathLike[str], frame: pl.DataFrame, columns: tuple[str, ...]) -> pl.DataFrame:
    """`frame`, with `columns` as whole numbers; refuses empty cells in them."""
    for name in columns:
        empty = frame[name].is_null().arg_true()
        if len(empty):
            raise InputError.at("is empty", file=path, row=empty[0] + 2, field=name, expected="a number")
    return frame


def read_epochs(path: str | PathLike[str]) -> dict[str, EpochTable]:
    """Epochs by workload."""
    frame = _whole(path, _frame(path, _EPOCHS, ("app",)), _EPOCHS)
    none = (frame["grad_sqr"] + frame["grad_var"] == 0.0).arg_true()
    if len(none):
        problem = "and grad_var are 0: an epoch without a gradient"
        raise InputError.at(problem, file=path, row=none[0] + 2, field="grad_sqr", expected="one above 0")
    return {str(name): _epochs_of(group) for (name,), group in frame.group_by("app", maintain_order=True)}


def _epochs_of(frame: pl.DataFrame) -> EpochTable:
    """The epochs that all sizes have."""
    of_size = {float(str(size)): group.sort("epoch") for (size,), group in frame.group_by("batch_size")}
    sizes, length = sorted(of_size), min(group.height for group in of_size.values())
    columns = {
        name: np.array([of_size[size][name].to_numpy()[:length] for size in sizes]) for name in _EPOCHS[3:]
    }
    return EpochTable(
        sizes=np.array(sizes),
        progress=columns["progress"].min(axis=0),
        steps=columns["iteration"],
        sqr=columns["grad_sqr"],
        var=columns["grad_var"],
    )


def read_times(path: str | PathLike[str]) -> dict[str, dict[str, StepTable]]:
    """Seconds of a step by workload and GPU type, `*` for any."""
    frame = _frame(path, _TIMES, ("app", "file", "placement"))
    frame = _whole(path, frame, ("app", "file", *_TIMES[5:]))
    kinds = frame["file"].str.split("-").list.first()
    odd = (~kinds.is_in([_SHAPES, _SIZES])).arg_true()
    if len(odd):
        raise InputError.at(
            f"{frame['file'][odd[0]]!r} is no kind of measurement",
            file=path,
            row=odd[0] + 2,
            field="file",
            expected=f"{_SHAPES} or {_SIZES}, with a GPU type such as {_SHAPES}-rtx",
        )
    frame = frame.with_columns(
        kind=kinds, gpu_type=frame["file"].str.replace(f"^({_SHAPES}|{_SIZES})-?", "").replace("", "*")
    )
    times: dict[str, dict[str, StepTable]] = {}
    for (name, gpu_type), group in frame.group_by("app", "gpu_type", maintain_order=True):
        table = _table(path, group)
        if table is not None:
            times.setdefault(str(name), {})[str(gpu_type).casefold()] = table
    return times


def _table(path: str | PathLike[str], frame: pl.DataFrame) -> StepTable | None:
    """The times on one type; None where no shapes were measured."""
    shapes = frame.filter(frame["kind"] == _SHAPES)
    if not shapes.height:
        return None
    by_shape = {}
    for (shape,), group in shapes.group_by("placement", maintain_order=True):
        if not fullmatch("[1-9]+", str(shape)):
            raise InputError.at(
                f"{shape!r} is no placement", file=path, field="placement", expected="digits such as 24"
            )
        by_shape[tuple(map(int, str(shape)))] = group.select(*_TIMES[5:]).to_numpy()
    beyond = _whole(path, frame.filter(frame["kind"] == _SIZES), ("num_nodes", "num_replicas"))
    return StepTable(by_shape, beyond.select(*_TIMES[3:]).to_numpy())
