"""A key that stands twice in one place: nobody meant that the last one wins in silence."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.api.fidelity import run_case
from rota.client.job_file import read_job_file
from rota.errors import InputError
from rota.knowledge.goodput_file import read_goodputs
from rota.knowledge.hosts_file import read_hosts
from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster_file import load_cluster
from rota.model.once import json_once
from rota.server.config import read_yaml
from rota.traces import read


@pytest.mark.parametrize(
    ("text", "key", "row"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "a", 1),
        ('[{"a": 1},\n {"b": {}},\n {"c": {"d": 1,\n "d": 2}}]', "d", 3),
        ('[{"b": 1, "x": 1},\n{"a": [{"a": 1}, {"é": 1,\n"\\u00e9": 2}]}]', "é", 2),
        ('{"": 1, "": 2}', "", 1),
    ],
)
def test_the_key_and_the_row_of_its_object_are_named(text: str, key: str, row: int) -> None:
    with pytest.raises(InputError) as told:
        json_once(text, "jobs.json")
    assert str(told.value) == f"jobs.json, row {row}: {key!r} is given twice in one place"


def test_all_else_is_read_as_ever() -> None:
    """Whatever has no key twice is what `json.loads` says; what is no JSON is refused as there."""
    draw = random.Random(3)

    def value(depth: int) -> object:
        kinds: list[Callable[[], object]] = [
            lambda: draw.choice([None, True, -1.5, 7, "a\n", ""]),
            lambda: [value(depth - 1) for _ in range(draw.randrange(4))],
            lambda: {draw.choice("abcde"): value(depth - 1) for _ in range(draw.randrange(4))},
        ]
        return draw.choice(kinds if depth else kinds[:1])()

    for _ in range(200):
        made = value(4)
        assert json_once(json.dumps(made, indent=draw.choice([None, 1])), "x") == made
    for text in ("", "{", '{"a": 1,}', "[1] 2"):
        with pytest.raises(json.JSONDecodeError):
            json_once(text, "x")


PHILLY = (
    '[{"status": "Pass", "vc": "a", "jobid": "j1", "attempts": [],\n'
    '"submitted_time": "2017-10-01 08:00:00", "user": "u", "user": "v"}]'
)
CASES: list[tuple[str, Callable[[Path], object], str, int, str]] = [
    ("trace.json", lambda path: read(path, "philly-json"), PHILLY, 1, "'user'"),
    ("goodput.json", read_goodputs, '{"a": {"fits": {},\n "fits": {}}}', 1, "'fits'"),
    ("speeds.json", read_throughputs, '{"v100": {},\n "v100": {}}', 1, "'v100'"),
    ("hosts.json", read_hosts, '{"a_1": {"tput": 1,\n "tput": 2}}', 1, "'tput'"),
    (
        "config.yaml",
        lambda path: read_yaml(path, must_exist=True),
        "policy: fifo\npolicy: las\n",
        2,
        "policy",
    ),
    ("config.yaml", lambda path: read_yaml(path, must_exist=True), "a: {b: 1, b: 2}\n", 1, "b"),
    ("case.yaml", run_case, "name: a\ntrace: b\nname: c\n", 3, "name"),
    ("job.yaml", lambda path: read_job_file(path, {}), "command: a\nenv:\n  X: 1\n  X: 2\n", 4, "X"),
    ("cluster.yaml", load_cluster, "nodes:\n  - count: 1\n    gpus: 8\n    gpus: 4\n", 4, "gpus"),
]


@pytest.mark.parametrize(("name", "reader", "text", "row", "key"), CASES)
def test_every_file_of_a_user_is_looked_at(
    tmp_path: Path, name: str, reader: Callable[[Path], object], text: str, row: int, key: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as told:
        reader(path)
    assert f"row {row}: {key} is given twice in one place" in str(told.value)
    assert str(told.value).count("\n") == 0
