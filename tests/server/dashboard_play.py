"""The dashboard for tests: pages as text from a controller in memory, and a browser on a live cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from live_cluster import LiveCluster
from serving_toys import Stage

WIDTHS = (390, 820, 1440)


@dataclass(frozen=True)
class Answer:
    """What a browser would get; header names in lower case."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def cookie(self) -> str:
        """What the browser would send from now on."""
        return self.headers.get("set-cookie", "").partition(";")[0]


def ask(stage: Stage, method: str, path: str, body: dict[str, str] | None = None, **headers: str) -> Answer:
    """One call as a browser makes it; `headers` as `accept=`, `hx_request=`, `cookie=`."""
    connection = HTTPConnection(urlsplit(stage.serving.url).netloc, timeout=60)
    sent = {"accept": "text/html", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body is not None:
        sent.setdefault("content-type", "application/x-www-form-urlencoded")
    try:
        connection.request(method, path, urlencode(body) if body is not None else None, sent)
        response = connection.getresponse()
        text = response.read().decode()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, text)
    finally:
        connection.close()


def sign_in(stage: Stage, who: str = "alice") -> str:
    """The cookie of a new session."""
    sent = {"token": stage.tokens[who], "next": "/"}
    answer = ask(stage, "POST", "/sign-in", sent, origin=stage.serving.url)
    assert answer.status == 303, answer.text
    return answer.cookie


def get(stage: Stage, path: str, who: str = "alice") -> str:
    """A page as text, as `who` sees it."""
    answer = ask(stage, "GET", path, authorization=f"Bearer {stage.tokens[who]}")
    assert answer.status == 200, answer.text
    return answer.text


def url_of(live: LiveCluster) -> str:
    """Where the controller listens."""
    said = live.until(
        lambda: (
            (live.home / "controller.json").exists()
            and json.loads((live.home / "controller.json").read_text())
        ),
        "controller.json",
    )
    return str(said["url"])


@contextmanager
def signed_in(
    chromium: Any,
    live: LiveCluster,
    token: str = "",
    width: int = 1280,
    scheme: str = "light",
    quiet: bool = True,
) -> Iterator[Callable[..., Any]]:
    """Opens pages of the live cluster as the admin, or as whom `token` stands for.

    Afterwards nothing may have gone wrong in them (with `quiet`), and nothing been asked of anybody else.
    """
    url, wrong = url_of(live), []
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)

    def opened(path: str = "/") -> Any:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: _is_wrong(said) and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: one.url.startswith((url, "data:")) or wrong.append(one.url))
        page.goto(url + path)
        if "/sign-in" in page.url and path != "/sign-in":
            page.fill("#token", token or (live.home / "tokens" / "admin").read_text().strip())
            page.press("#token", "Enter")
            page.wait_for_url(url + path)
        return page

    try:
        yield opened
    finally:
        context.close()
    assert not quiet or wrong == [], wrong


def _is_wrong(said: Any) -> bool:
    """A part that was being fetched when its page was left is told of as well, and is no fault."""
    left = ("htmx:sendAbort", "htmx:afterRequest")
    return said.type in ("error", "warning") and not said.text.startswith(left)
