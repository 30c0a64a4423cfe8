"""The options of a run (`rota.api.run_options`) as parameters of commands, and `--costs measured`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rota.api.run_options import OPTIONS, RunOption
from rota.cli.shell import (
    complete_format,
    complete_policy,
    complete_semantics,
    parameters_of,
    with_parameters,
)
from rota.errors import InputError

if TYPE_CHECKING:
    from rota.client import Client
    from rota.worlds.simulated.costs import Costs

R = TypeVar("R")
TraceArgument = Annotated[Path, typer.Argument(metavar="TRACE", help="A file in any known format.")]
MEASURED = "measured"
_COMPLETE = {"policies": complete_policy, "semantics": complete_semantics, "format": complete_format}
_TYPES: Mapping[str, Any] = {
    "Policies": list[str],
    "bool": bool,
    "float": float,
    "int": int,
    "int | None": int | None,
}
"""Annotations of options that are not read as text."""
_LAST = ("format", "workers")
"""Options that stand near the end of `--help`, before `--json`."""


def takes_run_options(
    command: str, **changes: Mapping[str, Any]
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """A decorator for a command; its parameter `options` receives the options of a run, by name.

    They take the place of that parameter.  `changes` has fields of `RunOption` that differ in this
    command, by option.
    """
    taken = [
        _parameter(option, **changes.get(name, {}))
        for name, option in OPTIONS.items()
        if command in option.commands
    ]

    def of(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def called(**given: Any) -> R:
            options = {one.name: _value(one.name, given.pop(one.name)) for one in taken}
            return function(options=options, **given)

        own = parameters_of(function)
        here = [one.name for one in own].index("options")
        json = [one.name for one in own].index("as_json")
        before = [one for one in taken if one.name not in _LAST]
        last = [one for one in taken if one.name in _LAST]
        parameters = [*own[:here], *before, *own[here + 1 : json], *last, *own[json:]]
        wrapped: Callable[..., R] = with_parameters(called, parameters)
        return wrapped

    return of


def _parameter(option: RunOption, **changes: Any) -> inspect.Parameter:
    """The parameter of a command that typer makes into the option."""
    default = changes.get("default", option.default)
    default = (list(default) or None) if isinstance(default, tuple) else default
    text: Any = Path if option.metavar == "FILE" else str
    kind = _TYPES.get(option.type, text if isinstance(default, str) else text | None)
    said = typer.Option(
        *option.declarations,
        metavar=option.metavar or None,
        help=changes.get("help", option.help),
        autocompletion=_COMPLETE.get(option.name),
    )
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, said]
    )


def _value(name: str, value: Any) -> Any:
    """The typed value as the Python API takes it."""
    if name == "costs":
        return costs_of(value)
    return OPTIONS[name].default if value is None else value


def costs_of(text: str | None) -> str | Costs | None:
    """`text` itself; of `measured`, `measured:HOME` and `measured:URL` the costs of that running cluster."""
    if text is None or text.partition(":")[0] != MEASURED:
        return text
    from rota.wire.views import CostView
    from rota.worlds.simulated.measured_costs import measured_costs

    with _client(text.partition(":")[2]) as client:
        answer = client.call("GET", "/v1/costs")
        return measured_costs([CostView.model_validate(one) for one in answer], client.address)


def _client(where: str) -> Client:
    """A client of the cluster with the home or URL `where`; if it is empty, as other commands find theirs."""
    from rota.cli.live.connect import SOCKET, connect
    from rota.client import Client

    if not where or "://" in where:
        return connect(where or None)
    socket = Path(where).expanduser() / SOCKET
    if not socket.exists():
        raise InputError.at(
            f"no rota is running in {where}: there is no {socket}",
            field="--costs",
            expected="measured, measured:URL, or measured:HOME with the ROTA_HOME of a cluster that is up",
        )
    return Client(str(socket))
