"""Past services: from a file, and from the jobs that completed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from play import trace_of
from rota.errors import InputError
from rota.knowledge.service import CompletedService, ServiceSamples
from rota.model.cluster import parse_cluster
from rota.table.progress import Progress
from rota.table.state import State


def write(folder: Path, text: str) -> Path:
    path = folder / "past.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [("gpu_s\n30\n10\n20.5\n", None, [10, 20.5, 30]), ("id,gpu_s\na,7\nb,3\n", "gpu_s", [3, 7])],
)
def test_samples_are_read_and_sorted(
    tmp_path: Path, text: str, column: str | None, expected: list[float]
) -> None:
    assert ServiceSamples.read(write(tmp_path, text), column).known().shared["gpu_s"].tolist() == expected


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("a,b\n1,2\n", None, "has 2 columns; expected one column of GPU-seconds"),
        ("a,b\n1,2\n", "c", "column 'c': is not there; expected a, b"),
        ("a\n1\nlong\n", None, "row 3, column 'a': 'long' is no service"),
        ("a\n1\n-2\n", None, "row 3, column 'a': -2 is no service"),
        ("a,b\n1,\n", "b", "row 2, column 'b': None is no service"),
    ],
)
def test_wrong_samples_are_refused(tmp_path: Path, text: str, column: str | None, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        ServiceSamples.read(write(tmp_path, text), column)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read"):
        ServiceSamples.read(tmp_path / "none.csv")


def test_completed_jobs_are_published_as_the_sample_grows() -> None:
    """Every job at first, later whenever a twentieth more is known; one object between two editions."""
    trace = trace_of(" ".join(f"J{i} 2x1" for i in range(100)))
    past = CompletedService()
    past.attach(State(trace.jobs, parse_cluster("1x4"), Progress(100)))
    editions = []
    for row in range(100):
        past.ended(row, float(row))
        if not editions or past.known() is not editions[-1]:
            editions.append(past.known())
    sizes = [len(edition.shared["gpu_s"]) for edition in editions]
    assert sizes[:20] == list(range(1, 21))
    assert all(later >= 1.05 * earlier for earlier, later in pairwise(sizes))
    assert sizes[-1] > 95
    assert editions[-1].shared["gpu_s"].tolist()[:3] == [0.0, 2.0, 4.0]
