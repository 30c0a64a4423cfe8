"""`rota user`: the users of the cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import live
from rota.cli.live.tables import table_text, warn
from rota.cli.shell import JsonFlag, check_file, print_json
from rota.errors import InputError

if TYPE_CHECKING:
    from rota.client import Client

app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the token here, for its owner to read only; not printed then."),
]


@app.callback()
def user() -> None:
    """Add, list and remove users.

    \b
    Examples:
      rota user add alice --tenant vision/alice
      rota user ls
    """


@app.command("add")
@live
def add(
    client: Client,
    name: NameArgument,
    admin: Annotated[bool, typer.Option("--admin", help="May do everything, to all jobs.")] = False,
    viewer: Annotated[bool, typer.Option("--viewer", help="May look, and change nothing.")] = False,
    tenant: Annotated[
        str, typer.Option(metavar="PATH", help="Whose jobs are theirs too; NAME if not given.")
    ] = "",
    account: Annotated[
        str, typer.Option(metavar="LOGIN", help="The machine's account that their programs run as.")
    ] = "",
    out: OutOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Add a user and print the token, which is shown only now.

    \b
    Examples:
      rota user add alice --tenant vision/alice
      rota user add bob --account bob --out bob.token
      rota user add wall --viewer                   # for a screen on the wall, or a manager

    The user sets ROTA_TOKEN to it, or puts it into a file for --token-file.  Admins only.
    """
    _check_new(out)
    body = {"name": name, "admin": admin, "tenant": tenant, "account": account}
    if viewer:
        body["viewer"] = True
    _show_token(client.call("POST", "/v1/users", body), out, as_json)


@app.command("token")
@live
def token(client: Client, name: NameArgument, out: OutOption = None, as_json: JsonFlag = False) -> None:
    """Make a new token; the user's old ones are worth nothing from then on.

    \b
    Example:
      rota user token alice --out alice.token

    For admins, and for users themselves.
    """
    from rota.client import route

    if out is not None:
        check_file(out)
    _show_token(client.call("POST", route("v1", "users", name, "token")), out, as_json)


@app.command("ls")
@live
def ls(client: Client, as_json: JsonFlag = False) -> None:
    """List the users.

    \b
    Example:
      rota user ls

    Admins only.
    """
    answer = client.call("GET", "/v1/users")
    if as_json:
        print_json(answer)
        return
    rows = [(u["name"], u["tenant"], _role(u), u["account"] or "-") for u in answer]
    typer.echo(table_text("~USER ~TENANT ROLE ~ACCOUNT", rows), nl=False)


@app.command("rm")
@live
def rm(client: Client, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Remove a user: tokens are void, running jobs go on, and no job starts any more.

    \b
    Example:
      rota user rm alice

    Admins only.
    """
    from rota.client import route

    client.call("DELETE", route("v1", "users", name))
    print_json({"removed": name}) if as_json else typer.echo(f"user {name} is removed")


@app.command("join-token")
@live
def join_token(
    client: Client,
    valid: Annotated[str, typer.Option(metavar="TIME", help="How long machines may join with it.")] = "1h",
    out: OutOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a token with which machines join: rota agent --join URL --token-file FILE.

    \b
    Example:
      rota user join-token --valid 10m --out join.token

    Admins only.
    """
    from rota.model.units import parse_duration

    body = {"lifetime_s": parse_duration(valid, "--valid")}
    if out is not None:
        check_file(out)
    answer = _kept(client.call("POST", "/v1/agents/token", body), out)
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"token in {out}" if out is not None else answer["token"])


def _show_token(answer: dict[str, Any], out: Path | None, as_json: bool) -> None:
    """The token once: to a file of its owner, or on standard output."""
    user, answer = answer["user"], _kept(answer, out)
    for warning in answer.get("warnings", ()):
        warn(warning)
    if as_json:
        print_json(answer)
        return
    role = _role(user)
    typer.echo(f"{role} {user['name']} of tenant {user['tenant']}", err=out is None)
    typer.echo(f"token in {out}" if out is not None else answer["token"])


def _kept(answer: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """The answer; its token has gone into a file of its owner if one was named."""
    if out is None:
        return answer
    from rota.model.atomic import write_secret

    write_secret(out, answer["token"])
    return {**{name: value for name, value in answer.items() if name != "token"}, "token_file": str(out)}


def _check_new(out: Path | None) -> None:
    """Refuse, before a user is made, a file that may hold another token: tokens cannot be shown again."""
    if out is None:
        return
    check_file(out)
    if os.path.lexists(out):
        raise InputError.at(f"{out} is there already", field="--out", expected="the name of a new file")


def _role(user: dict[str, Any]) -> str:
    """`admin`, `viewer` or `user`."""
    return "admin" if user["admin"] else "viewer" if user.get("viewer") else "user"
