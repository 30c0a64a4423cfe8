"""`rota systems`: the registry as a table, as JSON, and one system in full."""

from __future__ import annotations

import json

from shell_play import rota

from rota.cli.catalogue import head_of, parameters_of
from rota.policies.fifo.system import FifoParameters
from rota.scheduler.policy import systems


def test_list() -> None:
    done = rota("systems")
    assert done.status == 0
    assert all(name in done.out for name in systems())


def test_json() -> None:
    listed = json.loads(rota("systems", "--json").out)
    assert [one["name"] for one in listed] == list(systems())


def test_one() -> None:
    done = rota("systems", "fifo")
    assert done.out.startswith("fifo: Serve in order of submission")
    assert "Jobs start in the order in which they were submitted" in " ".join(done.out.split())
    assert json.loads(rota("systems", "fifo", "--json").out)["parameters"][0]["name"] == "skip"


def test_priorities() -> None:
    """Who looks at them: the registry says so."""
    listed = json.loads(rota("systems", "--json").out)
    assert {one["name"] for one in listed if one["heeds_priority"]} == {"fifo", "partition"}
    assert "higher ones first" in rota("systems", "fifo").out
    assert "has no effect" in rota("systems", "tiresias").out


def test_unknown() -> None:
    done = rota("systems", "srft")
    assert (done.status, done.err) == (2, "rota: there is no policy 'srft'; did you mean 'srtf'?\n")


def test_parameters() -> None:
    """Name, default and meaning come from the dataclass and the strings under its fields."""
    skip = parameters_of(FifoParameters)[0]
    assert (skip.name, skip.default, skip.values) == ("skip", "no", "yes no")
    assert skip.meaning == "Pass by a job that does not fit instead of waiting for it."


def test_head() -> None:
    """Lines that continue are joined, numbered points stay apart, prose below is no part of it."""
    head = head_of("One line.\n\nPaper     A\n          b\nIdea      1. x\n          2. y\n\nMore prose.\n")
    assert head == {"Paper": "A b", "Idea": "1. x\n2. y"}
