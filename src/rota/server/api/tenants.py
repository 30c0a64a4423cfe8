"""Tenants: what each is entitled to and has, and changing that on a running cluster."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import Response

from rota.server.api.forms import TenantsMove
from rota.server.api.problems import refusals
from rota.server.api.route_parts import Admin, AskedTenants, Person, answer
from rota.wire.tenants import TenantsMoved, TenantsView

router = APIRouter(prefix="/v1", tags=["tenants"], responses=refusals())
MoveBody = Annotated[
    TenantsMove,
    Body(examples=[{"tenants": {"vision": {"quota": 32, "hard": True}, "speech": {"weight": 2}}}]),
]


@router.get("/tenants", response_model=TenantsView)
def tenants(tenants: AskedTenants, who: Person) -> Response:
    """List what each tenant is entitled to and has."""
    return answer(tenants.tenants())


@router.put("/tenants", response_model=TenantsMoved, responses=refusals(409))
def move_tenants(move: MoveBody, tenants: AskedTenants, who: Admin) -> Response:
    """Let other quotas, weights and cells count from now on, or say what would come of it.  Admins only."""
    return answer(tenants.move_tenants(who, move))
