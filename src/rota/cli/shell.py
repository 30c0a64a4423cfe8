"""What all commands share: consoles, JSON, checks of output files, parameters, completion."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.terminal import WIDTH
from rota.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

LIVE_KNOWLEDGE_HELP = (
    "duration=user (default), measured or predicted; throughput=measured (default) or assumed; "
    "scaling=measured (default) or predicted; hosts=user[:FILE] (default) or assumed; "
    "servers=user[:FILE] (default) or assumed."
)
"""Entries of the registry of knowledge on live clusters; written out, since the registry loads NumPy.  A test
holds it to the registry."""

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def console(width: int = WIDTH) -> Console:
    """The console for results: `width` columns wide, or as wide as the terminal if there is one.

    Text is printed as it is: brackets and colons in paths and names are neither styles nor emoji.
    """
    from rich.console import Console

    class Screen(Console):
        """Passes a closed pipe on to the command, which ends quietly; rich would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    columns = None if sys.stdout.isatty() else width
    return Screen(width=columns, highlight=False, soft_wrap=False, markup=False, emoji=False)


def print_json(value: object) -> None:
    """`value` as JSON on standard output."""
    typer.echo(json_text(value, indent=2))


def json_text(value: object, indent: int | None = None) -> str:
    """`value` as JSON; infinity and NaN become null, control characters are escaped."""
    text = json.dumps(finite(value), indent=indent, ensure_ascii=False, default=str)
    return _CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


def finite(value: Any) -> Any:
    """`value` without numbers that JSON does not know."""
    if isinstance(value, dict):
        return {str(key): finite(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [finite(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_folder(folder: Path, field: str = "--out") -> None:
    """Refuse, before any work, a folder that could not be written."""
    place = folder
    while not place.exists() and place.parent != place:
        place = place.parent
    if not place.is_dir():
        raise InputError.at(f"{place} is a file", field=field, expected="a folder")
    if not os.access(place, os.W_OK):
        raise InputError.at(f"{place} may not be written", field=field, expected="a folder of yours")


def check_file(path: Path, field: str = "--out") -> None:
    """Refuse, before any work, a file that could not be written because it is a folder or has none."""
    if path.is_dir():
        raise InputError.at(f"{path} is a folder", field=field, expected="the name of a file")
    check_folder(path.absolute().parent, field)


_CONTROLS = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters that JSON does not escape."""


def parameters_of(function: Callable[..., Any], skip: int = 0) -> list[inspect.Parameter]:
    """The parameters of `function` without the first `skip`; the types of those may not exist at run time."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    names = getattr(function, "__globals__", {})
    return [
        one.replace(
            annotation=eval(one.annotation, names) if isinstance(one.annotation, str) else one.annotation
        )
        for one in parameters
    ]


def with_parameters(function: Any, parameters: list[inspect.Parameter]) -> Any:
    """`function` with the signature of one that takes these parameters by name."""
    by_name = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    function.__signature__ = inspect.Signature(by_name)
    function.__annotations__ = {}
    del function.__wrapped__
    return function


def complete_policy(incomplete: str) -> list[str]:
    """Names that continue a comma-separated list of policies."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_system(last)]


def complete_system(incomplete: str) -> list[str]:
    """Names of policies."""
    from rota.cli.system_index import index

    known = index()
    if known is None:  # other packages have policies too
        from rota.scheduler.policy import systems

        return [name for name in systems() if name.startswith(incomplete)]
    return [name for name in known.systems if name.startswith(incomplete)]


def complete_format(incomplete: str) -> list[str]:
    """Names of trace formats."""
    from rota.traces import formats

    return [format.name for format in formats() if format.name.startswith(incomplete)]


def complete_semantics(incomplete: str) -> list[str]:
    """Names of semantics presets."""
    from rota.worlds.simulated.semantics import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]
