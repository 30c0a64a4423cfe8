"""`rota agent` and `rota controller`: parts of a cluster in the foreground, for service managers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.live.connect import home
from rota.errors import InputError

Text = str | None


def _token_in(file: Path) -> str:
    """A join token; InputError if there is none."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise InputError.at(
            f"cannot be read ({error.strerror})", file=file, expected="a join token"
        ) from None
    if not text.strip():
        raise InputError.at("is empty", file=file, expected="a join token")
    return text.strip()


def agent(
    join: Annotated[str, typer.Option("--join", metavar="URL", help="The controller.")],
    token: Annotated[
        Text, typer.Option("--token", envvar="ROTA_JOIN_TOKEN", metavar="TOKEN", help="A join token.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with it, which shows in no list of processes; - is stdin."),
    ] = None,
    devices: Annotated[str, typer.Option(metavar="SPEC", help="auto, nvidia or cpu:4.")] = "auto",
    node: Annotated[str, typer.Option(metavar="NAME", help="Name of this node.")] = "",
    address: Annotated[str, typer.Option(metavar="ADDRESS", help="Where other nodes reach its jobs.")] = "",
    folder: Annotated[
        Path | None, typer.Option("--home", metavar="DIR", help="The agent's folder; $ROTA_HOME/agent.")
    ] = None,
    checkpoints: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for checkpoints that all machines see.")
    ] = None,
    allow_root: Annotated[
        bool,
        typer.Option("--allow-root", help="As root, let jobs of users without an account run as root."),
    ] = False,
) -> None:
    """Let this machine take part in a cluster, in the foreground, until SIGTERM; jobs run on.

    `rota user join-token`, on the controller's machine, makes the token.
    """
    from rota.engines.rota.main import Options, run

    if token_file is not None:
        token = _token_in(token_file)
    elif token and token != os.environ.get("ROTA_JOIN_TOKEN"):
        typer.echo("rota: every user of this machine sees --token in `ps`; use --token-file", err=True)
    options = Options(
        home=(folder or home() / "agent").absolute(),
        controller=join,
        join_token=token or "",
        devices=devices,
        node=node,
        address=address,
        checkpoints=checkpoints,
        allow_root=allow_root,
        on_ready=lambda name: typer.echo(f"node {name} takes part", err=True),
    )
    raise typer.Exit(run(options))


def controller(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings; $ROTA_HOME/config.yaml if not given."),
    ] = None,
) -> None:
    """Run the controller in the foreground, until SIGTERM; jobs run on.

    \b
    Examples:
      ROTA_HOST=0.0.0.0 ROTA_PORT=7682 rota controller

    For service managers and containers; `rota up` starts one in the background.  Settings are those of `rota
    config`: environment, then file.
    """
    from rota.cli.background import make_home
    from rota.cli.service import check_server
    from rota.model.one_thread import use_one_thread

    check_server()
    where = home().absolute()
    make_home(where)
    use_one_thread()
    from rota.server.main import main

    arguments = ["--home", str(where), *(["--config", str(config.absolute())] if config else [])]
    raise typer.Exit(main(arguments))
