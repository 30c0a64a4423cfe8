"""Agents: join with a token, then report and ask for directives again and again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from rota.server.api.forms import JoinRequest, JoinToken
from rota.server.api.problems import refusals
from rota.server.api.route_parts import (
    Admin,
    Anybody,
    AskedAgents,
    AskedTerminals,
    AskedUsers,
    NodeName,
    answer,
    patience_s,
    wait_for,
)
from rota.server.refusals import Forbidden
from rota.wire.keeping import Kept, KeptReply
from rota.wire.sync import Joined, Joining, NodeInfo, SyncReply, SyncRequest
from rota.wire.terminal import TerminalReply, TerminalTalk

router = APIRouter(prefix="/v1/agents", tags=["agents"], responses=refusals())
USUAL = JoinRequest()
LifetimeBody = Annotated[JoinRequest, Body(examples=[{"lifetime_s": 3600}])]


@router.post("/token", status_code=201, response_model=JoinToken)
def join_token(users: AskedUsers, who: Admin, body: LifetimeBody = USUAL) -> Response:
    """Make a token with which machines may join for a while.  Admins only."""
    return answer(users.join_token(body.lifetime_s), 201)


@router.post("/join", response_model=Joined, responses=refusals(409))
def join(info: Joining, agents: AskedAgents, who: Anybody) -> Response:
    """Join as a node, or say again what the node has; answers with the agent's token.

    Takes a join token, an admin, or the agent's own token for its own node.
    """
    if not (who.joining or who.admin or (who.node and who.node == info.name)):
        holder = f"the agent of {who.node!r}" if who.node else f"user {who.user!r}"
        raise Forbidden(f"{holder} may not join as node {info.name!r}; that takes a join token or an admin")
    return answer(agents.join(who, NodeInfo(**dict(info))))


@router.post("/{node:path}/sync", response_model=SyncReply, responses=refusals(404, 409))
async def sync(
    http: Request, node: NodeName, request: SyncRequest, agents: AskedAgents, who: Anybody
) -> Response:
    """Report what is and learn what shall be; answers when there is something new, or after `wait_s`."""
    if not who.node or who.node != node:
        raise Forbidden(f"only the agent of node {node!r} may report for it")
    request.wait_s = patience_s(request.wait_s)
    return answer(await wait_for(http, agents.sync(node, request)))


@router.post("/{node:path}/terminal", response_model=TerminalReply, responses=refusals(404))
async def node_terminal(
    http: Request, node: NodeName, said: TerminalTalk, terminals: AskedTerminals, who: Anybody
) -> Response:
    """Talk in a session for a person at the terminal of a job on the node."""
    if not who.node or who.node != node:
        raise Forbidden(f"only the agent of node {node!r} may talk for it")
    said.wait_s = patience_s(said.wait_s)
    return answer(await wait_for(http, terminals.agent(node, said)))


@router.post("/{node:path}/kept", response_model=KeptReply)
def kept(node: NodeName, said: Kept, agents: AskedAgents, who: Anybody) -> Response:
    """Say what lies on the node's disk of ended jobs, and learn what of it may go."""
    if not who.node or who.node != node:
        raise Forbidden(f"only the agent of node {node!r} may report for it")
    return answer(agents.kept(node, said))
