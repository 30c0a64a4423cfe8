"""Seeds that are one item are as good as items of their own; want of time leaves no function out."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tiers
from tiers import each_seed, first, in_turns, seed_ranges

HOUR = """
import conftest, pytest

@pytest.mark.parametrize("seed", range(3))
def test_one(seed): pass

@pytest.mark.parametrize("seed", range(3))
def test_other(seed): conftest.BEGUN_S -= 3600.0
"""
"""The second function takes an hour."""


def test_a_failure_names_its_seed() -> None:
    @each_seed(5, 10, 20, at_once=5)
    def test(seed: int) -> None:
        assert seed < 3

    assert list(inspect.signature(test).parameters) == ["seeds"]
    with pytest.raises(AssertionError) as caught:
        test(seeds=range(0, 5))
    assert caught.value.__notes__ == ["with seed=3"]


def test_each_seed_has_its_own_folder_and_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = list[int]()

    @each_seed(5, 10, 20, at_once=5)
    def test(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not [*tmp_path.iterdir()]
        assert "ROTA_OF_A_SEED" not in os.environ
        (tmp_path / "file").touch()
        monkeypatch.setenv("ROTA_OF_A_SEED", "1")
        ran.append(seed)

    test(seeds=range(3, 6), tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert ran == [3, 4, 5]
    assert "ROTA_OF_A_SEED" not in os.environ


def test_seeds_are_told_apart_by_where_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "LEFT_OUT", set())

    @each_seed(30, 60, 90)
    def test(seed: int) -> None:
        """Nothing: it is only collected."""

    (parametrized,) = test.pytestmark
    marks = {str(value.values[0]): [mark.name for mark in value.marks] for value in parametrized.args[1]}
    assert marks == {
        "range(0, 20)": [],
        "range(20, 30)": [],
        "range(30, 50)": ["soak"],
        "range(50, 60)": ["soak"],
        "range(60, 80)": ["deep"],
        "range(80, 90)": ["deep"],
    }


def test_rows_of_another_tier_are_not_even_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "LEFT_OUT", {"soak", "deep"})
    assert first(2, ["a", "b", "c"], deep=["d"]) == ["a", "b"]
    assert [row.values for row in seed_ranges(5, 10, 20)] == [(range(0, 5),)]
    assert len(seed_ranges(0, 10, 20)) == 2, "all of them are deselected: none at all would be one that skips"


def test_in_turns_each_meets_some_and_all_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "LEFT_OUT", {"soak"})
    assert in_turns(2, "abc", "wxyz") == [*zip("aabbcc", "wxyzwx", strict=True)]
    monkeypatch.setattr(tiers, "LEFT_OUT", set())
    assert len(in_turns(2, "abc", "wxyz")) == 12


@pytest.mark.slow
def test_what_is_left_out_when_time_is_over_is_counted(tmp_path: Path) -> None:
    """And by then each function has had its turn."""
    (tmp_path / "test_hour.py").write_text(HOUR)
    options = ["-v", "-ra", "-p", "conftest", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--minutes", "30", tmp_path],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    said = [line.split()[0].partition("::")[2] for line in ended.stdout.splitlines() if "PASSED" in line]
    assert said == ["test_one[0]", "test_other[0]"], ended.stdout
    assert "SKIPPED [4]" in ended.stdout
    assert "the 30 minutes of --minutes are over" in ended.stdout
