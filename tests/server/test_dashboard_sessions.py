"""Signing in: a token becomes a cookie, by which no other site's page changes anything."""

from __future__ import annotations

import time

import pytest
from dashboard_play import ask, get, sign_in
from serving_toys import Stage

from rota.server.auth import Unauthorized, identify_session, identify_token
from rota.server.dashboard.pages import PAGES
from rota.server.dashboard.sessions import begin, local


def test_a_stranger_is_led_to_the_sign_in(stage: Stage) -> None:
    """And back to where it came from; a program is refused as ever."""
    assert ask(stage, "GET", "/").headers["location"] == "/sign-in"
    away = ask(stage, "GET", "/cluster/now?a=b")
    assert (away.status, away.headers["location"]) == (303, "/sign-in?next=%2Fcluster%2Fnow%3Fa%3Db")
    assert 'value="/cluster/now?a=b"' in ask(stage, "GET", away.headers["location"]).text
    part = ask(stage, "GET", "/cluster/now", hx_request="true")
    assert (part.status, part.headers["hx-redirect"]) == (401, "/sign-in")
    program = ask(stage, "GET", "/", accept="application/json")
    assert program.status == 401
    assert program.text.startswith('{"error"')


def test_a_token_becomes_a_session(stage: Stage) -> None:
    sent = {"token": stage.tokens["alice"], "next": "/queue?state=RUNNING"}
    answer = ask(stage, "POST", "/sign-in", sent, origin=stage.serving.url)
    assert (answer.status, answer.headers["location"]) == (303, "/queue?state=RUNNING")
    said = answer.headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    assert "secure" not in said, "over plain HTTP it would never come back"
    assert f"_{stage.serving.port}=" in said
    assert stage.tokens["alice"] not in answer.headers["set-cookie"]
    page = ask(stage, "GET", "/", cookie=answer.cookie)
    assert page.status == 200
    assert ">alice<" in page.text


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("nonsense", "The token is not known here"),
        ("", "Type a token"),
        ("agent", "This is the token of a machine"),
        ("session", "This is a session of a browser"),
    ],
)
def test_wrong_tokens(stage: Stage, token: str, sentence: str) -> None:
    """The page again, with a sentence and without a session."""
    token = stage.tokens.get(token, token)
    if token == "session":
        token = sign_in(stage).partition("=")[2]
    answer = ask(stage, "POST", "/sign-in", {"token": token}, origin=stage.serving.url)
    assert answer.status == 401
    assert sentence in answer.text
    assert not answer.cookie


def test_a_session_is_for_cookies_and_a_token_is_not(stage: Stage) -> None:
    name, _, session = sign_in(stage).partition("=")
    roster = stage.controller.roster
    assert identify_session(roster, session, time.time()).user == "alice"
    with pytest.raises(Unauthorized, match="session of a browser"):
        identify_token(roster, session, time.time())
    assert ask(stage, "GET", "/", cookie=f"{name}={stage.tokens['alice']}").status == 303


def test_signing_out_ends_the_session(stage: Stage) -> None:
    cookie, other = sign_in(stage), sign_in(stage)
    answer = ask(stage, "POST", "/sign-out", {}, cookie=cookie, origin=stage.serving.url)
    assert answer.headers["location"] == "/sign-in"
    assert ask(stage, "GET", "/", cookie=cookie).status == 303
    assert ask(stage, "GET", "/", cookie=other).status == 200


def test_a_new_token_ends_the_sessions(stage: Stage) -> None:
    token = stage.controller.add("carol", "vision/carol")
    session = begin(stage.controller.roster, token)
    stage.controller.new_token("carol")
    with pytest.raises(Unauthorized):
        identify_session(stage.controller.roster, session, time.time())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "OWN"}, 403),
        ({"sec_fetch_site": "same-site", "origin": "OWN"}, 403),
        ({"origin": "OWN"}, 404),
        ({"sec_fetch_site": "same-origin", "origin": "https://behind.a.proxy"}, 404),
    ],
)
def test_other_sites_change_nothing(stage: Stage, headers: dict[str, str], status: int) -> None:
    """With a browser's session, that is: pages of other sites have it sent along.  404: it came through."""
    said = {name: stage.serving.url if value == "OWN" else value for name, value in headers.items()}
    cookie = sign_in(stage)
    for path in ("/act/99/cancel", "/v1/jobs/99/cancel"):
        assert ask(stage, "POST", path, cookie=cookie, **said).status == status
    token = {"authorization": f"Bearer {stage.tokens['alice']}"}
    assert ask(stage, "POST", "/v1/jobs/99/cancel", **token).status == 404, "programs have no origin"


def test_other_sites_sign_nobody_in(stage: Stage) -> None:
    sent = {"token": stage.tokens["alice"]}
    answer = ask(stage, "POST", "/sign-in", sent, origin="https://evil.example")
    assert answer.status == 403
    assert not answer.cookie


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/queue?x=1", "/queue?x=1"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/sign-in", "/"),
        ("/a\r\nSet-Cookie: b", "/"),
    ],
)
def test_next_is_a_page_of_ours(given: str, path: str) -> None:
    assert local(given) == path


def test_what_strangers_may_see(stage: Stage) -> None:
    """The sign-in and its files; no file outside of the folder."""
    page = ask(stage, "GET", "/sign-in")
    assert page.status == 200
    for word in page.text.split('"'):
        if word.startswith("/static/"):
            assert ask(stage, "GET", word).status == 200, word
    for name in ("../README.md", "%2e%2e/pages.py", "", "nothing.js"):
        assert ask(stage, "GET", f"/static/{name}").status == 404


def test_pages_allow_nothing_from_elsewhere(stage: Stage) -> None:
    policy = ask(stage, "GET", "/sign-in").headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; ")
    assert "unsafe" not in policy
    for text in (get(stage, "/"), ask(stage, "GET", "/sign-in").text):
        assert "<script>" not in text
        assert " style=" not in text
        assert "<style" not in text
        assert " onclick=" not in text


def test_errors_are_pages_for_browsers(stage: Stage) -> None:
    token = f"Bearer {stage.tokens['alice']}"
    page = ask(stage, "GET", "/nothing/<script>", authorization=token)
    assert page.status == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "&lt;script&gt;" in page.text
    part = ask(stage, "POST", "/act/99/cancel", authorization=token, hx_request="true")
    assert (part.status, part.text) == (404, "There is no job 99")
    assert part.headers["content-type"].startswith("text/plain")


def test_a_page_lists_no_dead_links(stage: Stage) -> None:
    """Every entry of the navigation leads somewhere, or has no link."""
    text = get(stage, "/").partition("<nav")[2].partition("</nav>")[0]
    links = [part.partition('"')[0] for part in text.split('href="')[1:]]
    assert "/" in links
    for link in links:
        get(stage, link)
    assert text.count("<a ") + text.count("<span ") == len(PAGES)
