"""Sensitivity to the host: Synergy's table, and what is refused in a file of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.errors import InputError
from rota.knowledge.hosts import build_hosts
from rota.knowledge.hosts_file import read_hosts

# Synergy, in a simulator: speed-up by cores per GPU; images want at least 62.5 GB for each GPU
CORES = (1, 2, 3, 4, 5, 6, 9)
RES50 = (0.4, 0.74, 1.0, 1.15, 1.15, 1.15, 1.15)
MOBILENET = (0.37, 0.72, 1.0, 1.3, 1.49, 1.55, 1.55)
TABLE = build_hosts(
    {
        **{
            ("res50", c, m): s if m > 30 else 0.1
            for c, s in zip(CORES, RES50, strict=True)
            for m in (20.83, 62.5)
        },
        **{("mobilenet", c, 62.5): s for c, s in zip(CORES, MOBILENET, strict=True)},
        **{("transformer", c, 20.83): 1.0 for c in CORES},
    }
)


@pytest.mark.parametrize(
    ("workload", "best"),
    [("res50", (4, 62.5)), ("mobilenet", (6, 62.5)), ("transformer", (1, 20.83))],
)
def test_saturating_demand(workload: str, best: tuple[float, float]) -> None:
    """Worked example 4."""
    assert TABLE[workload].best() == best


@pytest.mark.parametrize(
    ("workload", "cpus", "gib", "speed", "why"),
    [
        ("res50", 3, 62.5, 1.0, "the share in proportion to GPUs"),
        ("res50", 2.5, 62.5, 0.87, "between two numbers of cores"),
        ("res50", 0.5, 62.5, 0.2, "below the least"),
        ("res50", 24, 500, 1.15, "beyond the most"),
        ("res50", float("inf"), float("inf"), 1.15, "as much as it wants"),
        ("res50", 4, 50, 0.1, "its data set is not in memory"),
        ("mobilenet", 6, 10, 1.55, "less memory than anybody measured"),
        ("transformer", 1, 20.83, 1.0, "a language model does not mind"),
    ],
)
def test_speeds(workload: str, cpus: float, gib: float, speed: float, why: str) -> None:
    assert TABLE[workload].speed(cpus, gib) == pytest.approx(speed), why


HEAD = "workload,cpus_per_gpu,gib_per_gpu,speed\n"


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(HEAD + "res50,1,62.5,0.4\nres50,3,62.5,1\n")
    assert read_hosts(path)["res50"].speed(2, 62.5) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload,speed\n", "row 1: has other columns"),
        (HEAD, "there is no speed in it"),
        (HEAD + "a,1,x,1\n", "row 2, column 'gib_per_gpu': 'x' is no number above 0"),
        (HEAD + "a,1,2,0\n", "row 2, column 'speed': '0' is no number above 0"),
        (HEAD + "a,1,2,1\na,1,2,1\n", "row 3: 'a' is listed twice"),
        (HEAD + "a,1,2,1\na,3,4,1\n", "a has no speed with 1 cores and 4 GiB"),
    ],
)
def test_a_wrong_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_hosts(path)
