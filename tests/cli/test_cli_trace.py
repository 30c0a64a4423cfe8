"""`rota trace`: describe, convert, generate, formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell_play import check_golden, rota

from rota.traces import formats, read


def test_describe(folder: Path) -> None:
    done = rota("trace", "describe", "jobs.csv")
    assert done.status == 0, done.err
    check_golden("describe.txt", done.out)


def test_describe_json(folder: Path) -> None:
    figures = json.loads(rota("trace", "describe", "jobs.csv", "--json").out)
    assert figures["jobs"] == 5
    assert figures["gpu_hours"] == pytest.approx((400 + 400 + 60 + 200 + 40) / 3600)


def test_convert(folder: Path) -> None:
    """A trace survives the trip through every kind of file."""
    for name in ("a.parquet", "b.csv.gz", "c.csv"):
        done = rota("trace", "convert", "jobs.csv", name)
        assert (done.status, done.out) == (0, f"5 jobs written to {name}\n")
        assert list(read(name).jobs.ids) == ["a", "b", "c", "d", "e"]


def test_generate(folder: Path) -> None:
    """The seed names the trace."""
    for name in ("x.csv", "y.csv"):
        assert rota("trace", "generate", "--jobs", 50, "--seed", 7, "--out", name).status == 0
    assert (folder / "x.csv").read_bytes() == (folder / "y.csv").read_bytes()
    assert json.loads(rota("trace", "generate", "--out", "z.csv", "--jobs", 3, "--json").out) == {
        "jobs": 3,
        "file": "z.csv",
    }


def test_formats() -> None:
    listed = json.loads(rota("trace", "formats", "--json").out)
    assert [row["name"] for row in listed] == [format.name for format in formats()]
    text = rota("trace", "formats").out
    assert all(format.name in text for format in formats())
    assert "…" not in text


@pytest.mark.parametrize("command", [("trace", "describe"), ("analyze",), ("simulate", "--policy", "fifo")])
def test_a_name_of_two_lines_is_told_in_one(command: tuple[str, ...], folder: Path) -> None:
    done = rota(*command, "no\nsuch\x1b.csv")
    assert (done.status, done.err) == (2, "rota: no\\nsuch\\x1b.csv: no such file\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("describe nope.csv", "nope.csv: no such file"),
        ("describe .", "is a directory"),
        ("convert jobs.csv jobs.txt", "does not say what to write"),
        ("convert jobs.csv jobs.csv/x.csv", "TO"),
        ("generate --jobs 0 --out x.csv", "cannot generate a trace of 0 jobs"),
        ("generate --seed -1 --out x.csv", "--seed: -1 is no seed"),
        ("generate --jobs 99999999999 --out x.csv", "expected at most 10,000,000"),
        ("generate --load 0.9 --out x.csv", "a load is relative to a cluster"),
        ("generate --load 0.9 --days 3 --cluster 1x8 --out x.csv", "expected one of them"),
        ("generate --cluster auto --out x.csv", "auto is sized by a trace"),
        ("generate --out x.txt", "does not say what to write"),
    ],
)
def test_wrong_input(arguments: str, says: str, folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = rota("trace", *arguments.split())
    assert done.status == 2
    assert says in done.err
    assert done.err.count("\n") == 1
    assert sorted(folder.iterdir()) == before
