"""One cluster for the tests of a module, empty again after each of them; and small programs as jobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from live_cluster import ENDED, LiveCluster

from rota.client import Refused

FAST: dict[str, Any] = {"back_off": 0.2, "back_off_most": 0.4, "trial": 0.5}


def python(code: str, *arguments: object) -> list[str]:
    """A command that runs `code`, whose modules and arguments are `sys`, `os`, `time`, `signal`."""
    return [sys.executable, "-c", f"import os, signal, sys, time\n{code}", *map(str, arguments)]


def emptied(live: LiveCluster) -> Iterator[LiveCluster]:
    """The cluster for one test; afterwards nothing of that test is left."""
    yield live
    for job in live.client.call("GET", "/v1/jobs"):
        if job["state"] not in ENDED:
            try:
                live.act(job["id"], "cancel", force=True)
            except Refused as refused:
                if refused.status != 409:  # it has just ended
                    raise
    for job in live.client.call("GET", "/v1/jobs"):
        live.reaches(job["id"], *ENDED)


def detail(live: LiveCluster, id: str) -> dict[str, Any]:
    """`rota show` of a job, as JSON."""
    found: dict[str, Any] = live.client.call("GET", f"/v1/jobs/{id}")
    return found


def attempts(live: LiveCluster, id: str) -> list[dict[str, Any]]:
    """The attempts of a job, oldest first."""
    found: list[dict[str, Any]] = detail(live, id)["attempts"]
    return found


def log_of(live: LiveCluster, id: str, **which: Any) -> str:
    """A log as the API gives it, up to its present end."""
    query = "&".join(f"{name}={value}" for name, value in which.items())
    return str(live.client.call("GET", f"/v1/jobs/{id}/logs?{query}")["text"])


def written(live: LiveCluster, path: Path, text: str = "") -> str:
    """The content of a file that a job writes, once `text` is in it."""
    live.until(lambda: path.exists() and text in path.read_text() and path.read_text(), f"{text!r} in {path}")
    return path.read_text()


def refused(live: LiveCluster, method: str, path: str, body: object = None) -> Refused:
    """What the API says against a call."""
    try:
        answer = live.client.call(method, path, body)
    except Refused as error:
        return error
    raise AssertionError(f"{method} {path} was answered: {answer}")


def now_s() -> float:
    """Unix seconds."""
    return time.time()
