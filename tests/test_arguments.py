"""What callers of the Python API hand over: whatever it is, one sentence names the argument."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rota
from rota.api.analysis import analyze
from rota.arguments import TEXT, WHOLE, is_file, is_number, is_whole, shown, takes
from rota.errors import InputError

PUBLIC: list[Callable[..., Any]] = [
    rota.advise,
    rota.cluster_from,
    rota.describe,
    rota.generate,
    rota.read,
    rota.replay,
    rota.simulate,
    rota.snapshot,
    rota.write,
    analyze,
]
NEEDED: dict[str, object] = {"trace": "trace.csv", "path": "a.csv", "text": "auto", "jobs": 1, "at_s": 0.0}


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(function, name, id=f"{function.__name__}-{name}")
        for function in PUBLIC
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
    ],
)
def test_every_argument_is_looked_at(function: Callable[..., Any], name: str) -> None:
    """Of every function, every argument: an object that is nothing of what it may be."""
    parameters = signature(function).parameters.values()
    needed = {**NEEDED, "trace": rota.generate(2)} if function is rota.write else NEEDED
    given = {one.name: needed.get(one.name, "fifo") for one in parameters if one.default is Parameter.empty}
    given.pop("world", None)
    with pytest.raises(InputError) as told:
        function(**{**given, name: object()})
    assert str(told.value).startswith(f"argument '{name}': an object of type object is no ")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"costs": "x"}, "argument 'costs': 'x' is not a setting; expected key=value,key=value"),
        ({"policies": "fifo,fifo"}, "argument 'policies': 'fifo' is named twice; expected each policy once"),
        ({"epochs": "x"}, "argument 'epochs': says half of how fast jobs are; expected --step-times with it"),
        ({"costs": "start=x"}, "argument 'costs' start: 'x' is not a duration; expected a unit"),
    ],
)
def test_what_an_argument_says_is_told_by_its_name(given: dict[str, Any], sentence: str) -> None:
    """A caller of the API has written no options; who typed a command reads of those."""
    with pytest.raises(InputError) as told:
        rota.simulate(rota.generate(2), **{"policies": "fifo", "cluster": "1x1", **given})
    assert str(told.value).startswith(sentence)
    assert str(told.value.in_command).startswith("--")


def test_an_option_that_is_no_argument_stays() -> None:
    text = "--to: names no file; expected --from with it, as in `copy --to=a --from=b`"
    error = InputError(text)
    error.name_arguments(["from"])
    assert (str(error), error.in_command) == (text, None)
    error.name_arguments(["to", "from"])
    assert (str(error), error.in_command) == (f"argument 'to'{text[4:]}", text)


@takes(count=WHOLE, word=TEXT.or_none())
def called(count: int, *, word: str | None = None) -> str:
    """Says what it got."""
    return f"{count} {word}"


def test_what_fits_is_passed_on() -> None:
    assert called(2) == "2 None"
    assert called(count=int(np.int64(3)), word="x") == "3 x"
    assert called.__doc__ == "Says what it got."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"count": 1, "words": "x"},
            r"^called\(\) got an unexpected keyword argument 'words'; did you mean 'word'\?$",
        ),
        ({"count": 1, "zebra": "x"}, r"^called\(\) got an unexpected keyword argument 'zebra'$"),
        ({}, r"^called\(\) missing a required argument: 'count'$"),
    ],
)
def test_a_call_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        called(**given)


def test_kinds() -> None:
    assert [is_whole(one) for one in (1, np.int64(1), True, 1.0, "1", None)] == [True, True, *[False] * 4]
    assert [is_number(one) for one in (1, 0.5, np.float32(1), True, "1")] == [True, True, True, False, False]
    assert [is_file(one) for one in ("a", Path("a"), b"a", 1, None)] == [True, True, False, False, False]


def test_what_is_large_or_nameless_is_named_by_its_type() -> None:
    assert shown("a" * 30) == repr("a" * 30)
    assert shown("a" * 100) == "an object of type str"
    assert shown(object()) == "an object of type object"


def test_a_generated_load_is_relative_to_the_cluster_as_a_simulation_names_it(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("nodes:\n  - {count: 4, gpus: 8}\n", encoding="utf-8")
    spans = [
        rota.generate(60, load=0.9, cluster=cluster).facts["span_s"]
        for cluster in (32, "4x8", rota.cluster_from("4x8"), file)
    ]
    assert len(set(spans)) == 1


def test_a_file_can_be_described(tmp_path: Path) -> None:
    trace = rota.generate(20)
    rota.write(trace, tmp_path / "t.csv")
    assert rota.describe(tmp_path / "t.csv").jobs == rota.describe(trace).jobs == 20
