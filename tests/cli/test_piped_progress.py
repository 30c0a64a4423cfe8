"""A long command says how far it is: in lines on standard error where no person is looking."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from shell_play import rota

from rota.cli import progress

CASES = [
    ({}, "preparing"),
    ({"srtf": (12_000, 82_247)}, "srtf 12,000 of 82,247"),
    ({"fifo": (10, 10), "srtf": (3, 10)}, "1 done, srtf 3 of 10"),
    (dict.fromkeys("abcdef", (1, 2)), "a 1 of 2, b 1 of 2, c 1 of 2, d 1 of 2, 2 others"),
]


@pytest.mark.parametrize(("so_far", "said"), CASES)
def test_words(so_far: dict[str, tuple[int, int]], said: str) -> None:
    assert progress.in_words(so_far) == said


@pytest.mark.slow
def test_lines_go_to_standard_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One now and then, whether or not anything has moved; none once it is over, none if it is not wanted."""
    monkeypatch.setattr(progress, "EVERY_S", 0.05)
    with progress.progress_bars(wanted=True) as told:
        assert told is not None
        time.sleep(0.12)
        told("srtf", 3, 10)
        time.sleep(0.12)
    with progress.progress_bars(wanted=False) as told:
        assert told is None
        time.sleep(0.12)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert 3 <= len(lines) <= 5
    assert lines[0].endswith(": preparing")
    assert lines[-1].endswith(": srtf 3 of 10")


def test_json_is_json_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    done = rota("simulate", "jobs.csv", "--cluster", "1x8", "--policy", "fifo,pollux", "--json")
    assert [run["policy"] for run in json.loads(done.out)["runs"]] == ["fifo", "pollux"]
    assert "rota: " in done.err
