"""`rota promise`: what is printed and written, and what is refused."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from shell_play import check_golden, rota

TAKE = ("snapshot", "jobs.csv", "--cluster", "1x8", "--at", "15s", "--out", "m.rota", "--policy")
EXACT = ("--sigma", "0", "--no-arrivals", "--runs", "3", "--cpu", "1h")
"""Run times as they are known, so that one future is like the other."""


def test_printed(folder: Path) -> None:
    """At 20 s b holds all 8 GPUs for 40 s more; the new job goes before d and the rest of its kind."""
    rota(*TAKE, "srtf")
    done = rota("promise", "m.rota", "--size", "4=30s,8=15s", "--by", "20s,1m40s,3m", *EXACT)
    assert done.status == 0, done.err
    check_golden("promise.txt", done.out)


def test_in_json_and_in_files(folder: Path) -> None:
    rota(*TAKE, "srtf")
    asked = ("--size", "4=30s", "--by", "20s,3m", "--grace", "1m", "--floor", "-1", "--out", "told")
    facts = json.loads(rota("promise", "m.rota", *asked, *EXACT, "--json").out)["4"]
    late, in_time = facts["promises"]
    assert (late["chance"], in_time["chance"], facts["pick_s"]) == (0.0, 1.0, 180.0)
    assert late["offer_s"] == late["ends_s"][0] == late["done_s"]["p50"]
    assert (late["is_refused"], in_time["is_refused"]) == (True, False)
    assert json.loads(Path("told/promise.json").read_text())["4"] == facts
    figures = sorted(path.name for path in Path("told").glob("*.svg"))
    assert figures == ["chances.svg", "ends-4.svg", "reward-4.svg"]
    assert all(Path("told", name).read_text().startswith("<svg") for name in figures)


def test_under_another_policy(folder: Path) -> None:
    """First come, first served: the new job is the last one."""
    rota(*TAKE, "srtf")
    asked = ("--size", "4=30s", "--by", "1m40s", "--policy", "fifo", *EXACT, "--json")
    facts = json.loads(rota("promise", "m.rota", *asked).out)["4"]
    assert facts["policy"] == "fifo"
    assert facts["promises"][0]["others"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--size 4 --by 2h", "--size: '4' is no size; expected GPUS=TIME such as 4=2h"),
        ("--size 0=2h --by 2h", "--size: '0=2h' is no size; expected GPUS=TIME such as 4=2h"),
        ("--size 4=0s --by 2h", "--size: '4=0s' is no size; expected GPUS=TIME such as 4=2h"),
        (
            "--size 4=2h,999=2h --by 2h",
            "rota: --size: a job of 999 GPUs can never run: it needs 999 GPUs at once; the cluster has 8 ",
        ),
        ("--size 4=1h,4=2h --by 2h", "--size: names 4 GPUs twice; expected each size once"),
        ("--size 4=2h --by 2h --sigma 1e308", "rota: sigma: 1e+308 is no spread; expected 0 to 20"),
        ("--size 4=2h --by 2h --full 1e308", "full=1e+308 is no reward; expected at most 1e+15"),
        ("--size 4=2h --by 2", "--by: '2' is not a duration"),
        ("--size 4=2h --by 2h --target 1.5", "--target: 1.5 is no chance"),
        ("--size 4=2h --by 2h --target 0.5 --least 0.6", "--least: 0.6 is more than the 0.5"),
        ("--size 4=2h --by 2h --fraction 2", "min_fraction=2 is no part of a job's work"),
        ("--size 4=2h --by 2h --floor 2", "the reward cannot rise"),
        ("--size 4=2h --by 2h --duration nobody", "'nobody' is no source of durations"),
        ("--size 4=2h --by 2h --policy fofo", "there is no policy 'fofo'"),
        ("--size 4=2h --by 2h --out jobs.csv", "--out: jobs.csv is a file"),
        ("--size 4=2h --by 2h --sigma -1", "rota: sigma: -1 is no spread"),
    ],
)
def test_wrong_input(arguments: str, says: str, folder: Path) -> None:
    rota(*TAKE, "fifo")
    done = rota("promise", "m.rota", *arguments.split())
    assert done.status == 2
    assert says in done.err


def test_a_file_is_there_whole_or_not_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rota(*TAKE, "srtf")
    write = Path.write_text

    def fills_the_disk(path: Path, text: str, *words: object, **more: Any) -> int:
        write(path, text[:20], **more)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fills_the_disk)
    done = rota("promise", "m.rota", "--size", "4=30s", "--by", "3m", "--out", "told", *EXACT)
    assert (done.status, done.err) == (1, "rota: told/promise.json: No space left on device\n")
    assert list(Path("told").iterdir()) == []
