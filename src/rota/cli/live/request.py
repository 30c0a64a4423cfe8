"""The options of `rota submit` and `rota run`, and the job they describe."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from rota.cli.live.caller import pass_on
from rota.cli.shell import parameters_of, with_parameters
from rota.errors import InputError
from rota.model.job_columns import COLUMNS, DEVICES, NAMES, WHEN

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.job import JobSpec

P = ParamSpec("P")
R = TypeVar("R")
Text = str | None


@dataclass(frozen=True)
class Request:
    """A submission as a user typed it."""

    words: list[str]
    """A job file, a program with its arguments, or the arguments of an sbatch script."""
    options: dict[str, Any]
    """Value of each option that names a property of a job, by that name; None if not given."""
    env: list[str]
    env_all: bool
    sbatch: Path | None
    key: str | None


def _option(meta: str, help: str, panel: str, *names: str) -> Any:
    return typer.Option(*names, metavar=meta, help=help, rich_help_panel=panel)


_W, _R, _E = WHEN, "Running and stopping", NAMES
_PANELS = (None, DEVICES, _W, _R, _E)
"""Panels in the order of `--help`."""


def _ask(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="JOB.yaml | -- PROGRAM ARGUMENT", help="What to run.")
    ] = None,
    sbatch: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Submit an sbatch script; words behind it are its arguments."),
    ] = None,
    key: Annotated[
        Text, typer.Option(metavar="KEY", help="Submit nothing if a job was submitted with this key before.")
    ] = None,
    exclude_node: Annotated[Text, _option("NAMES", "On none of these nodes: n3,n4.", DEVICES)] = None,
    begin: Annotated[Text, _option("MOMENT", "Not before: +10m, 18:00.", _W)] = None,
    after: Annotated[
        list[str] | None, _option("JOB[:ok|any|failed]", "When that job has ended so; may be repeated.", _W)
    ] = None,
    array: Annotated[Text, _option("INDEXES", "A job for each: 1-20, 1,3,7, 0-100:10, 1-20%4.", _W)] = None,
    hold: Annotated[bool | None, _option("", "Do not start before `rota release`.", _W, "--hold")] = None,
    ranks: Annotated[Text, _option("gpu|node", "A process for each device (default) or node.", _R)] = None,
    workdir: Annotated[Text, _option("DIR", "Where it runs; here if not given.", _R)] = None,
    output: Annotated[
        Text, _option("FILE", "Write what it prints there too; %j job, %a index, %t rank, %N node.", _R)
    ] = None,
    error: Annotated[Text, _option("FILE", "Its standard error; with the rest if not given.", _R)] = None,
    output_limit: Annotated[
        Text, _option("SIZE", "Most of each such file: 1GiB; beginning and end are kept.", _R)
    ] = None,
    grace: Annotated[Text, _option("DURATION", "From SIGTERM to SIGKILL; 120s if not given.", _R)] = None,
    notice: Annotated[Text, _option("SIGNAL@DURATION", "Signal ahead of SIGTERM: USR1@60s.", _R)] = None,
    checkpoint: Annotated[
        Text, _option("auto|own|none", "Whether it saves itself when told to go.", _R)
    ] = None,
    requeue_code: Annotated[
        Text, _option("CODE", "Exit code for: run me again; 85 if not given.", _R)
    ] = None,
    retries: Annotated[Text, _option("N", "Attempts after failures of machines; 3 if not given.", _R)] = None,
    user_retries: Annotated[
        Text, _option("N", "Attempts after failures of its own; 0 if not given.", _R)
    ] = None,
    trial: Annotated[bool | None, _option("", "First a minute on one device.", _R, "--trial")] = None,
    accept_later_deadline: Annotated[
        bool | None,
        _option("", "Take a later deadline if its own cannot be kept.", _W, "--accept-later-deadline"),
    ] = None,
    idle_after: Annotated[
        Text, _option("DURATION|never", "How long it may do nothing; as the cluster has it.", _R)
    ] = None,
    preemptible: Annotated[
        bool | None, _option("", "Whether others may take its devices.", _R, "--preempt/--no-preempt")
    ] = None,
    self_fence: Annotated[
        bool | None, _option("", "Stop where the controller is out of reach.", _R, "--self-fence")
    ] = None,
    name: Annotated[Text, _option("NAME", "What it is called.", _E)] = None,
    env: Annotated[
        list[str] | None,
        _option("NAME[=VALUE]", "Set it, or pass yours on; may be repeated.", _E, "--env", "-e"),
    ] = None,
    env_all: Annotated[bool, _option("", "Pass your whole environment on.", _E, "--env-all")] = False,
    comment: Annotated[Text, _option("TEXT", "For the record.", _E)] = None,
) -> None:
    """Carries the options that `describes_job` adds to the options of job columns."""


def _options() -> list[inspect.Parameter]:
    """Every option of a job, by panel: first from its columns, then from `_ask`."""
    options = {column.option.name: column.option for column in COLUMNS if column.option}
    said = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[Text, _option(one.metavar, one.help, one.panel)],
        )
        for name, one in options.items()
    ]
    return sorted([*said, *parameters_of(_ask)], key=lambda one: _PANELS.index(_panel(one)))


def _panel(parameter: inspect.Parameter) -> str | None:
    (option,) = parameter.annotation.__metadata__
    return getattr(option, "rich_help_panel", None)


def describes_job(command: Callable[Concatenate[Client, Request, P], R]) -> Callable[..., R]:
    """`command(client, request, ...)` as one that takes every option of a job instead of the request."""
    theirs = {one.name: one for one in _options()}

    @functools.wraps(command)
    def described(client: Client, *args: Any, **given: Any) -> R:
        asked = {name: given.pop(name) for name in theirs}
        words, env = asked.pop("words") or [], asked.pop("env") or []
        rest = {name: asked.pop(name) for name in ("env_all", "sbatch", "key")}
        return command(client, Request(words=words, options=asked, env=env, **rest), *args, **given)

    client, *_ = inspect.signature(command).parameters.values()
    words, *others = theirs.values()
    wrapped: Callable[..., R] = with_parameters(
        described, [client, words, *parameters_of(command, skip=2), *others]
    )
    return wrapped


def make_job(request: Request, caller: Mapping[str, str], folder: str) -> tuple[JobSpec, list[str]]:
    """The job that was asked for, and warnings; `caller` is the environment, `folder` where we are.

    Options override the file, and the file overrides the inherited environment.  Raises InputError.
    """
    from rota.client.fields import environment, make_spec, merge, read_fields
    from rota.client.job_file import is_job_file, read_job_file
    from rota.client.missing_here import missing_here
    from rota.client.sbatch import read_sbatch

    if request.key == "":
        raise InputError.at("is empty, and would not tell submissions apart", field="--key")
    words, warnings, passed = request.words, [], pass_on(caller, "ALL" if request.env_all else "")
    if request.sbatch is not None:
        script = read_sbatch(request.sbatch, words, folder)
        warnings, base = script.warnings, script.fields
        passed = pass_on(caller, "ALL" if request.env_all else script.export)
    elif words and is_job_file(words[0]):
        base = read_job_file(words[0], caller)
        base["command"] = _with_arguments(base.get("command", []), words[1:])
    elif words:
        base = {"command": words}
    else:
        raise InputError(
            "there is nothing to run; expected `-- PROGRAM ARGUMENT...`, a job file or --sbatch FILE"
        )
    layers = [{"workdir": folder, "env": passed}, base]
    for name, value in request.options.items():
        option = "--" + name.replace("_", "-")
        if name == "after" and value:
            layers.append(read_fields(name, ",".join(value), option))
        elif isinstance(value, str):
            layers.append(read_fields(name, value, option))
        elif isinstance(value, bool):
            layers.append({name: value})
    layers.append({"env": dict(environment(text, "--env", caller) for text in request.env)})
    fields = merge(*layers)
    fields["workdir"] = str(Path(folder, fields["workdir"]))
    spec = make_spec(fields)
    return spec, [*warnings, *missing_here(spec)]


def _with_arguments(command: list[str], words: list[str]) -> list[str]:
    """The command with the arguments behind a job file; in shell lines they are `$1` and so on."""
    if words and command[1:2] == ["-c"]:
        return [*command, "rota", *words]
    return [*command, *words]
