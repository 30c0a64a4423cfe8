"""A served controller in memory, and people who call it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memory_controller import MemoryController

from rota.client import Client
from rota.server.api.app import ApiSettings, create_app
from rota.server.auth import Roster
from rota.server.http_server import Address, Serving

PATIENCE_S = 60.0
METHODS = ("get", "put", "post", "delete", "patch")


PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@cache
def api_schema() -> dict[str, Any]:
    """The description that the API gives of itself."""
    return create_app(MemoryController().services, Roster()).openapi()


@cache
def routes() -> list[tuple[str, str]]:
    """Every call that the page of the API lists: method and path.

    A test holds it to the description, which takes long to make: whoever only collects tests needs none.
    """
    return re.findall(r"^\| `([A-Z]+) ([^`?]*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def described() -> list[tuple[str, str]]:
    """Every call of the description."""
    paths = api_schema()["paths"].items()
    return [(method.upper(), path) for path, calls in paths for method in calls if method in METHODS]


@dataclass(frozen=True)
class Stage:
    """The controller, how to reach it, and tokens: admin, alice (vision/alice), bob (nlp), agent of n1."""

    controller: MemoryController
    serving: Serving
    tokens: dict[str, str]
    socket: Path

    def client(self, who: str = "alice", timeout_s: float = PATIENCE_S) -> Client:
        """A client over TCP with that one's token, or without any."""
        return Client(self.serving.url, self.tokens.get(who, ""), timeout_s)


@contextmanager
def served(folder: Path, settings: ApiSettings | None = None) -> Iterator[Stage]:
    """A stage whose server runs in a thread while the block does."""
    controller = MemoryController()
    tokens = {
        "admin": controller.add("root", "all", admin=True),
        "alice": controller.add("alice", "vision/alice"),
        "bob": controller.add("bob", "nlp"),
        "agent": controller.join_as("n1"),
    }
    serving = Serving(
        create_app(controller.services, controller.roster, None, settings), Address(socket=folder / "c.sock")
    )
    thread = threading.Thread(target=serving.run)
    thread.start()
    try:
        assert serving.ready.wait(PATIENCE_S)
        yield Stage(controller, serving, tokens, folder / "c.sock")
    finally:
        serving.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for something that another thread is about to do."""
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.005)
