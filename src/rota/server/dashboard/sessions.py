"""Signing in and out: a token becomes a session, a token of its own that lives in a cookie and expires.

Sessions are on record as tokens are, so that they survive a restart of the controller; a user's new token
ends them.
"""

from __future__ import annotations

import time
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from rota.errors import RotaError
from rota.server.auth import SESSION, Roster, Unauthorized, identify_token, mint, record_of
from rota.server.dashboard.browsers import check_origin, cookie_name, session_of
from rota.server.dashboard.errors import SIGN_IN
from rota.server.dashboard.responses import page

router = APIRouter(include_in_schema=False)
SESSION_S = 30 * 86400.0
"""Seconds that a user stays signed in."""
LONGEST_TOKEN = 200


@router.get(SIGN_IN)
def sign_in_page(request: Request, next: str = "/") -> Response:
    """Where one signs in."""
    return page(request, "sign_in.html", next=local(next), sentence="")


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """A session for a token; the page again, with a sentence, for one that is worth nothing."""
    sent = parse_qs((await request.body()).decode("utf-8", "replace"))
    token, after = (sent.get(name, [""])[0].strip() for name in ("token", "next"))
    roster: Roster = request.app.state.roster
    try:
        check_origin("POST", request.headers)
        session = await run_in_threadpool(begin, roster, token[:LONGEST_TOKEN])
    except RotaError as error:
        status = 401 if isinstance(error, Unauthorized) else 403
        sentence = str(error)[:1].upper() + str(error)[1:]
        return page(request, "sign_in.html", status, next=local(after), sentence=sentence)
    answer = RedirectResponse(local(after), 303)
    is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    answer.set_cookie(
        cookie_name(request.headers),
        session,
        max_age=int(SESSION_S),
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/sign-out")
def sign_out(request: Request) -> Response:
    """This browser's session is worth nothing from now on."""
    roster: Roster = request.app.state.roster
    if session := session_of(request.headers):
        roster.forget_token(record_of(roster, session, time.time()))
    answer = RedirectResponse(SIGN_IN, 303)
    answer.delete_cookie(cookie_name(request.headers), httponly=True, samesite="strict")
    return answer


def begin(roster: Roster, token: str) -> str:
    """A new session of the person that a token stands for; Unauthorized if it stands for none."""
    if not token:
        raise Unauthorized("type a token; an admin makes one with `rota user add` or `rota user token`")
    who = identify_token(roster, token, time.time())
    if not who.user:
        raise Unauthorized("this is the token of a machine; sign in with a user's")
    session, record = mint(SESSION, who.user, SESSION_S)
    roster.put_token(record)
    return session


def local(path: str) -> str:
    """`path` if it is one of this server's own, else the first page."""
    parts = urlsplit(path)
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.netloc
    return path if is_own and path.isprintable() and parts.path != SIGN_IN else "/"
