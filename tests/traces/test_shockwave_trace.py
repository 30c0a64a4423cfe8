"""Shockwave traces: Gavel's columns, a mode and a duration."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from rota.traces import read
from shared_data import data, needs_shared, reference


def test_modes_durations_and_deadlines(read_text: Any) -> None:
    row = "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t1200\t2\t{mode}\t{weight}\t{slo}\t600\t30\n"
    trace = read_text(row.format(mode="gns", weight=1, slo=-1) + row.format(mode="static", weight=2, slo=1.5))
    assert trace.truth.duration_s.tolist() == [600, 600]
    assert trace.jobs.deadline_s.tolist() == pytest.approx([np.nan, 930], nan_ok=True)
    assert trace.facts["mode"] == {"0": "gns", "1": "static"}
    assert trace.jobs.weight.tolist() == [1, 2]


# trace  jobs  GPU-hours
@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "jobs", "gpu_hours"),
    [
        ("jobs120", 120, 197.6),
        ("jobs460", 460, 896.5),
        ("jobs900_arg100", 900, 1611.7),
        ("jobs900_arg1000", 900, 1705.4),
    ],
)
def test_published_traces(name: str, jobs: int, gpu_hours: float) -> None:
    trace = read(data(f"shockwave/traces/{name}.trace.gz"))
    assert (trace.format, len(trace)) == ("shockwave", jobs)
    assert np.sum(trace.jobs.gpus * trace.truth.duration_s) / 3600 == pytest.approx(gpu_hours, abs=0.06)


@needs_shared
@pytest.mark.shared
def test_the_120_jobs_and_their_table_agree() -> None:
    trace = read(data("shockwave/traces/jobs120.trace.gz"))
    table = read(reference("gavel-pollux-sia/inputs/shockwave_120.csv.gz"))
    modes = trace.facts["mode"]
    assert isinstance(modes, dict)
    assert Counter(modes.values()) == {"accordion": 59, "gns": 57, "static": 4}
    assert modes == table.facts["mode"]
    assert trace.jobs.submit_s[-1] == 5011
    np.testing.assert_array_equal(trace.truth.duration_s, table.truth.duration_s)
