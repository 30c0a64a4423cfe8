"""Batch sizes that workloads go through, as a file states them, and what is wrong with one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from play import trace_of
from rota.errors import InputError
from rota.knowledge.regimes import Regime
from rota.knowledge.regimes_file import COLUMNS, read_regimes
from rota.model.jobs import Truth

HEAD = ",".join(COLUMNS)
GROWS = f"{HEAD}\nnet,0,32,3200\nnet,30,128,3200\n"


def _trace(iterations: float = 8000.0, **columns):
    trace = trace_of("A 1x1", workload=0, workload_names=("net",), **columns)
    return replace(trace, truth=Truth.build(np.full(1, np.nan), iterations=np.array([iterations])))


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "regimes.csv"
    path.write_text(text)
    return path


def test_iterations_count_at_the_first_batch_size(tmp_path: Path) -> None:
    (course,) = read_regimes(_file(tmp_path, GROWS), _trace())
    assert course.epochs == 80.0  # 100 iterations of 32 samples each
    assert course.regimes == (Regime(0, 32), Regime(30, 128))
    assert [course.at(epoch) for epoch in (0, 29.9, 30, 99)] == [32, 32, 128, 128]


def test_a_job_that_asks_for_a_batch_size_has_a_row_of_its_own(tmp_path: Path) -> None:
    path = _file(tmp_path, f"{GROWS}net (batch size 64),0,64,3200\n")
    (course,) = read_regimes(path, _trace(batch_size=[64.0]))
    assert (course.epochs, course.regimes) == (160.0, (Regime(0, 64),))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("workload,batch_size\n", "row 1, column 'from_epoch': is not there"),
        (f"{HEAD}\n", "there is no regime in it"),
        (f"{HEAD}\n,0,32,3200\n", "row 2, column 'workload': is empty"),
        (f"{HEAD}\nnet,1,32,3200\n", "row 2, column 'from_epoch': net begins a regime at 1"),
        (f"{HEAD}\nnet,0,32,3200\nnet,0,64,3200\n", "row 3, column 'from_epoch': net begins a regime at 0"),
        (f"{HEAD}\nnet,0,many,3200\n", "row 2, column 'batch_size': 'many' is none"),
        (f"{HEAD}\nnet,0,32,0\n", "row 2, column 'samples_per_epoch': '0' is none"),
        (
            f"{HEAD}\nnet,0,32,3200\nnet,9,64,99\n",
            "row 3, column 'samples_per_epoch': net has 99 samples here",
        ),
        (f"{HEAD}\nother,0,32,3200\n", "job A runs 'net', of which it says nothing"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        read_regimes(_file(tmp_path, text), _trace())
    assert problem in str(caught.value)


def test_a_job_without_iterations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="job A states no iterations, by which its epochs are counted"):
        read_regimes(_file(tmp_path, GROWS), _trace(float("nan")))
