"""The page Tenants: what each is entitled to and has, and why a peer gets more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from rota.client.entitled import entitled_to
from rota.model.tenants import Between
from rota.model.units import plural
from rota.model.words import count
from rota.server.api.route_parts import AskedTenants, Person
from rota.server.api.services import TenantsService
from rota.server.callers import Caller
from rota.server.dashboard.responses import HEADERS, colour_of, fragment, page
from rota.wire.tenants import TenantsView, TenantView

router = APIRouter(include_in_schema=False)
DAYS = (1, 7, 30)
POINTS = 168
MOST_CURVES = 8
"""Tenants in the picture of all."""
Days = Annotated[int, Query(ge=1, le=365)]
Path = Annotated[str, Query(max_length=1024)]


@dataclass(frozen=True)
class TenantLine:
    """One tenant as the page shows it."""

    view: TenantView
    entitled_to: str
    sentence: str
    """GPUs that it can have now, and why a peer has more."""
    is_mine: bool
    part: float
    """Of its own that it has, 0 to 1; of the cluster's held GPUs where it has none."""


@dataclass(frozen=True)
class TenantsPage:
    """What the page shows."""

    view: TenantsView
    lines: Sequence[TenantLine]


def tenants_page(tenants: TenantsService, who: Caller) -> TenantsPage:
    """As it is now, the caller's own tenant first."""
    view = tenants.tenants()
    in_use = sum(one.held for one in view.tenants if not above(one.path, view.tenants)) or 1.0
    lines = [
        TenantLine(
            one,
            entitled_to(one),
            sentence_of(one, view.tenants, view.policy, view.between),
            who.tenant == one.path or who.tenant.startswith(f"{one.path}/"),
            min((one.own or 0.0) / one.entitled, 1.0) if one.entitled else one.held / in_use,
        )
        for one in view.tenants
    ]
    return TenantsPage(view, sorted(lines, key=lambda line: not line.is_mine))


def above(path: str, tenants: Sequence[TenantView]) -> bool:
    """True if another of `tenants` counts what this one has."""
    return any(path.startswith(f"{one.path}/") for one in tenants)


# -- in words ----------------------------------------------------------------------------------------


def sentence_of(tenant: TenantView, tenants: Sequence[TenantView], policy: str, between: str) -> str:
    """A tenant's present entitlement, and why the peer with most has more."""
    said = [_own(tenant, tenants, policy, between)]
    if tenant.waiting:
        asks = plural(tenant.waiting_gpus, "GPU")
        who = "1 job waits and asks" if tenant.waiting == 1 else f"{tenant.waiting} jobs wait and ask"
        said.append(f"{who} for {asks}.")
    peers = [one for one in tenants if not _kin(one.path, tenant.path)]
    most = max(peers, key=lambda one: one.held, default=None)
    if most is not None and most.held > tenant.held:
        said.append(_more(tenant, most, policy, between))
    return " ".join(said)


def _own(tenant: TenantView, tenants: Sequence[TenantView], policy: str, between: str) -> str:
    name, has = tenant.path, f"has {_gpus(tenant.held)} now"
    if tenant.entitled is None:
        if tenant.cells:
            return f"{name} owns cells that the machines here do not have: it {has}."
        return f"{name} has no quota and no cells: {_dealt(tenant, tenants, policy, between)}, and {has}."
    if not tenant.cells and between not in ("", Between.QUOTAS):
        return f"{name} {_quota(tenant, policy)} and {has}."
    what = "its cells" if tenant.cells else "its quota"
    said = f"{name} can always have {_gpus(tenant.entitled)} ({what}) and {has}"
    if tenant.own is None:
        return f"{said}; {policy} does not say how many of them are its own."
    if tenant.borrowed:
        return f"{said}, {count(tenant.borrowed)} of them borrowed until others want what is theirs."
    if tenant.free:
        verb = "is" if tenant.free == 1 else "are"
        return f"{said}; {count(tenant.free)} of its own {verb} free."
    return f"{said}: all that is its own."


def _quota(tenant: TenantView, policy: str) -> str:
    """The worth of a quota under a policy that keeps nothing free for it."""
    gpus = _gpus(tenant.entitled or 0.0)
    if tenant.hard:
        return f"may have {gpus} at most (its quota, a cap; {policy} keeps nothing free for it)"
    return f"has a quota of {gpus}, which {policy} does not read: it neither keeps nor caps anything,"


def _dealt(tenant: TenantView, tenants: Sequence[TenantView], policy: str, between: str) -> str:
    """The share of a tenant without anything of its own."""
    if between == Between.WEIGHTS:
        weights = sum(one.weight for one in tenants if "/" not in one.path) or tenant.weight
        part = f"{tenant.weight:g} of {max(weights, tenant.weight):g}"
        return f"it gets what {policy} gives it (its weight is {part})"
    if between == Between.EQUALLY:
        return f"under {policy} it gets as much as any other that has jobs"
    if between == Between.NOTHING:
        return f"{policy} treats its jobs like any others"
    if between in (Between.QUOTAS, Between.CELLS):
        return f"under {policy} it gets what others leave idle"
    return f"it gets what {policy} gives it"


def _more(tenant: TenantView, peer: TenantView, policy: str, between: str) -> str:
    """Why `peer` has more than `tenant`."""
    reasons, owns = [], between in ("", Between.QUOTAS, Between.CELLS)
    if owns and (peer.entitled or 0.0) > (tenant.entitled or 0.0):
        own = f"and those of {tenant.path} are {count(tenant.entitled)}" if tenant.entitled else ""
        reasons.append(f"{count(peer.entitled or 0.0)} are its own {own}".strip())
    if owns and peer.borrowed:
        reasons.append(f"{count(peer.borrowed)} are borrowed, which is lent while no tenant claims it")
    if between == Between.WEIGHTS and peer.weight > tenant.weight:
        reasons.append(f"its weight is {peer.weight:g} to {tenant.weight:g}")
    if not tenant.waiting:
        reasons.append(f"no job of {tenant.path} waits")
    elif owns and tenant.free:
        reasons.append(f"the free ones of {tenant.path} do not fit what waits, or are just being given out")
    elif between == Between.NOTHING:
        jobs = f"those of {peer.path} that run came before in its order, or fit where the others do not"
        reasons.append(f"{policy} does not ask whose a job is, and {jobs}")
    elif between == Between.UNITS:
        reasons.append(f"each has its own part of the cluster under {policy}, and lends nothing")
    why = "; ".join(reasons) or "it came first, and no job has to give way for the other"
    return f"{peer.path} has {_gpus(peer.held)}: {why}."


def _kin(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _gpus(number: float) -> str:
    return f"{count(number)} {'GPU' if number == 1 else 'GPUs'}"


# -- curves ------------------------------------------------------------------------------------------


def curves(tenants: TenantsService, days: int, path: str) -> dict[str, Any]:
    """Data for `series.js`: one tenant's use against its own share, or the tenants that used most."""
    history, view = tenants.tenants_history(float(days), POINTS), tenants.tenants()
    known = {one.path: one for one in view.tenants}
    names = [path] if path else list(history.held)[:MOST_CURVES]
    empty = [0.0] * len(history.times)
    series: list[dict[str, Any]] = [
        {"name": name, "values": history.held.get(name, empty), "colour": f"--f{colour_of(name)}"}
        for name in names
    ]
    own = known[path].entitled if path in known else None
    if own is not None:
        series.append({"name": "its own", "values": [own] * len(history.times), "dashed": True})
    return {"times": history.times, "series": series, "unit": "GPUs"}


@router.get("/tenants")
def show(request: Request, tenants: AskedTenants, who: Person, days: Days = 7, tenant: Path = "") -> Response:
    """The page."""
    shown = tenants_page(tenants, who)
    return page(request, "tenants.html", shown=shown, days=days, choices=DAYS, tenant=tenant)


@router.get("/tenants/now")
def now(request: Request, tenants: AskedTenants, who: Person) -> Response:
    """What changes of it."""
    return fragment(request, "tenants_now.html", shown=tenants_page(tenants, who))


@router.get("/tenants/curves")
def curve(tenants: AskedTenants, who: Person, days: Days = 7, tenant: Path = "") -> Response:
    """GPUs held over time."""
    return JSONResponse(curves(tenants, days, tenant), headers=HEADERS)
