"""The options of a run are declared once: signatures, help and checks agree with the list."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from typing import get_type_hints

import pytest
import typer

import rota
from rota.api import run_options, simulation
from rota.api.no_effect import PolicyEffects
from rota.api.run_options import OPTIONS, RunOption, RunOptions
from rota.cli.app import app
from rota.scheduler.policy import parse_policy


def test_the_signature_of_simulate() -> None:
    """Names, annotations and defaults, which type checkers and `help()` read there."""
    signature = inspect.signature(simulation.simulate).parameters
    assert {name: (one.annotation, one.default) for name, one in signature.items() if name != "trace"} == {
        name: (one.type, one.default) for name, one in OPTIONS.items()
    }
    assert get_type_hints(simulation.simulate).keys() >= OPTIONS.keys(), "its types exist when it is called"


def test_the_documentation_of_simulate() -> None:
    named = re.findall(r"^ {4}([a-z_]+)  ", str(rota.simulate.__doc__), re.MULTILINE)
    assert [name for name in named if name in OPTIONS] == list(OPTIONS)


@pytest.mark.parametrize("command", ["simulate", "advise", "snapshot", "analyze"])
def test_the_options_of_commands(command: str) -> None:
    """Each option has its name and its default there, unless the command says otherwise."""
    group = typer.main.get_command(app)
    one = group.get_command(group.make_context("rota", [], resilient_parsing=True), command)  # type: ignore[attr-defined]
    taken = {option.name: option for option in OPTIONS.values() if command in option.commands}
    parameters = {parameter.name: parameter for parameter in one.params}
    assert taken.keys() <= parameters.keys()
    for name, option in taken.items():
        assert option.declarations[0].split("/")[0] in parameters[name].opts
        assert parameters[name].metavar == (option.metavar or None)


def test_what_only_python_takes() -> None:
    assert {name for name, one in OPTIONS.items() if not one.commands} == {"speed", "progress"}


def test_policies_answer_who_reads_an_option() -> None:
    effects = PolicyEffects([parse_policy("fifo")], loses_nodes=False)
    read_by = {one.read_by for one in OPTIONS.values() if one.read_by}
    assert {name for name in read_by if isinstance(getattr(effects, name), bool)} == read_by
    assert all(bool(one.read_by) == bool(one.unread) for one in OPTIONS.values())


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ({}, {}),
        ({"cluster": "8x8", "seed": 3, "baseline": "srtf"}, {}),
        ({"cluster": "site.yaml"}, {"cluster": "site.yaml"}),
        ({"costs": ""}, {"costs": ""}),
        ({"elastic": "", "faults": "", "knowledge": {}}, {}),
        ({"failures": False, "ideal": True, "retries": 0}, {"failures": False, "ideal": True, "retries": 0}),
        ({"limits": "enforce", "observation_noise": 0.1}, {"limits": "enforce", "observation_noise": 0.1}),
    ],
)
def test_what_a_record_keeps(given: dict[str, object], recorded: dict[str, object]) -> None:
    """Options that change the run; empty costs are free stops, stated."""
    assert RunOptions(**given).recorded() == recorded  # type: ignore[arg-type]


def test_flags() -> None:
    named: dict[str, RunOption] = dict(OPTIONS)
    assert [named[name].option for name in ("failures", "policies", "workers", "step_times")] == [
        "--no-failures",
        "--policy",
        "--workers",
        "--step-times",
    ]
    assert [field.name for field in fields(RunOptions)] == list(OPTIONS)


@pytest.mark.slow
def test_the_list_loads_nothing_heavy() -> None:
    code = f"import sys, {run_options.__name__}; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
