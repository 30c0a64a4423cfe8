"""kill -9 of anything at any moment loses no job, doubles none, and leaves nothing behind."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crashing import POLICIES, Load, Tended, check, crash, drain, job, killed, persistently

from rota.client import Refused
from tiers import first

SETTINGS: dict[str, Any] = {"back_off": 0.1, "back_off_most": 0.3, "deadline": 2.0}
SEED = "ROTA_CRASH_SEED"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Another one each time; a failure says how to repeat it."""
    number = int(os.environ.get(SEED) or secrets.randbelow(10**6))
    print(f"to repeat it: {SEED}={number} pytest '{request.node.nodeid}'")
    return number


def storm(folder: Path, seed: int, policy: str, kills: int) -> None:
    """So many kills under load."""
    chooser = random.Random(seed)
    with Tended(folder, devices="cpu:3", policy=policy, **SETTINGS) as live:
        load = Load(live, folder / "evidence", chooser)
        done = crash(live, load, kills, chooser)
        drain(live, load)
        check(live, load)
    print(f"killed {dict(done)}, {len(load.ids)} jobs")
    assert sum(done.values()) >= kills


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES[:2])
def test_random_kills_under_load(tmp_path: Path, seed: int, policy: str) -> None:
    storm(tmp_path, seed, policy, 12)


@pytest.mark.parametrize("policy", first(0, POLICIES[:1], deep=POLICIES[1:]))
def test_hundreds_of_kills_under_load(tmp_path: Path, seed: int, policy: str) -> None:
    storm(tmp_path, seed, policy, 100)


CONTROLLER = ("step decided", "step stored", "store-begin", "store-commit", "store-committed")
AGENT = (
    "folder made",
    "launch written",
    "shim log made",
    "shim spawned",
    "suspend written",
    "place written",
    "thawed",
    "notice written",
    "stop written",
    "signalled",
    "verdict written",
)
SHIM = (
    "shim started",
    "lock taken",
    "shim forked",
    "shim.json unnamed",
    "shim written",
    "logs opened",
    "rank started",
    "ranks started",
    "ranks.json unnamed",
    "ranks written",
    "all ended",
    "exit.json unnamed",
    "exit renamed",
)
FAST = {"store-commit:5"}
POINTS = [f"{name}:{n}" for name in CONTROLLER for n in (1, 4, 12)] + ["store-commit:5", *AGENT, *SHIM]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tended]:
    """A cluster that dies in one test and lives again in the next."""
    with Tended(
        tmp_path_factory.mktemp("points"), devices="cpu:3", policy="fifo:skip=yes", **SETTINGS
    ) as live:
        yield live


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=() if p in FAST else pytest.mark.soak) for p in POINTS]
)
def test_a_kill_at_every_named_point(crashed: Tended, tmp_path: Path, point: str) -> None:
    """Three jobs, one of them suspended and resumed, one sent away, one robbed of its shim."""
    live, load = crashed, Load(crashed, tmp_path / "evidence", random.Random(1))
    live.kill_controller()
    live.kill_agent()
    live.respawn({"ROTA_CRASH_AT": point})
    victims = [one for one in (live.controller, *live.agents.values()) if one is not None]
    for kind in ("plain", "plain", "cooperative"):
        load.submit(kind, steps=0)
    suspended, requeued, robbed = load.ids
    eventually(live, lambda: load.words().keys() >= {suspended, requeued} or point in SHIM)
    act(live, suspended, "suspend")
    act(live, requeued, "requeue")
    eventually(live, lambda: left(live, suspended) or point in SHIM)
    act(live, suspended, "resume")
    eventually(live, lambda: any(map(killed, live.shims(robbed))) or point in SHIM)
    load.let_go()
    eventually(live, lambda: over(live, load) or point in SHIM or any(one.poll() == -9 for one in victims))
    if point in SHIM:
        eventually(live, lambda: any(one["end_s"] for id in load.ids for one in attempts_of(live, id)))
    else:
        assert any(one.poll() == -9 for one in victims), f"{point} is never passed"
    live.kill_agent()  # its shims were to die as well
    drain(live, load)
    check(live, load)


def eventually(live: Tended, look: Callable[[], object]) -> None:
    """Until it is true; whoever has died is started again."""

    def there() -> object:
        live.respawn()
        return look()

    live.until(there, "what the test waits for")


def left(live: Tended, id: str) -> bool:
    """Whether it has given its devices back."""
    is_suspended = job(live, id)["state"] in ("SUSPENDED", "COMPLETED")
    return is_suspended or all(one["end_s"] for one in attempts_of(live, id))


def over(live: Tended, load: Load) -> bool:
    """Whether all jobs have ended."""
    return all(job(live, id)["state"] == "COMPLETED" for id in load.ids)


def attempts_of(live: Tended, id: str) -> list[dict[str, Any]]:
    """The attempts of a job, oldest first."""
    found: list[dict[str, Any]] = persistently(live, "GET", f"/v1/jobs/{id}")["attempts"]
    return found


def act(live: Tended, id: str, verb: str) -> None:
    """Ask for it; it may have ended, or do nothing of the kind just now."""
    try:
        persistently(live, "POST", f"/v1/jobs/{id}/{verb}", {})
    except Refused as refused:
        if refused.status != 409:
            raise
