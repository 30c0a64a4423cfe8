"""Pages do not rot: generated ones are fresh, links and maps name what is there, the README can be run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import typer

import rota
from rota.bounds import SUMMARIES
from rota.cli import job_pages, system_index
from rota.cli.app import app
from rota.cli.catalogue import published_entries
from rota.cli.pages import cli_page, knowledge_page, own, systems_page, with_table
from rota.cli.rooms import BEGIN, END, printed, rooms, with_files
from rota.errors import InputError

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
STALE = "stale; `make docs` prints it again"
SOURCE = Path(rota.__file__).parent
ROOMS = rooms(SOURCE)
SCREEN_LINES = 60


def test_cli_page() -> None:
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == cli_page(), STALE


def test_systems_page() -> None:
    assert (ROOT / "docs/systems.md").read_text(encoding="utf-8") == systems_page(), STALE


def test_index_of_systems() -> None:
    assert system_index.INDEX.read_text(encoding="utf-8") == system_index.written(
        own(), published_entries(), SUMMARIES
    ), STALE


def test_knowledge_page() -> None:
    assert (ROOT / "docs/knowledge.md").read_text(encoding="utf-8") == knowledge_page(), STALE


def test_table_of_systems() -> None:
    assert with_table(README) == README, STALE


def test_columns_of_a_job() -> None:
    for page, text in job_pages.pages(ROOT / "docs").items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name} is {STALE}"


def test_table_needs_its_place() -> None:
    with pytest.raises(InputError, match="has no place for the table"):
        with_table("# A page without markers")


def anchors(page: Path) -> set[str]:
    """Where one can jump to in `page`: its headings as GitHub writes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    seen: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(page: Path) -> None:
    """Every relative link is a file of the repository, and what follows its # a heading there."""
    broken = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_listed() -> None:
    """docs/README.md names all of them."""
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text(encoding="utf-8")))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} == listed | {"README.md"}


def folders_and_files(room: Path) -> set[str]:
    """Names in `room` without their suffix."""
    files = {path.stem for path in room.glob("*.py")} - {"__init__", "__main__"}
    return files | {path.parent.name for path in room.glob("*/__init__.py")}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SOURCE)))
def test_readme(room: Path) -> None:
    """It fits on a screen and names every file; a list that is printed is fresh."""
    text = (room / "README.md").read_text(encoding="utf-8")
    assert folders_and_files(room) <= set(re.findall(r"\w+", text))
    assert len(text.splitlines()) <= SCREEN_LINES
    if printed(text):
        assert with_files(text, room) == text, STALE


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SOURCE)))
def test_files_named_by_hand_exist(room: Path) -> None:
    """`name.py` in a README is a file of the room or of a folder in it."""
    text = (room / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:\w+/)*(\w+\.py)`", text))
    assert named <= {path.name for path in room.rglob("*.py")}


def test_contributing_names_every_room() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = page.split("## How the tree is laid out")[1].split("```")[1]
    assert set(re.findall(r"^(\w+)[/ ]", tree, re.MULTILINE)) == {
        room.name for room in ROOMS if room.parent == SOURCE
    }


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(InputError, match="has no place for its files"):
        with_files(f"{BEGIN}{BEGIN}{END}", SOURCE / "model")


SMALLER = {"--jobs 2000": "--jobs 250", "-- sleep 20": "-- sleep 2", "-- sleep 5": "-- sleep 1"}
"""The same tour with less to simulate and to wait for."""


@pytest.mark.soak
@pytest.mark.parametrize(
    "changes", [SMALLER, pytest.param({}, marks=pytest.mark.soak)], ids=["smaller", "as it stands"]
)
def test_tour(tmp_path: Path, changes: dict[str, str]) -> None:
    """The commands of the README, in their order, in one folder; then its Python."""
    environment = {**os.environ, "ROTA_HOME": str(tmp_path / "home")}

    def rota(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rota.cli.main", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if line.startswith("rota ")]
    assert len(commands) >= 20
    for written, done in changes.items():
        assert any(written in command for command in commands)
        commands = [command.replace(written, done) for command in commands]
    try:
        for command in commands:
            done = rota(*shlex.split(command)[1:])
            assert done.returncode == 0, f"{command}\n{done.stderr}"
    finally:
        left = rota("down", "--kill-jobs")
    assert left.stdout.startswith("nothing runs in"), "the tour takes down what it started"
    python = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    for block in python:
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True)
    assert (tmp_path / "out/report.html").exists()


FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SAID_OF_IT = re.compile(
    r" *(?:\$ )?(?:rota|pip|make|python3?|podman|systemctl|cp|source) (?!CLI ).*?\S {3,}(?!#)\S"
)
"""A line of a block with a command, and words behind it that a shell takes for arguments."""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_can_be_copied(page: Path) -> None:
    """What is said of a command stands behind a #, and a block of commands is one for a shell."""
    text = page.read_text(encoding="utf-8")
    assert [
        line for block in FENCE.findall(text) for line in block.splitlines() if SAID_OF_IT.match(line)
    ] == []
    for block in re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL):
        read = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, ""), block


@pytest.mark.slow
def test_completion_and_man_page_of_a_user(tmp_path: Path) -> None:
    """The commands of the page run in a home that is empty, and leave what shells and `man` read."""
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    shell = page.split("\n## The shell\n")[1].split("\nRoot, ")[0]
    program = tmp_path / "bin" / "rota"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rota.cli.main "$@"\n')
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    for block in re.findall(r"```sh\n(.*?)```", shell, re.DOTALL):
        subprocess.run(["bash", "-euc", block], env=environment, check=True)
    left = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file() and path.stat().st_size}
    assert left >= {
        ".bashrc",
        ".zfunc/_rota",
        ".config/fish/completions/rota.fish",
        ".local/share/man/man1/rota.1",
    }


def printed_commands(text: str) -> Iterator[str]:
    """Every `rota ...` of a page, in its blocks (what stands far to the right is said of it) and its text."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if (command := re.match(r" *(?:\$ )?(rota .*?)(?:   |$)", line)) is not None:
                yield command[1]
    yield from (" ".join(said.split()) for said in re.findall(r"`(rota [^`]+)`", FENCE.sub("", text)))


@cache
def all_commands() -> Any:
    return typer.main.get_command(app)


def unknown_words(command: str) -> list[str]:
    """Commands and options that stand in `command` and are not there."""
    here: Any = all_commands()
    words = shlex.split(command, comments=True)[1:]
    unknown = []
    while words and words[0] not in ("--", "|", ">", "&&"):
        word = words.pop(0)
        if word.startswith("-"):
            names = {name for one in here.params for name in (*one.opts, *one.secondary_opts)}
            if word.partition("=")[0] not in names | {"-h", "--help"}:
                unknown.append(word)
        elif hasattr(here, "get_command"):
            here = here.get_command(click.Context(here), word)
            if here is None:
                return [word]
    return unknown


@pytest.mark.parametrize(
    ("command", "unknown"),
    [
        ("rota submit --gpus 2 -- ./train --lr 1", []),
        ("rota user token alice", []),
        ("rota trace generate --gpus 2 --jobs=3", ["--gpus"]),
        ("rota policy swap srtf", ["swap"]),
        ("rota begin", ["begin"]),
    ],
)
def test_a_word_that_is_not_there_is_seen(command: str, unknown: list[str]) -> None:
    assert unknown_words(command) == unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_printed_commands(page: Path) -> None:
    """Their commands and options are there; placeholders and values may be anything."""
    unknown = {
        command: wrong
        for command in printed_commands(page.read_text(encoding="utf-8"))
        if not command.startswith("rota CLI ")  # a box of a drawing
        and (wrong := unknown_words(command))
    }
    assert unknown == {}


def test_make_verbs() -> None:
    """Every `make VERB` that a page mentions is a verb of the Makefile."""
    verbs = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        for line in re.findall(
            r"`make ([a-z ]+)[^`]*`|^make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert set("".join(line).split()) <= verbs, page.name
