"""Odd values for every option and argument of commands that need no cluster: an answer, or one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from shell_play import rota

from rota.cli.app import app
from tiers import first

ODD = (
    *(
        "",
        "nan",
        "-1",
        "inf",
        "1e400",
        "x",
        "\u00e9\x1b[31m",
        "a=b",
        ":",
        ",",
        "/dev/null",
        "/",
        "nofile",
        "0",
    ),
    *("99999999999999999999", "1:2:3:4", "=", "%", "{}", "-", "1d", "a:b:c", "1h,2h"),
)
SOUND: dict[str, tuple[str, ...]] = {
    "simulate": ("jobs.csv", "--cluster", "1x8", "--workers", "1"),
    "advise": ("jobs.csv", "--cluster", "1x8", "--time", "1s", "--seeds", "1", "--workers", "1"),
    "analyze": ("jobs.csv",),
    "snapshot": ("jobs.csv", "--cluster", "1x8", "--at", "10s", "--policy", "fifo", "--out", "m.rota"),
    "replay": ("m.rota",),
    "promise": ("m.rota",),
    "systems": (),
    "fidelity": (),
    "trace describe": ("jobs.csv",),
    "trace convert": ("jobs.csv", "h.csv"),
    "trace generate": ("--jobs", "20", "--out", "k.csv"),
    "trace formats": (),
    "completion": ("bash",),
}
"""Each command, and words with which it does what it is for."""


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All commands below a group by name, loaded."""
    for name in list(group.commands):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def tries() -> list[list[tuple[str, ...]]]:
    """Of every option and argument, the words with each odd value, sound ones before it."""
    known = dict(commands(typer.main.get_command(app)))
    all_tries = []
    for name, sound in SOUND.items():
        place = 0
        for parameter in known[name].params:
            if parameter.param_type_name == "argument":
                all_tries.append([(*name.split(), *sound[:place], odd, *sound[place + 1 :]) for odd in ODD])
                place += 1
            elif not parameter.is_flag and parameter.name != "help":
                option = max(parameter.opts, key=len)
                all_tries.append([(*name.split(), *sound, option, odd) for odd in ODD])
            elif parameter.name != "help":
                all_tries.append([(*name.split(), *sound, max(parameter.opts, key=len))])
    return all_tries


def check(words: tuple[str, ...]) -> None:
    done = rota(*words)
    said = f"{words}: {done.status}\n{done.out[-300:]}\n{done.err[-300:]}"
    assert "Traceback" not in done.err, said
    assert "\x1b" not in done.out + done.err, said
    if done.status != 0:
        assert done.status in (1, 2), said
        assert done.err.startswith("rota: "), said
        assert done.err.count("\n") == 1, said


@pytest.fixture
def moment(folder: Path) -> Path:
    """The working directory, with a stored moment too."""
    assert rota("snapshot", *SOUND["snapshot"]).status == 0
    return folder


@pytest.mark.slow
def test_some_odd_values(moment: Path) -> None:
    """Of every eighth option one; all of them in the soak."""
    for place, words in enumerate(tries()[::8]):
        check(words[place % len(words)])


@pytest.mark.parametrize("further", first(0, range(5), deep=range(5, len(ODD))))
def test_odd_values(moment: Path, further: int) -> None:
    """One of each option, with another value than the option before, and `further` ones behind it."""
    for place, words in enumerate(tries()):
        if further < len(words):
            check(words[(place + further) % len(words)])
