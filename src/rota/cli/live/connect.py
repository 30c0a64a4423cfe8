"""How a command reaches the controller: address, token, and one sentence if none answers."""

from __future__ import annotations

import functools
import getpass
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from rota.cli.shell import parameters_of, with_parameters
from rota.errors import InputError, RotaError

if TYPE_CHECKING:
    from rota.client import Client

P = ParamSpec("P")
R = TypeVar("R")
BAD_INPUT = frozenset({400, 404, 413, 422})
"""Status codes of bad input (exit 2); all others are failures (exit 1)."""
PANEL = "Connection"
SOCKET = "controller.sock"
UrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="ROTA_URL",
        show_envvar=False,
        rich_help_panel=PANEL,
        help="The controller; $ROTA_URL, or the socket in $ROTA_HOME if not given.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=PANEL,
        help="Who you are; $ROTA_TOKEN or $ROTA_HOME/tokens/ if not given.",
    ),
]


def live(command: Callable[Concatenate[Client, P], R]) -> Callable[..., R]:
    """`command(client, ...)` as a command that takes --url and --token-file instead of the client."""

    @functools.wraps(command)
    def connected(*args: Any, url: str | None = None, token_file: Path | None = None, **options: Any) -> R:
        from rota.cli.live.versions import told_apart
        from rota.client import Refused, Unreachable

        with connect(url, token_file) as client:
            try:
                with told_apart(client):
                    return command(client, *args, **options)
            except Unreachable as error:
                is_own = not url and client.address == str(home() / SOCKET)
                if is_own and not error.was_sent and not _listens(home() / SOCKET):
                    raise no_controller("no process listens at its socket") from None
                raise
            except Refused as refused:
                if refused.status in BAD_INPUT:
                    raise InputError(str(refused)) from None
                raise

    added = parameters_of(_options)
    wrapped: Callable[..., R] = with_parameters(connected, [*parameters_of(command, skip=1), *added])
    return wrapped


def _options(url: UrlOption = None, token_file: TokenFileOption = None) -> None:
    """Carries the options that `live` adds."""


def home() -> Path:
    """$ROTA_HOME, by default ~/.rota."""
    return Path(os.environ.get("ROTA_HOME") or "~/.rota").expanduser()


def connect(url: str | None = None, token_file: Path | None = None, timeout_s: float = 30.0) -> Client:
    """A client of the controller that was named, or of the one in $ROTA_HOME.  Raises RotaError."""
    from rota.client import Client

    token = _given_token(token_file)
    if url:
        return Client(url, token or _token_of_home(), timeout_s)
    path = home() / SOCKET
    if path.exists():
        # The kernel identifies the caller to the controller; a token is sent only if one is given.
        return Client(str(path), token, timeout_s)
    if address := recorded_url():
        return Client(address, token or _token_of_home(), timeout_s)
    raise no_controller(f"there is no {path}")


def no_controller(why: str) -> RotaError:
    """The error if no controller is there."""
    return RotaError(f"no rota is running here ({why}); start it with 'rota up'")


def _given_token(token_file: Path | None) -> str:
    if token_file is None:
        return os.environ.get("ROTA_TOKEN", "").strip()
    try:
        token = token_file.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        raise InputError.at("there is no such file", file=token_file, expected="a token") from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError.at(problem, file=token_file, expected="a token") from None
    if not token:
        raise InputError.at("is empty", file=token_file, expected="a token")
    return token


def _token_of_home() -> str:
    """The token of the user's own name in $ROTA_HOME/tokens, or else the first admin's; may be empty."""
    try:
        names = [getpass.getuser(), "admin"]
    except (KeyError, OSError):
        names = ["admin"]
    for name in names:
        path = home() / "tokens" / name
        if path.is_file() and os.access(path, os.R_OK):
            return path.read_text(encoding="ascii", errors="replace").strip()
    return ""


def recorded_url() -> str:
    """The address that the controller recorded in $ROTA_HOME, if its socket is elsewhere; may be empty."""
    try:
        recorded = json.loads((home() / "controller.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(recorded.get("url", "")) if isinstance(recorded, dict) else ""


def _listens(path: Path) -> bool:
    """True if a process accepts connections at a socket."""
    from rota.client.http import socket_address

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            with socket_address(path) as address:
                probe.connect(address)
        except OSError:
            return False
    return True


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Numbers and names of live jobs, if a controller answers immediately."""
    from rota.client import route

    try:
        with connect(os.environ.get("ROTA_URL"), timeout_s=0.5) as client:
            rows = client.call("GET", route("v1", "jobs"), query={"state": "PENDING,RUNNING,SUSPENDED"})
    except (RotaError, OSError):
        return []
    return [(row["id"], row["name"]) for row in rows if row["id"].startswith(incomplete)]


def complete_node(incomplete: str) -> list[str]:
    """Names of nodes, if a controller answers immediately."""
    from rota.client import route

    try:
        with connect(os.environ.get("ROTA_URL"), timeout_s=0.5) as client:
            rows = client.call("GET", route("v1", "nodes"))
    except (RotaError, OSError):
        return []
    return [row["name"] for row in rows if row["name"].startswith(incomplete)]


def job_id(given: str) -> str:
    """The argument.  Raises InputError if it is empty or has slashes, which paths of calls cannot hold."""
    if not _JOB_ID.fullmatch(given):
        raise InputError(f"there is no job {given!r}; ids look like 17 or 17_3")
    return given


def _job_ids(given: list[str]) -> list[str]:
    return [job_id(one) for one in given]


_JOB_ID = re.compile(r"[0-9]+(_[0-9]+)?")
JobArgument = Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job, callback=job_id)]
JobsArgument = Annotated[
    list[str], typer.Argument(metavar="JOB...", autocompletion=complete_job, callback=_job_ids)
]
