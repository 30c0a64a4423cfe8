"""Measured step times and epochs: shapes, splits, what lies between measurements, what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from rota.errors import InputError
from rota.knowledge.goodput import BatchSplit
from rota.knowledge.step_tables import MeasuredWorkload, StepTable, shape_of, whole_nodes
from rota.knowledge.step_tables_file import read_step_tables

TIMES = """app,file,placement,num_nodes,num_replicas,local_bsz,step_time,sync_time
a,placements,1,,,32,0.05,0
a,placements,1,,,128,0.11,0
a,placements,12,,,128,0.14,0.03
a,placements,12,,,32,0.08,0.03
a,scalability,,2,4,32,0.1,0.04
a,scalability,,2,4,128,0.2,0.1
a,scalability,,8,8,128,0.16,0.05
a,placements-rtx,1,,,64,0.02,0
a,scalability-rtx,,2,2,64,0.03,0.01
"""
EPOCHS = """app,batch_size,epoch,progress,iteration,grad_sqr,grad_var
a,1024,1,785,110,0.4,66
a,1024,0,390,60,0.5,45
a,128,0,391,391,0.5,40
a,128,1,782,782,0.4,60
b,128,0,391,391,0.5,40
"""


def workload(folder: Path, **limits: int) -> MeasuredWorkload:
    (folder / "times.csv").write_text(TIMES)
    (folder / "epochs.csv").write_text(EPOCHS)
    return read_step_tables(folder / "times.csv", folder / "epochs.csv", limits).workloads["a"]


@pytest.mark.parametrize(
    ("parts", "shape"),
    [
        ((4,), (4,)),
        ((2, 4), (2, 4)),
        ((4, 2), (2, 4)),
        ((3, 1, 4), (1, 4, 3)),
        ((4, 2, 4, 4), (2, 4, 4, 4)),
    ],
)
def test_shapes(parts: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Ranks begin on the node with most GPUs; the ring is turned so that it is smallest."""
    assert shape_of(parts) == shape


def test_whole_nodes() -> None:
    assert [whole_nodes(gpus, 4) for gpus in (1, 4, 6)] == [(1,), (4,), (4, 2)]


SPLITS = [
    # GPUs, batch wanted, the most on a GPU   batch              why
    (4, 512, 128, BatchSplit(128, 0), "as many as fit"),
    (4, 513, 128, BatchSplit(65, 1), "129 on each: two passes"),
    (1, 128, 128, BatchSplit(128, 0), "M0 on one GPU: one pass"),
    (1, 130, 128, BatchSplit(65, 1), "more than M0 on one GPU takes two"),
    (3, 1024, 512, BatchSplit(341, 0), "342 on each were more than the largest batch there is"),
]


@pytest.mark.parametrize(("gpus", "wanted", "most", "batch", "why"), SPLITS, ids=[row[-1] for row in SPLITS])
def test_splits(gpus: int, wanted: float, most: int, batch: BatchSplit, why: str, tmp_path: Path) -> None:
    measured = workload(tmp_path, a=most)
    assert measured.split(measured.times["*"], gpus, wanted) == batch, why


SECONDS = [
    # GPUs on each node, local batch   step, sync              why
    ((1,), 80, (0.08, 0.0), "half way between 32 and 128"),
    ((2, 1), 128, (0.14, 0.03), "turned round"),
    ((2, 2), 80, (0.15, 0.07), "another shape of 2 nodes and 4 GPUs"),
    ((1,), 129, (math.nan, math.nan), "more than was measured"),
    ((4,) * 5, 32, (math.nan, math.nan), "outside of all that was measured"),
]


@pytest.mark.parametrize(("parts", "local", "seconds", "why"), SECONDS, ids=[row[-1] for row in SECONDS])
def test_seconds(
    parts: tuple[int, ...], local: int, seconds: tuple[float, float], why: str, tmp_path: Path
) -> None:
    found = workload(tmp_path).times["*"].at(parts, local)
    assert found == pytest.approx(seconds, nan_ok=True), why


def test_only_the_last_pass_synchronises(tmp_path: Path) -> None:
    found = workload(tmp_path).times["*"].at((2, 1), 128)
    assert found.of(BatchSplit(128, 2)) == pytest.approx(0.14 + 2 * 0.11)


def test_shapes_alike_in_nodes_and_gpus_are_averaged() -> None:
    """12 is not looked up where 13 is asked for; but a shape between two counts with its mean."""
    rows = {(2, 2): np.array([[8.0, 1.0, 0.0]]), (1, 3): np.array([[8.0, 3.0, 0.0]])}
    beyond = np.array([[1.0, 1.0, 8.0, 0.0, 0.0], [3.0, 3.0, 8.0, 0.0, 0.0], [2.0, 4.0, 9.0, 9.0, 0.0]])
    table = StepTable(rows, beyond)
    assert float(table._between([2, 4, 8])[0][0]) == pytest.approx(2.0)


def test_epochs(tmp_path: Path) -> None:
    """Progress is the least of all sizes, statistics are linear between them, whatever the order of rows."""
    epochs = workload(tmp_path).epochs
    assert epochs.ends == [390 * 128, 782 * 128]
    assert epochs.noise(576, 0) == pytest.approx((0.5, 42.5))
    assert epochs.steps_at(576, 1) == pytest.approx((782 + 110) / 2)


def test_types_of_gpus(tmp_path: Path) -> None:
    measured = workload(tmp_path)
    assert measured.times_on("RTX") is measured.times["rtx"]
    assert measured.times_on("T4") is measured.times["*"]


WRONG = [
    # times, epochs   what is said
    (TIMES.replace("sync_time", "sync"), EPOCHS, "times.csv, row 1, column 'sync_time': is not there"),
    (TIMES.replace("0.14", "fast"), EPOCHS, "times.csv, row 4, column 'step_time': 'fast' is no number"),
    (TIMES.replace("0.14", ""), EPOCHS, "times.csv, row 4, column 'step_time': is empty"),
    (TIMES.replace("scalability,,8", "scaling,,8"), EPOCHS, "row 8, column 'file': 'scaling' is no kind"),
    (TIMES.replace("placements,12", "placements,1+2"), EPOCHS, "'1\\+2' is no placement"),
    (
        TIMES.replace("0.14", "nan"),
        EPOCHS,
        "row 4, column 'step_time': 'nan' cannot be; expected a number a",
    ),
    (TIMES.replace("0.14", "0"), EPOCHS, "row 4, column 'step_time': '0' cannot be; expected a number above"),
    (TIMES.replace(",64,0.02,0", ",64,0.02,-1"), EPOCHS, "row 9, column 'sync_time': '-1' cannot be; expect"),
    (TIMES.replace(",,,64", ",,,inf"), EPOCHS, "row 9, column 'local_bsz': 'inf' cannot be; expected a num"),
    (TIMES.replace("placements,12", "placements,10"), EPOCHS, "'10' is no placement"),
    (
        TIMES,
        EPOCHS.replace("128,1", "1e300,1"),
        "row 5, column 'batch_size': '1e300' cannot be; expected a",
    ),
    (
        TIMES,
        EPOCHS.replace("0.4,60", "0,0"),
        "row 5, column 'grad_sqr': and grad_var are 0: an epoch without",
    ),
    (TIMES, EPOCHS.replace("a,", "c,"), "epochs.csv: has no workload that the other file knows"),
    (TIMES, EPOCHS.splitlines()[0] + "\n", "epochs.csv: holds no rows"),
]


@pytest.mark.parametrize(("times", "epochs", "problem"), WRONG, ids=[row[-1] for row in WRONG])
def test_wrong_files_are_refused_in_one_sentence(
    times: str, epochs: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "times.csv").write_text(times)
    (tmp_path / "epochs.csv").write_text(epochs)
    with pytest.raises(InputError, match=problem) as error:
        read_step_tables(tmp_path / "times.csv", tmp_path / "epochs.csv")
    assert "\n" not in str(error.value)


def test_a_limit_of_a_workload_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'yolo' was not measured; expected one of a"):
        workload(tmp_path, yolo=8)


def test_far_fewer_examples_than_a_gpu_could_take(tmp_path: Path) -> None:
    """One pass with them, however much room there is."""
    measured = workload(tmp_path, a=10**12)
    assert measured.split(measured.times["*"], 2, 128) == BatchSplit(64, 0)
