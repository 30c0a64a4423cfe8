"""A cluster under load whose processes are killed at random, and what must be true of it afterwards."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from json import dumps
from pathlib import Path
from typing import Any

from live_cluster import ENDED, LiveCluster, processes_under

from rota.client import Refused, Unreachable

WITNESS = Path(__file__).with_name("witness.py")
KINDS = ("shim", "agent", "policy", "controller", "all")
WEIGHTS = (35, 25, 15, 20, 5)
FAILED = frozenset(ENDED) - {"COMPLETED"}
POLICIES = ("las:quantum=0.8", "tiresias:limits=1", "fifo:skip=yes")


class Tended(LiveCluster):
    """A cluster whose processes somebody starts again whenever they are gone, as an init system would."""

    def __enter__(self) -> Tended:
        super().__enter__()
        return self

    def respawn(self, environment: Mapping[str, str] | None = None) -> None:
        """Start controller and agent unless they run, with `environment` added; does not wait for them."""
        if self.controller is None or self.controller.poll() is not None:
            arguments = ["rota.server.main", "--home", str(self.home), "--flags", dumps(self.config)]
            self.controller = self._spawn("controller", arguments, environment)
        agent = self.agents.get(self.node)
        if agent is None or agent.poll() is not None:
            arguments = ["rota.engines.rota", "--home", str(self.agent_home()), "--node", self.node]
            arguments += ["--controller", str(self.home / "controller.sock"), "--devices", self.devices]
            self.agents[self.node] = self._spawn(f"agent-{self.node}", arguments, environment)

    def shims(self, id: str = "") -> list[int]:
        """Shims that live; those of one job."""
        found = [pid for pid in processes_under(self.home) if _name(pid) == "rota-shim"]
        if id:
            folder = f"/attempts/{int(id) - 1}/".encode()
            found = [pid for pid in found if folder in _line(pid)]
        return found

    def policies(self) -> list[int]:
        """The controller's policy processes."""
        if self.controller is None:
            return []
        return [pid for pid in children(self.controller.pid) if b"rota.server.policy.process" in _line(pid)]


class Load:
    """Submits witnesses and knows what it has submitted; every job is on record exactly once."""

    def __init__(self, live: Tended, evidence: Path, chooser: random.Random) -> None:
        evidence.mkdir()
        self.live, self.evidence, self.chooser = live, evidence, chooser
        self.ids: list[str] = []
        self.before = {one["id"] for one in persistently(live, "GET", "/v1/jobs")}
        """Jobs that are none of ours."""
        self.unanswered: dict[str, Any] | None = None
        """A submission that may be on record, though nobody has said so."""
        self.refusals: set[str] = set()
        """Sentences with which submissions were put off."""

    def submit(self, kind: str = "", steps: int | None = None) -> str:
        """One more job, asked for again and again until somebody says yes; its id.

        With 0 steps it does not end before `let_go`.
        """
        body = self.unanswered or self._body(kind, steps)
        self.unanswered = None
        self.ids.append(persistently(self.live, "POST", "/v1/jobs", body)["jobs"][0]["id"])
        return self.ids[-1]

    def offer(self) -> bool:
        """One more job if the controller takes it now; else the next one submitted is this with its key."""
        self.unanswered = self.unanswered or self._body()
        try:
            answer = self.live.client.call("POST", "/v1/jobs", self.unanswered)
        except Unreachable:
            return False
        except Refused as error:
            if error.status != 503:
                raise
            self.refusals.add(str(error))
            return False
        self.unanswered = None
        self.ids.append(answer["jobs"][0]["id"])
        return True

    def _body(self, kind: str = "", steps: int | None = None) -> dict[str, Any]:
        spec = self.spec(kind or self.chooser.choice(["plain", "cooperative"]), steps)
        return {"spec": spec, "key": f"{self.evidence}-{len(self.ids)}"}

    def spec(self, kind: str, steps: int | None = None) -> dict[str, Any]:
        """What the next job asks for."""
        chooser, step_s = self.chooser, 0.05
        steps = chooser.randint(5, 30) if steps is None else steps
        return {
            "command": [sys.executable, str(WITNESS), str(self.evidence), kind, str(steps), str(step_s)],
            "gpus": chooser.choice([1, 1, 2]),
            "ranks": "node",
            "grace_s": chooser.choice([0.2, 2.0]),
            "retries": 1000,
        }

    def let_go(self) -> None:
        """Whatever waits for it may end."""
        (self.evidence / "go").touch()

    def unfinished(self) -> int:
        """How many have not come to their end, as they say themselves."""
        words = self.words()
        return sum("END" not in words.get(id, ()) for id in self.ids)

    def words(self) -> dict[str, Counter[str]]:
        """File of a rank, by its job -> how often each word stands in it."""
        return {
            path.stem: Counter(line.split()[0] for line in path.read_text().splitlines())
            for path in self.evidence.glob("*.txt")
        }


def crash(
    live: Tended, load: Load, kills: int, chooser: random.Random, jobs_at_once: int = 6
) -> Counter[str]:
    """Kill `kills` processes at random while the load goes on; counts by kind."""
    done: Counter[str] = Counter()
    while sum(done.values()) < kills:
        while load.unfinished() < jobs_at_once:
            load.submit()
        if chooser.random() < 0.6:  # else it dies while it starts, or before it has heard of the others
            give_time(live)
        time.sleep(chooser.uniform(0.0, 0.4))
        groups = victims(live)
        kind = chooser.choices(KINDS, WEIGHTS)[0]
        for pid in sorted(groups[kind], key=lambda _: chooser.random())[: None if kind == "all" else 1]:
            done[kind] += killed(pid)
        if chooser.random() < 0.3:
            time.sleep(chooser.uniform(0.0, 0.3))  # the others go on without it
        live.respawn()
    return done


def give_time(live: Tended, patience_s: float = 4.0) -> None:
    """Until jobs run under a controller that has a policy."""
    end_s = time.monotonic() + patience_s
    while time.monotonic() < end_s and not (live.shims() and live.policies()):
        time.sleep(0.02)


def victims(live: Tended) -> dict[str, list[int]]:
    """Who may be killed, by kind."""
    groups = {
        "controller": [live.controller.pid] if live.controller is not None else [],
        "agent": [agent.pid for agent in live.agents.values()],
        "policy": live.policies(),
        "shim": live.shims(),
    }
    return {**groups, "all": [pid for group in groups.values() for pid in group]}


def killed(pid: int) -> bool:
    """kill -9; False if it has just ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def drain(live: Tended, load: Load, patience_s: float = 300.0) -> None:
    """Let everything that was submitted come to its end."""
    end_s = time.monotonic() + patience_s
    left: list[str] = list(load.ids)
    while left:
        live.respawn()
        views = [job(live, id) for id in left]
        left = [str(one["id"]) for one in views if one["state"] != "COMPLETED"]
        assert not (failed := [one for one in views if one["state"] in FAILED]), failed
        seen = {id: job(live, id) for id in left[:3]} if time.monotonic() > end_s else {}
        assert not seen, f"jobs {left} have not completed: {seen}\n{live.logs()}"
        time.sleep(0.05)


def check(live: Tended, load: Load) -> None:
    """Nothing lost, nothing doubled, nothing left."""
    jobs = [one for one in persistently(live, "GET", "/v1/jobs") if one["id"] not in load.before]
    assert sorted(one["id"] for one in jobs) == sorted(load.ids), "jobs were lost or doubled"
    words = load.words()
    for one in jobs:
        said, id = words.get(one["id"], Counter()), one["id"]
        assert one["state"] == "COMPLETED", one
        assert said["END"] == 1, f"job {id}: {said}"
        assert said["TWICE"] == 0, f"job {id} ran beside itself: {said}"
        assert said["SHARED"] == 0, f"job {id} had a slot with somebody else: {said}"
        attempts = persistently(live, "GET", f"/v1/jobs/{id}")["attempts"]
        finished = [attempt["number"] for attempt in attempts if attempt["end"] == "finished"]
        assert len(finished) == 1, f"job {id} finished in attempts {finished}: {attempts}"
        assert all(attempt["end_s"] is not None for attempt in attempts), attempts
        cut = sum("its shim was killed" in attempt["cause"] or attempt["signal"] == 9 for attempt in attempts)
        assert said["AGAIN"] <= cut, f"job {id} came to its end again, and nobody had cut it short: {said}"
    live.until(lambda: not left_over(live), "nothing left of the jobs", left_over(live))
    (node,) = persistently(live, "GET", "/v1/nodes")
    assert node["gpus_used"] == 0, node
    live.until(lambda: not list(live.agent_home().glob("attempts/*/*/launch.json")), "forgotten attempts")


def left_over(live: Tended) -> list[int]:
    """Processes of attempts that still live."""
    ours = {agent.pid for agent in live.agents.values()}
    if live.controller is not None:
        ours |= {live.controller.pid, *live.policies()}
    return [pid for pid in processes_under(live.home) if pid not in ours]


def job(live: LiveCluster, id: str) -> dict[str, object]:
    """The JobView of a job, whoever has just died."""
    found: dict[str, object] = persistently(live, "GET", f"/v1/jobs/{id}")["job"]
    return found


def persistently(live: LiveCluster, method: str, path: str, body: object = None) -> Any:
    """Call until there is an answer: the controller may be dead, starting or without its store."""
    end_s = time.monotonic() + 60
    while True:
        try:
            return live.client.call(method, path, body)
        except Unreachable as error:
            said = str(error)
        except Refused as error:
            said = str(error)
            if error.status != 503:
                raise
        assert time.monotonic() < end_s, f"{said}\n{live.logs()}"
        if isinstance(live, Tended):
            live.respawn()
        time.sleep(0.05)


def children(pid: int) -> Iterator[int]:
    """Processes whose parent it is."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has gone
            continue
        if parent == pid:
            yield int(folder.name)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has gone
        return ""


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has gone
        return b""
