"""What accounting dumps say of ends: exit codes, arrays, processor time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacct_text import dump, row

from rota.traces import read, write


def test_tasks_of_one_array_and_how_they_ended(read_text: Any, tmp_path: Path) -> None:
    trace = read_text(
        dump(
            row("11", JobID="7_1", State="FAILED", ExitCode="2:0"),
            row("12", JobID="7_2", State="FAILED", ExitCode="0:11"),
            row("13"),
        )
    )
    assert trace.observed.arrays == {0: "7", 1: "7"}
    assert trace.observed.exits == {0: "exit 2", 1: "signal 11"}
    file = tmp_path / "again.csv"
    write(trace, file)
    again = read(file)
    assert (again.observed.arrays, again.observed.exits) == (trace.observed.arrays, trace.observed.exits)
    assert trace.take(np.array([2, 0])).observed.exits == {1: "exit 2"}


def test_slurms_own_mark_is_no_signal(read_text: Any) -> None:
    """There is no signal 125: Slurm writes it for who ran out of memory, in that state alone."""
    trace = read_text(
        dump(
            row("11", State="OUT_OF_MEMORY", ExitCode="0:125"),
            row("12", State="OUT_OF_MEMORY", ExitCode="0:9"),
            row("13", State="FAILED", ExitCode="125:0"),
        )
    )
    assert trace.observed.exits == {0: "out of memory", 1: "signal 9", 2: "exit 125"}


@pytest.mark.parametrize(
    ("cell", "cpu_s"),
    [("01:02:03", 3723.0), ("2-00:00:10", 172810.0), ("05:30.250", 330.25), ("", None), ("INVALID", None)],
)
def test_processor_time(read_text: Any, cell: str, cpu_s: float | None) -> None:
    usage = read_text(dump(row("1", TotalCPU=cell))).facts.get("usage")
    assert usage == (None if cpu_s is None else {"1": {"cpu_s": cpu_s}})
