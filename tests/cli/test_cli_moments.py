"""`rota snapshot` and `rota replay`: a moment taken in one process, decided again in another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell_play import check_golden, rota, rota_process

TAKE = ("snapshot", "jobs.csv", "--cluster", "1x8", "--at", "15s", "--out", "m.rota", "--policy")


def test_taken(folder: Path) -> None:
    """The first decision at or after the moment asked for: c arrives at 20 s."""
    done = rota(*TAKE, "fifo")
    assert (done.status, done.out) == (0, "m.rota: 20s into the trace, 1 job running, 2 waiting\n")


@pytest.mark.slow
def test_replay(folder: Path) -> None:
    """The policy that was asked decides as it did: strict FIFO leaves c behind b."""
    rota(*TAKE, "fifo")
    done = rota_process("replay", "m.rota")
    assert done.status == 0, done.err
    check_golden("replay.txt", done.out)


def test_replay_under_another_policy(folder: Path) -> None:
    """At 20 s SRTF has b (40 s left) make room for c (30 s) and, on what remains, a; and says why b waits."""
    rota(*TAKE, "srtf")
    decided = json.loads(rota("replay", "m.rota", "--json").out)
    assert [grant["job"] for grant in decided["start"]] == ["c", "a"]
    assert decided["preempt"] == ["b"]
    why = {one["code"]: (one["requested"], one["provided"]) for one in decided["wait"]["b"]}
    assert why["Resources"] == (8, 2)
    other = json.loads(rota("replay", "m.rota", "--json", "--policy", "fifo").out)
    assert (other["policy"], other["taken_under"], other["start"]) == ("fifo", "srtf", [])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("replay jobs.csv", "is not a whole snapshot"),
        ("replay nope", "there is no such file"),
        ("replay .", ".: cannot be read (Is a directory)"),
        ("snapshot jobs.csv --policy fifo --at 0s --out .", "--out: . is a folder"),
        ("snapshot jobs.csv --policy fifo --at 2 --out x", "--at: '2' is not a duration"),
        ("snapshot jobs.csv --policy fifo --at 9d --out x", "--at: the last decision of the run is before"),
        ("snapshot jobs.csv --policy fifo --at 0s --out x --seed -1", "--seed: -1 is no seed; expected 0 or"),
        ("snapshot jobs.csv --policy fofo --at 1s --out x", "there is no policy 'fofo'"),
    ],
)
def test_wrong_input(arguments: str, says: str, folder: Path) -> None:
    done = rota(*arguments.split())
    assert done.status == 2
    assert says in done.err
    assert not (folder / "x").exists()


def test_replay_without_what_it_needs(folder: Path) -> None:
    """A policy that needs durations cannot decide on a moment taken without them."""
    rota(*TAKE, "fifo")
    done = rota("replay", "m.rota", "--policy", "srtf")
    assert (done.status, "holds no duration" in done.err) == (2, True)
