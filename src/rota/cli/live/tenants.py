"""`rota tenants`: what each tenant is entitled to and has; changing that on a running cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import TokenFileOption, UrlOption, home, live
from rota.cli.live.tables import moment, now_s, table_text, wrapped
from rota.cli.shell import JsonFlag, print_json
from rota.errors import InputError
from rota.model.units import plural
from rota.model.words import ahead, count, hours

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.tenants import TenantsMoved, TenantsView, TenantView

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def tenants(
    context: typer.Context,
    as_json: JsonFlag = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """List what each tenant is entitled to and has, or move it.

    \b
    Examples:
      rota tenants
      rota tenants apply new.yaml --dry-run
      rota tenants apply

    OWN is what a tenant can always have: the GPUs of its cells, or its quota; FREE what is left of that,
    BORROWED what it has beyond it, WAITING its jobs that wait with the GPUs they ask for.  RHO is how long
    its jobs took, to how long they would have taken alone on an equal part of the cluster (docs/metrics.md).
    A tenant's numbers hold those of the tenants below it.
    """
    if context.invoked_subcommand is None:
        _tenants(url=url, token_file=token_file, as_json=as_json)


@live
def _tenants(client: Client, as_json: bool) -> None:
    from rota.wire.tenants import TenantsView

    answer = client.call("GET", "/v1/tenants")
    if as_json:
        print_json(answer)
    else:
        typer.echo(tenants_text(TenantsView.model_validate(answer)), nl=False)


@app.command("apply")
@live
def apply(
    client: Client,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="YAML with `tenants`; $ROTA_HOME/config.yaml if not given."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would come of it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also if jobs would be worse off by it.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Change quotas, weights and cells from now on.

    \b
    Examples:
      rota tenants apply new.yaml --dry-run  # which jobs would be worse off
      rota tenants apply new.yaml

    All tenants are in the file, as in the configuration: a tenant that is not named has no quota and
    weight 1.  Cells that the machines cannot hold are refused.  So are, without --yes, changes that would
    preempt, refuse or hold jobs or leave them without a guarantee.  It holds over restarts, until the
    tenants of the configuration change.  Admins only.
    """
    from rota.wire.tenants import TenantsMoved

    said = said_in(file or home() / "config.yaml")
    answer = client.call("PUT", "/v1/tenants", {"tenants": said, "dry_run": dry_run, "yes": yes})
    if as_json:
        print_json(answer)
    else:
        typer.echo(moved_text(TenantsMoved.model_validate(answer)), nl=False)


def said_in(file: Path) -> dict[str, Any]:
    """The tenants of a file, checked; InputError names file and field."""
    from rota.server.config import read_yaml
    from rota.server.tenants.settings import parse_tenants, plain_tenants

    content = read_yaml(file, must_exist=True)
    if "tenants" not in content:
        raise InputError.at(
            "names no tenants", file=file, expected="`tenants:` with paths, such as `vision: {quota: 32}`"
        )
    return plain_tenants(parse_tenants(content["tenants"] or {}, f"{file}: tenants"))


# -- shown -------------------------------------------------------------------------------------------


def tenants_text(view: TenantsView) -> str:
    """One line for each tenant, the time of the last change, and remarks."""
    if not view.tenants:
        return "no tenants are configured, and no tenant has jobs; `rota tenants apply` configures some\n"
    rows = [_row(tenant) for tenant in view.tenants]
    heads = "TENANT >OWN >HELD >FREE >BORROWED >WAITING >GPU_HOURS ?>RHO ~ENTITLED_TO"
    text = table_text(heads, rows)
    lines = [f"GPU-hours are those of the last {plural(view.days, 'day')}."]
    if view.by and view.since_s is not None:
        when = f"{moment(view.since_s)} ({ahead(view.since_s, now_s())})"
        lines.append(f"Moved by {view.by}, {when}; `rota events` says what.")
    lines += [note[:1].upper() + note[1:] for note in view.notes]
    return text + "".join(wrapped(line) + "\n" for line in lines)


def _row(tenant: TenantView) -> tuple[str, ...]:
    from rota.client.entitled import entitled_to

    return (
        tenant.path,
        _gpus(tenant.entitled),
        count(tenant.held),
        _gpus(tenant.free),
        _gpus(tenant.borrowed),
        f"{tenant.waiting} ({count(tenant.waiting_gpus)})" if tenant.waiting else "0",
        hours(tenant.gpu_hours),
        "-" if tenant.rho is None else f"{tenant.rho:.2f}",
        entitled_to(tenant),
    )


def _gpus(gpus: float | None) -> str:
    return "-" if gpus is None else count(gpus)


def moved_text(moved: TenantsMoved) -> str:
    """What changes, which jobs are worse off, and whether it is done."""
    if not moved.changes:
        return "these tenants count already\n"
    lines = [*moved.changes, *(f"note: {note}" for note in moved.notes)]
    lines += [f"job {loss.job} of {loss.tenant} {loss.sentence}" for loss in moved.losses]
    if not moved.losses:
        lines.append("no job is worse off by it")
    if moved.applied:
        lines.append("applied")
    return "".join(wrapped(line, "", "  ") + "\n" for line in lines)
