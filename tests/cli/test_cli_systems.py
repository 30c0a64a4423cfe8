"""`rota systems`: the registry as a table, as JSON, and one system in full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shell_play import rota

from rota.cli import system_index
from rota.cli.catalogue import head_of, parameters_of, published_entries
from rota.cli.pages import own
from rota.systems.fifo.system import FifoParameters


def test_list() -> None:
    done = rota("systems")
    assert done.status == 0
    assert all(one.name in done.out for one in own())


def test_json() -> None:
    listed = json.loads(rota("systems", "--json").out)
    assert [one["name"] for one in listed] == [one.name for one in (*own(), *published_entries())]


def test_one() -> None:
    done = rota("systems", "fifo")
    assert done.out.startswith("fifo: Serve in order of submission")
    assert "Jobs start in order of submission" in " ".join(done.out.split())
    assert json.loads(rota("systems", "fifo", "--json").out)["parameters"][0]["name"] == "skip"


def test_priorities() -> None:
    """Who looks at them: the registry says so."""
    listed = json.loads(rota("systems", "--json").out)
    assert {one["name"] for one in listed if one["heeds_priority"]} == {
        *("fifo", "hived", "multifactor", "partition", "prerun", "synergy", "synergy@authors")
    }
    assert "higher ones first" in rota("systems", "fifo").out
    assert "has no effect" in rota("systems", "tiresias").out


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("las", "nothing"),
        ("srtf", "duration"),
        ("fifo", "(duration)"),
        ("elan", "scaling (goodput)"),
        ("prerun", "what the policy inside needs"),
    ],
)
def test_needs_line(name: str, line: str) -> None:
    """What a policy needs always, what only some variants do, and what another policy inside it does."""
    assert {one.name: one.needs_line() for one in own()}[name] == line


def test_unknown() -> None:
    done = rota("systems", "srft")
    assert (done.status, done.err) == (2, "rota: there is no policy 'srft'; did you mean 'srtf'?\n")


def test_parameters() -> None:
    """Name, default and meaning come from the dataclass and the strings under its fields."""
    skip = parameters_of(FifoParameters)[0]
    assert (skip.name, skip.default, skip.values) == ("skip", "no", "yes no")
    assert skip.meaning == "Let later jobs pass a job that does not fit."


def test_head() -> None:
    """Lines that continue are joined, numbered points stay apart, prose below is no part of it."""
    head = head_of("One line.\n\nPaper     A\n          b\nIdea      1. x\n          2. y\n\nMore prose.\n")
    assert head == {"Paper": "A b", "Idea": "1. x\n2. y"}


@pytest.mark.slow
def test_list_is_printed_without_the_policies() -> None:
    """What takes a second is not loaded; with a package that registers others, the registry is asked."""
    probe = (
        "import sys; from rota.cli.main import main\n"
        "sys.argv[1:] = ['systems', *sys.argv[1:]]\n"
        "try: main()\n"
        "except SystemExit: print('LOADED', *sys.modules)"
    )
    for words in ([], ["tiresias"], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-c", probe, *words], capture_output=True, text=True, check=True
        )
        shown, _, modules = done.stdout.partition("LOADED")
        assert "tiresias" in shown
        assert not {"numpy", "polars", "scipy", "pydantic"} & set(modules.split())


def test_policies_of_other_packages_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the index does not have all there is."""
    assert system_index.index() is not None
    monkeypatch.setattr(system_index, "entry_points", lambda group: [group])
    assert system_index.index() is None
    assert rota("systems").out.startswith("policy")


@pytest.mark.parametrize("between", [" ", ";", " + ", "|"])
def test_several_policies_are_joined_by_commas(between: str, folder: Path) -> None:
    """Asked whether one of them was meant, people would have typed it again."""
    done = rota("simulate", "jobs.csv", "--policy", between.join(["srtf", "fifo"]))
    assert done.status == 2
    assert done.err.endswith("expected commas between them: srtf,fifo\n")
