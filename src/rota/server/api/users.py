"""Users and their tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path
from starlette.responses import Response

from rota.server.api.forms import NewUser, Ok, UserToken
from rota.server.api.problems import refusals
from rota.server.api.route_parts import Admin, AskedUsers, Person, answer
from rota.server.refusals import Forbidden
from rota.wire.views import UserView

router = APIRouter(prefix="/v1", tags=["users"], responses=refusals())
NewBody = Annotated[NewUser, Body(examples=[{"name": "alice", "tenant": "vision/alice"}])]
Named = Annotated[str, Path(max_length=64, description="name of a user", examples=["alice"])]


@router.get("/whoami", response_model=UserView)
def whoami(who: Person) -> Response:
    """Say whom the controller takes the caller for."""
    return answer(
        UserView(name=who.user, admin=who.admin, tenant=who.tenant, account=who.account, viewer=who.viewer)
    )


@router.get("/users", response_model=list[UserView])
def users(users: AskedUsers, who: Admin) -> Response:
    """List the users.  Admins only."""
    return answer(users.users())


@router.post("/users", status_code=201, response_model=UserToken, responses=refusals(409))
def add_user(user: NewBody, users: AskedUsers, who: Admin) -> Response:
    """Add a user; the token is shown only now.  Admins only."""
    return answer(users.add_user(user), 201)


@router.post("/users/{name}/token", status_code=201, response_model=UserToken, responses=refusals(404))
def new_token(name: Named, users: AskedUsers, who: Person) -> Response:
    """Make a new token in place of the user's old ones.  Admins, and everybody for themselves."""
    if not who.admin and who.user != name:
        raise Forbidden(f"only admins make tokens for others; you are {who.user!r}")
    return answer(users.new_token(name), 201)


@router.delete("/users/{name}", response_model=Ok, responses=refusals(404, 409))
def remove_user(name: Named, users: AskedUsers, who: Admin) -> Response:
    """Remove a user: the tokens are worth nothing from now on, the jobs stay.  Admins only."""
    users.remove_user(name)
    return answer(Ok())
