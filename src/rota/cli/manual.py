"""The man page, printed from the help of every command, as `docs/cli.md` is."""

from __future__ import annotations

from typing import Any

import typer

from rota import __version__

WIDTH = 76
HEAD = """\
.TH ROTA 1 "" "rota {version}" "User Commands"
.SH NAME
rota \\- a scheduler for deep-learning GPU clusters
.SH SYNOPSIS
.B rota
.I COMMAND
.RI [ OPTION ]...
.RI [ ARGUMENT ]...
"""
TAIL = """\
.SH ENVIRONMENT
.TP
.B ROTA_HOME
Folder of the state, ~/.rota if not set.
.TP
.B ROTA_URL
Address of the controller; the socket in ROTA_HOME if not set.
.TP
.B ROTA_TOKEN
Who you are, for a controller that is reached by its address.
.TP
.B ROTA_SETTING
Any setting that
.B rota config
lists, such as ROTA_MIN_RUN=30s.
.SH FILES
.TP
.I $ROTA_HOME/config.yaml
Settings of a live cluster.
.TP
.I $ROTA_HOME/rota.db
The state, unless a database is named.
.SH EXIT STATUS
0 done, 1 failed, 2 bad input, 130 interrupted.
"""


def man() -> None:
    """Print the man page: this help, as `man` reads it.

    \b
    Examples:
      rota man | man -l -
      rota man > ~/.local/share/man/man1/rota.1
    """
    typer.echo(man_page(), nl=False)


def man_page() -> str:
    """`rota.1`, as `man` reads it."""
    from rota.cli.app import app

    command = typer.main.get_command(app)
    context = command.make_context("rota", [], resilient_parsing=True, terminal_width=WIDTH)
    lines = [HEAD.format(version=__version__).rstrip(), ".SH DESCRIPTION", *_literal(_help(command, "rota"))]
    lines.append(".SH COMMANDS")
    for name in command.list_commands(context):  # type: ignore[attr-defined]
        lines += _sections(command.get_command(context, name), f"rota {name}")  # type: ignore[attr-defined]
    return "\n".join([*lines, TAIL.rstrip(), ""])


def _sections(command: Any, path: str) -> list[str]:
    """A section per command, groups before what is in them."""
    lines = [f'.SS "{path}"', *_literal(_help(command, path))]
    context = command.make_context(path, [], resilient_parsing=True, terminal_width=WIDTH)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        lines += _sections(command.get_command(context, name), f"{path} {name}")
    return lines


def _help(command: Any, path: str) -> str:
    context = command.make_context(
        path, [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    )
    return str(command.get_help(context)).rstrip()


def _literal(text: str) -> list[str]:
    """`text` as it stands, between two requests."""
    return [".nf", *(_escaped(line.rstrip()) for line in text.splitlines()), ".fi"]


def _escaped(line: str) -> str:
    """No letter that troff takes for a request, an escape or another dash."""
    plain = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    plain = plain.replace("~", "\\(ti").replace("^", "\\(ha")
    return f"\\&{plain}" if plain.startswith(".") else plain
