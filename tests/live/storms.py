"""Storms: a cluster of several agents under load, to which all kinds of things happen, and what must hold.

`SCENES` says what happens in which storm and how often; each kind of trouble is one function here.
Afterwards the weather is fine, everything comes to its end, and store and jobs are asked what has been.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crashing import Load, Tended, killed, left_over, persistently
from lines import MODES, Line
from own_clock import set_ahead
from postgres import Postgres
from sqlalchemy import create_engine, select

from mounts import read_only
from rota.client import Client, Refused, Unreachable
from rota.server.store import tables
from rota.wire.protocol import PROTOCOL

OWN_CLOCK = Path(__file__).with_name("own_clock.py")
LOST_AFTER_S = 5.0
SLOTS = 2
"""Of each node."""
MOST_WAITING = 12
"""Nobody submits more while so many have not ended."""
ASK_S = 20.0
"""A question has so long for its answer: whom it was put to may be frozen."""
STEPS_S = (-86400.0, -3600.0, -30.0, -7.0, 7.0, 30.0, 3600.0, 86400.0)
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class Scene:
    """One storm."""

    troubles: Mapping[str, int]
    """Name of a function `trouble_…` -> how often."""
    nodes: int = 1
    lost_after_s: float = 60.0
    own_clocks: bool = False
    """Controller and agents have wall clocks of their own, and as far as they know each its own machine."""
    over_tcp: bool = False
    """Agents come over lines that can be cut."""
    postgres: bool = False
    store_line: bool = False
    """Between controller and PostgreSQL lies a line that can be cut."""
    small_disk: str = ""
    """Size of the file system that all state lies on; none of its own if empty."""
    mounts: bool = False
    """Folders become read-only, which only root can have happen."""
    watchers: int = 0
    """So many look at the dashboard's stream, and hardly read."""


SCENES = {
    "postgres": Scene({"kill": 30, "restart_store": 3}, postgres=True),
    "store": Scene(
        {"cut_store": 14, "break_store": 6, "crash_store": 3, "restart_store": 2, "kill": 8},
        postgres=True,
        store_line=True,
    ),
    "silence": Scene({"freeze_store": 10, "crash_store": 2, "kill": 10}, nodes=2, postgres=True),
    "gangs": Scene({"kill": 40}, nodes=3),
    "clocks": Scene({"step_clock": 12, "kill": 12}, nodes=2, over_tcp=True, own_clocks=True),
    "partitions": Scene({"cut": 12, "kill": 6}, nodes=3, over_tcp=True, lost_after_s=LOST_AFTER_S),
    "frozen": Scene({"freeze": 12, "kill": 6}, nodes=2, lost_after_s=LOST_AFTER_S),
    "strangers": Scene({"stranger": 12, "kill": 8}, nodes=2, over_tcp=True),
    "watchers": Scene({"kill": 12}, watchers=300),
    "disk": Scene({"fill_disk": 4, "kill": 10}, small_disk="48m"),
    "read_only": Scene({"make_read_only": 14, "kill": 6}, nodes=2, mounts=True),
    "all": Scene(
        {"kill": 15, "restart_store": 2, "step_clock": 6, "cut": 8, "freeze": 6, "stranger": 4},
        nodes=3,
        lost_after_s=LOST_AFTER_S,
        own_clocks=True,
        over_tcp=True,
        postgres=True,
        watchers=50,
    ),
}


class Fleet(Tended):
    """A controller and several agents of this machine, tended as by an init system."""

    def __init__(self, folder: Path, scene: Scene, **config: Any) -> None:
        super().__init__(folder, devices=f"cpu:{SLOTS}", lost_after=scene.lost_after_s, **config)
        self.scene, self.nodes = scene, [f"n{k + 1}" for k in range(scene.nodes)]
        self.client.timeout_s = ASK_S
        self.lines = {node: Line(self.port) for node in self.nodes} if scene.over_tcp else {}
        self._join_token = ""
        self.clocks = self.home.parent / "clocks"
        self.clocks.mkdir()
        for who in ("controller", *self.nodes):
            set_ahead(self.clocks / who, 0.0)
            (self.clocks / f"{who}.boot").write_text(f"boot-of-{who}\n")
        self.stopped: dict[int, float] = {}
        """Processes that are frozen, and until when."""

    def __enter__(self) -> Fleet:
        (logs := self.home.parent / "logs").mkdir()
        (self.home / "logs").symlink_to(logs)  # what they say can be written whatever becomes of `home`
        try:
            self.start_controller()
            if self.lines:
                self._join_token = self.client.call("POST", "/v1/agents/token", {})["token"]
            self.respawn()
            for node in self.nodes:
                self.until(lambda node=node: self.node_state(node) == "up", f"node {node}")  # type: ignore[misc]
        except BaseException:
            self.down()
            raise
        return self

    def port(self) -> int:
        """Where the controller listens."""
        return int((self.home / "controller.port").read_text())

    def respawn(self, environment: Mapping[str, str] | None = None) -> None:
        """Start whoever does not run; whoever was frozen for long enough goes on."""
        self.thaw()
        if self.controller is None or self.controller.poll() is not None:
            arguments = ["rota.server.main", "--home", str(self.home), "--flags", json.dumps(self.config)]
            self.controller = self._spawn("controller", arguments, environment)
        for node in self.nodes:
            agent = self.agents.get(node)
            if agent is not None and agent.poll() is None:
                continue
            line = self.lines.get(node)
            address = f"http://127.0.0.1:{line.port}" if line else str(self.home / "controller.sock")
            arguments = ["rota.engines.rota", "--home", str(self.agent_home(node)), "--node", node]
            arguments += ["--controller", address, "--devices", self.devices]
            more = {"ROTA_JOIN_TOKEN": self._join_token} if line else {}
            self.agents[node] = self._spawn(f"agent-{node}", arguments, {**more, **(environment or {})})

    def _spawn(
        self, name: str, arguments: list[str], environment: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        """With a clock, and a machine, of its own where the scene says so."""
        who = name.removeprefix("agent-")
        if not self.scene.own_clocks:
            return super()._spawn(name, arguments, environment)
        command = [sys.executable, str(OWN_CLOCK), str(self.clocks / who), *arguments]
        elsewhere = f'mount --bind "{self.clocks / who}.boot" {BOOT_ID} && exec "$@"'
        if who != "controller":
            command = ["unshare", "-m", "sh", "-c", elsewhere, "sh", *command]
        with open(self.home / "logs" / f"{name}.log", "ab") as out:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, **(environment or {})},
            )  # fmt: skip

    def start_controller(self, environment: Mapping[str, str] | None = None) -> None:
        """Its logs' folder is there before."""
        (self.home / "logs").mkdir(exist_ok=True)
        super().start_controller(environment)

    def pids(self, kind: str) -> list[int]:
        """Who may be killed or frozen, of one kind."""
        kinds: dict[str, Callable[[], list[int]]] = {
            "controller": lambda: [self.controller.pid] if self.controller is not None else [],
            "agent": lambda: [agent.pid for agent in self.agents.values()],
            "policy": self.policies,
            "shim": self.shims,
        }
        return [pid for pid in kinds[kind]() if pid not in self.stopped]

    def thaw(self, everybody: bool = False) -> None:
        """Those whose time has come go on."""
        for pid, until_s in list(self.stopped.items()):
            if everybody or time.monotonic() >= until_s:
                del self.stopped[pid]
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def down(self) -> None:
        """Nothing is left, and nobody frozen."""
        self.thaw(everybody=True)
        for line in self.lines.values():
            line.close()
        super().down()


@dataclass
class Storm:
    """What one storm works with."""

    live: Fleet
    load: Load
    chooser: random.Random
    store: Postgres | None = None
    disk: Path | None = None
    store_line: Line | None = None
    done: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """All the scene's troubles in random order, while jobs come and go and somebody asks about them."""
        scene = self.live.scene
        agenda = [name for name, times in scene.troubles.items() for _ in range(times)]
        self.chooser.shuffle(agenda)
        most = 3 * scene.nodes + 3
        for name in agenda:
            while self.load.unfinished() < most:
                self.load.submit()
            time.sleep(self.chooser.uniform(0.0, 1.0))
            self.ask()
            TROUBLES[name](self)
            self.live.respawn()
        end_fine(self)

    def ask(self) -> None:
        """What people ask, meanwhile: each question has an answer, once the controller has one at all."""
        live, id = self.live, self.chooser.choice(self.load.ids)
        path = self.chooser.choice(
            [f"/v1/jobs/{id}", f"/v1/jobs/{id}/why", "/v1/jobs", "/v1/status", "/v1/nodes"]
        )
        answered(live, "GET", path)
        self.done["asked"] += 1


def answered(live: Fleet, method: str, path: str) -> Any:
    """The answer to a call with nothing in it; whoever is frozen goes on when their time has come."""
    while True:
        try:
            return live.client.call(method, path, {} if method == "POST" else None)
        except Unreachable:
            live.respawn()
        except Refused as error:
            if error.status != 503:
                raise
        time.sleep(0.1)


# -- what happens ------------------------------------------------------------------------------


def trouble_kill(storm: Storm) -> None:
    """kill -9 of somebody, or of all at once."""
    live, kind = (
        storm.live,
        storm.chooser.choices(("shim", "agent", "policy", "controller", "all"), (35, 25, 10, 20, 10))[0],
    )
    kinds = ("shim", "agent", "policy", "controller") if kind == "all" else (kind,)
    for one in kinds:
        if pids := live.pids(one):
            storm.done[f"killed {one}"] += killed(storm.chooser.choice(pids))
    if storm.chooser.random() < 0.3:
        time.sleep(storm.chooser.uniform(0.0, 1.0))  # the others go on without it


def trouble_freeze(storm: Storm) -> None:
    """SIGSTOP, for a moment or for longer than a node may be silent."""
    live, kind = storm.live, storm.chooser.choice(("controller", "agent", "agent", "shim", "policy"))
    if not (pids := live.pids(kind)):
        return
    pid, lasts_s = storm.chooser.choice(pids), storm.chooser.choice([0.1, 0.5, 2.0]) * LOST_AFTER_S
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        live.stopped[pid] = time.monotonic() + lasts_s
        storm.done[f"frozen {kind}"] += 1


def trouble_cut(storm: Storm) -> None:
    """The line of a node is cut, or well again."""
    name = storm.chooser.choice(sorted(storm.live.lines))
    line = storm.live.lines[name]
    if line.mode and storm.chooser.random() < 0.6:
        line.mend()
        storm.done["mended"] += 1
        return
    mode = storm.chooser.choice(MODES)
    line.cut(mode)
    storm.done[f"cut {mode}"] += 1
    time.sleep(storm.chooser.choice([0.1, 0.4 * LOST_AFTER_S, 1.5 * LOST_AFTER_S]))


def trouble_step_clock(storm: Storm) -> None:
    """Somebody sets the clock of a machine; at times it is right again."""
    who = storm.chooser.choice(["controller", *storm.live.nodes])
    ahead_s = storm.chooser.choice([0.0, *STEPS_S])
    set_ahead(storm.live.clocks / who, ahead_s)
    storm.done[f"clock of {'controller' if who == 'controller' else 'agent'}"] += 1


def trouble_restart_store(storm: Storm) -> None:
    """PostgreSQL is away for a while."""
    assert storm.store is not None
    storm.store.stop()
    time.sleep(storm.chooser.uniform(0.0, 3.0))
    storm.live.respawn()
    storm.store.start()
    storm.done["store restarted"] += 1


def trouble_crash_store(storm: Storm) -> None:
    """PostgreSQL is killed with -9, and started again by its init system."""
    assert storm.store is not None
    storm.store.kill()
    time.sleep(storm.chooser.uniform(0.0, 1.0))
    storm.live.respawn()
    storm.store.start()
    storm.done["store killed"] += 1


def trouble_freeze_store(storm: Storm) -> None:
    """PostgreSQL, or only its process that has the lock, takes what comes and says nothing for a while."""
    store, load = storm.store, storm.load
    assert store is not None
    held = "SELECT pid FROM pg_locks WHERE locktype = 'advisory'"
    some = [int(str(pid)) for (pid,) in store.execute(held)] if storm.chooser.random() < 0.5 else []
    end_s = time.monotonic() + storm.chooser.choice([0.5, 3.0, 14.0])
    with store.frozen(*some):
        while time.monotonic() < end_s:
            storm.live.respawn()
            if load.unfinished() < MOST_WAITING:
                load.offer()
            time.sleep(0.3)
    storm.done["store frozen"] += 1


def trouble_break_store(storm: Storm) -> None:
    """An administrator ends the connections to the database, in the middle of whatever they do."""
    assert storm.store is not None
    for _ in range(storm.chooser.randint(1, 4)):
        storm.store.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test%'"
        )
        time.sleep(storm.chooser.uniform(0.0, 0.3))
    storm.done["store's connections ended"] += 1


def trouble_cut_store(storm: Storm) -> None:
    """The line to the store is cut, slow, half open or silent for a while; somebody submits meanwhile."""
    line, load = storm.store_line, storm.load
    assert line is not None
    mode = storm.chooser.choice(MODES)
    line.cut(mode)
    end_s = time.monotonic() + storm.chooser.uniform(0.2, 6.0)
    while time.monotonic() < end_s:
        storm.live.respawn()
        if load.unfinished() < MOST_WAITING:
            load.offer()
        time.sleep(0.3)
    line.mend()
    storm.done[f"store's line {mode}"] += 1


def trouble_stranger(storm: Storm) -> None:
    """An agent of another version of the wire comes: it is refused with a sentence, and harms nobody."""
    live, version = storm.live, PROTOCOL + storm.chooser.choice([-1, 1, 40])
    token = answered(live, "POST", "/v1/agents/token")["token"]
    name = storm.chooser.choice(["stranger", "n1"])
    info = {"name": name, "address": "127.0.0.1", "cpus": 1, "memory_gib": 1, "boot_id": "b", "kind": "cpu"}
    info |= {"devices": [], "protocol": version, "of_the_future": {"x": [1]}}
    with Client(f"http://127.0.0.1:{live.port()}", token, timeout_s=ASK_S) as client:
        try:
            client.call("POST", "/v1/agents/join", info)
            said: Exception | None = None
        except (Refused, Unreachable) as error:
            said = error
    assert said is not None, f"an agent of protocol {version} has joined"
    if isinstance(said, Refused) and said.status != 503:
        assert said.status == 409, said
        assert name == "n1" or "protocol" in str(said), said
    storm.done[f"stranger of protocol {version}"] += 1


def trouble_fill_disk(storm: Storm) -> None:
    """No room for the controller's state, for a while."""
    assert storm.disk is not None
    filler = storm.disk / "filler"
    with suppress(OSError), open(filler, "wb", buffering=0) as out:
        while out.write(b"0" * 65536):
            continue
    time.sleep(storm.chooser.uniform(0.5, 3.0))
    filler.unlink()
    storm.done["disk full"] += 1


def trouble_make_read_only(storm: Storm) -> None:
    """Nobody can write an agent's folder, or anybody's, for a while; some are killed meanwhile."""
    live, load = storm.live, storm.load
    folder = storm.chooser.choice([live.home, *map(live.agent_home, live.nodes)])
    end_s = time.monotonic() + storm.chooser.uniform(0.5, 6.0)
    with read_only(folder):
        while time.monotonic() < end_s:
            if storm.chooser.random() < 0.2:
                trouble_kill(storm)
            live.respawn()
            if load.unfinished() < MOST_WAITING:
                load.offer()
            time.sleep(storm.chooser.uniform(0.0, 0.5))
    storm.done[f"read-only {folder.name}"] += 1


TROUBLES: dict[str, Callable[[Storm], None]] = {
    name.removeprefix("trouble_"): act for name, act in list(globals().items()) if name.startswith("trouble_")
}


# -- load --------------------------------------------------------------------------------------


class StormLoad(Load):
    """Jobs of one slot up to whole gangs; where a node may be lost, some fence themselves."""

    def __init__(self, live: Fleet, evidence: Path, chooser: random.Random) -> None:
        super().__init__(live, evidence, chooser)
        if len(os.sched_getaffinity(0)) >= SLOTS:
            (evidence / "slots").touch()

    def spec(self, kind: str, steps: int | None = None) -> dict[str, Any]:
        spec = super().spec(kind, steps)
        scene = self.live.scene  # type: ignore[attr-defined]
        spec["gpus"] = self.chooser.choice([1, 1, 1, *range(2, SLOTS * scene.nodes + 1)])
        spec["user_retries"] = (
            1000  # who meets itself elsewhere, as one that does not fence itself may, leaves
        )
        spec["self_fence"] = scene.lost_after_s <= LOST_AFTER_S and self.chooser.random() < 0.7
        return spec


class Watchers:
    """People who keep a dashboard open and hardly look: some read slowly, some never."""

    def __init__(self, live: Fleet, number: int) -> None:
        self._live, self._number = live, number
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.opened = 0

    def __enter__(self) -> Watchers:
        if self._number:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._number:
            self._thread.join(10)

    def _watch(self) -> None:
        open_ones: list[socket.socket] = []
        while not self._stop.wait(0.5):
            for one in open_ones[::2]:  # the others never read
                try:
                    if not one.recv(16):
                        one.close()
                except BlockingIOError:
                    continue
                except OSError:
                    one.close()
            open_ones = [one for one in open_ones if one.fileno() >= 0]
            while len(open_ones) < self._number and (new := self._opened()) is not None:
                open_ones.append(new)
        for one in open_ones:
            one.close()

    def _opened(self) -> socket.socket | None:
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(2)
        try:
            one.connect(str(self._live.home / "controller.sock"))
            one.sendall(b"GET /dashboard/stream HTTP/1.1\r\nHost: rota\r\n\r\n")
        except OSError:
            one.close()
            return None
        one.setblocking(False)
        self.opened += 1
        return one


# -- afterwards --------------------------------------------------------------------------------


def end_fine(storm: Storm) -> None:
    """All lines are well, all clocks right, nobody is frozen, and every submission has its answer."""
    storm.live.thaw(everybody=True)
    for line in [*storm.live.lines.values(), *([storm.store_line] if storm.store_line else [])]:
        line.mend()
    for who in ("controller", *storm.live.nodes):
        set_ahead(storm.live.clocks / who, 0.0)
    if storm.load.unanswered is not None:
        storm.load.submit()


def judge(storm: Storm) -> None:
    """What the store and the jobs themselves say."""
    live, load = storm.live, storm.load
    jobs = [one for one in persistently(live, "GET", "/v1/jobs") if one["id"] not in load.before]
    assert sorted(one["id"] for one in jobs) == sorted(load.ids), "jobs were lost or doubled"
    everything = load.words()
    for one in jobs:
        detail = persistently(live, "GET", f"/v1/jobs/{one['id']}")
        judge_job(one, detail, {name: said for name, said in everything.items() if job_of(name) == one["id"]})
    live.until(lambda: not left_over(live), "nothing left of the jobs", left_over(live))
    for node in persistently(live, "GET", "/v1/nodes"):
        assert (node["state"], node["gpus_used"]) == ("up", 0), node
    for node in live.nodes:
        folder = live.agent_home(node)
        live.until(
            lambda f=folder: not list(f.glob("attempts/*/*/launch.json")), f"forgotten attempts of {node}"
        )  # type: ignore[misc]
    judge_slots(live)


def job_of(name: str) -> str:
    """Whose evidence a file is."""
    return name.partition(".")[0]


def judge_job(view: dict[str, Any], detail: dict[str, Any], said: Mapping[str, Counter[str]]) -> None:
    """One job: completed once, never beside itself, never on another's slots, every attempt with one end."""
    id, attempts = view["id"], detail["attempts"]
    assert view["state"] == "COMPLETED", (view, attempts)
    assert said, f"job {id} has completed and left no evidence"
    numbers = [attempt["number"] for attempt in attempts]
    assert numbers == sorted(set(numbers)), attempts
    assert all(attempt["end_s"] is not None for attempt in attempts), attempts
    for attempt in attempts:
        start_s = attempt["start_s"]
        assert start_s is None or start_s <= attempt["end_s"], attempt
    assert [attempt["end"] for attempt in attempts].count("finished") == 1, attempts
    last = max(attempt["number"] for attempt in attempts if attempt["start_s"] is not None)
    assert attempts[last - 1]["end"] == "finished", attempts
    was_lost = any("is not heard of" in attempt["cause"] for attempt in attempts)
    ended = {name for name, words in said.items() if words["END"]}
    assert ended >= {id, *(f"{id}.rank-{k}" for k in range(1, len(attempts[last - 1]["nodes"])))}, (
        said,
        attempts,
    )
    for name, words in said.items():
        assert words["END"] <= 1, f"job {id}, {name}: {words}"
        assert words["AGAIN"] < len(attempts), f"job {id} came to its end again for nothing, {name}: {words}"
        assert not words["SHARED"], f"job {id} had a slot with somebody else, {name}: {words}"
        may_run_on = was_lost and not detail["spec"]["self_fence"]
        assert may_run_on or not words["TWICE"], f"job {id} ran beside itself, {name}: {words}: {attempts}"
    assert 0 <= view["run_s"] <= time.time() - view["submit_s"] + 1, view


def judge_slots(live: Fleet) -> None:
    """On record nobody had a slot while somebody else had it."""
    spans: dict[str, list[tuple[float, float, int]]] = {}
    for start_s, end_s, row, devices in recorded(live):
        for device in json.loads(devices):
            spans.setdefault(str(device), []).append((start_s, end_s, row))
    for device, held in spans.items():
        for (_, end_s, one), (start_s, _, other) in zip(sorted(held), sorted(held)[1:], strict=False):
            assert start_s >= end_s - 1e-6 or one == other, f"device {device}: jobs {one + 1} and {other + 1}"


def recorded(live: Fleet) -> list[tuple[float, float, int, str]]:
    """Start, end, row and devices of all intervals in the store."""
    held = tables.intervals.c
    engine = create_engine(live.config.get("database_url") or f"sqlite:///{live.home / 'rota.db'}")
    with engine.connect() as connection:
        rows = connection.execute(select(held.start_s, held.end_s, held.row, held.devices))
        return [tuple(row) for row in rows]  # type: ignore[misc]


def can_be_elsewhere() -> bool:
    """Whether a process can be given another machine's name here."""
    tool = shutil.which("unshare")
    return (
        os.geteuid() == 0
        and tool is not None
        and not subprocess.run([tool, "-m", "true"], check=False).returncode
    )
