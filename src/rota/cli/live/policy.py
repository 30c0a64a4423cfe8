"""`rota policy`: the policy that decides, and the one that runs in its shadow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import TokenFileOption, UrlOption, live
from rota.cli.live.tables import moment, now_s, pairs_text, warn
from rota.cli.shell import JsonFlag, complete_system, print_json
from rota.model.words import ahead

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.views import PolicyView

app = typer.Typer(rich_markup_mode=None, add_completion=False)
PolicyArgument = Annotated[
    str, typer.Argument(metavar="NAME[:key=value,...]", autocompletion=complete_system)
]


@app.callback(invoke_without_command=True)
def policy(
    context: typer.Context,
    as_json: JsonFlag = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Show, swap or shadow the policy that decides.

    \b
    Examples:
      rota policy
      rota policy set tiresias
      rota policy set tiresias:limits=3600/36000
      rota policy shadow srtf
      rota policy shadow off
    """
    if context.invoked_subcommand is None:
        _policy(url=url, token_file=token_file, as_json=as_json)


@live
def _policy(client: Client, as_json: bool) -> None:
    answer = client.call("GET", "/v1/policy")
    _warn(answer)
    _show(answer, as_json)


def _warn(answer: Any) -> None:
    for warning in answer.get("warnings", ()):
        warn(warning)


@app.command("set")
@live
def swap(client: Client, name: PolicyArgument, as_json: JsonFlag = False) -> None:
    """Let another policy decide from now on.

    \b
    Examples:
      rota policy set tiresias
      rota policy set tiresias:limits=3600/36000

    No job is lost; it begins with empty memory, and its first decision preempts no more jobs than its
    second would.  Who swapped it and when is on record (`rota events`).  Admins only.
    """
    answer = client.call("PUT", "/v1/policy", {"policy": name})
    _warn(answer)
    _show(answer, as_json)


@app.command("shadow")
@live
def shadow(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="NAME|off", autocompletion=complete_system)],
    as_json: JsonFlag = False,
) -> None:
    """Run a policy beside the real one, on the same moments, without acting.

    \b
    Examples:
      rota policy shadow srtf
      rota policy shadow off

    `rota policy` then says what it would do that the real one does not.  Admins only.
    """
    if name == "off":
        answer = client.call("DELETE", "/v1/policy/shadow")
    else:
        answer = client.call("PUT", "/v1/policy/shadow", {"policy": name})
    _show(answer, as_json)


def _show(answer: Any, as_json: bool) -> None:
    from rota.wire.views import PolicyView

    if as_json:
        print_json(answer)
    else:
        typer.echo(policy_text(PolicyView.model_validate(answer)), nl=False)


def policy_text(view: PolicyView) -> str:
    """The policy that decides, since when, how fast; and what its shadow would do."""
    since = f"{moment(view.since_s)} ({ahead(view.since_s, now_s())})" + (
        f", by {view.by}" if view.by else ""
    )
    text = pairs_text(
        [
            ("policy", view.policy),
            ("since", since),
            ("knows", ", ".join(f"{what} ({source})" for what, source in sorted(view.knowledge.items()))),
            ("decisions", str(view.decisions)),
            ("last took", "" if view.last_ms is None else f"{view.last_ms:.1f} ms"),
            ("late or failed", str(view.late) if view.late else ""),
            ("trouble", view.trouble),
            ("shadow", view.shadow),
        ]
    )
    if not view.shadow:
        return text
    if not view.shadow_would:
        return text + f"{view.shadow} would do now what {view.policy} does\n"
    would = "".join(f"  {sentence}\n" for sentence in view.shadow_would)
    return text + f"{view.shadow} would do now what {view.policy} does not:\n{would}"
