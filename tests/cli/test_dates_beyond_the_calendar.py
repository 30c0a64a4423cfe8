"""Unix time has dates, and a column of durations may lead beyond the year 9999."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell_play import rota


@pytest.mark.parametrize(
    "words",
    [
        ["trace", "describe", "t.csv"],
        ["simulate", "t.csv", "--cluster", "1x1", "--policy", "fifo", "--out", "out"],
        ["analyze", "t.csv", "--cluster", "1x1", "--out", "out"],
    ],
    ids=lambda words: words[0],
)
def test_it_is_read_and_shown(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second job comes in 2023, and begins in the year 33,712."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("submit_s,gpus,duration_s\n1700000000,1,1000000000000\n1700000005,1,20\n")
    ran = rota(*words)
    assert ran.status == 0, ran.err
