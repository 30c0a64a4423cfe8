"""The controller of a large cluster: real API, store, scheduler and policy process; the machines are made up.

python benchmarks/fleet.py [--nodes 1250] [--gpus 8] [--jobs 5000] [--policy fifo]

Every machine is a pair of connections that speaks the agents' protocol (a question that waits, news that is
told at once), all in one process beside the controller; programs start at once and end when their time is up.
What starting a real process costs is not in these figures; `live.py` has it.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from live_common import Cluster, Spread, cluster, costs, load, ms, until

HEADERS = "Host: fleet\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
GIB_OF_A_GPU = 80.0
USAGE_EVERY_S = 30.0


class ControllerStopsError(Exception):
    """The controller is going: the benchmark is over."""


class Line:
    """One connection that is kept, for one call at a time."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._where, self._token = (host, port), token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST; the parsed answer, which has to be a success."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._where)
        reader, writer = self._streams
        data = json.dumps(body).encode()
        headers = HEADERS.format(token=self._token) + f"Content-Length: {len(data)}\r\n\r\n"
        writer.write(f"POST {path} HTTP/1.1\r\n{headers}".encode() + data)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(answer.partition("content-length:")[2].split()[0])
        content: dict[str, Any] = json.loads(await reader.readexactly(size))
        if answer.startswith("http/1.1 503"):
            raise ControllerStopsError
        if not answer.startswith("http/1.1 20"):
            raise SystemExit(f"{path}: {answer.splitlines()[0]}: {content}")
        return content


@dataclass
class Machine:
    """One made-up node: what it was told, what it still has to tell."""

    name: str
    gpus: int
    host: str
    port: int
    fleet: Fleet
    token: str = ""
    parts: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    """Newest report of each part."""
    news: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    ends: list[tuple[float, tuple[int, int]]] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    controller: str = ""
    seen: int = 0

    async def join(self, token: str) -> None:
        devices = [
            {"index": i, "type": "H100", "memory_gib": GIB_OF_A_GPU, "uuid": f"{self.name}-{i}"}
            for i in range(self.gpus)
        ]
        info = {
            "name": self.name, "address": "127.0.0.1", "cpus": 128, "memory_gib": 1024, "boot_id": self.name,
            "devices": devices, "kind": "nvidia",
        }  # fmt: skip
        answer = await Line(self.host, self.port, token).call("/v1/agents/join", info)
        self.token = answer["token"]

    async def live(self) -> None:
        """For ever."""
        await asyncio.gather(self._listen(), self._tell(), self._work())

    async def _listen(self) -> None:
        line = Line(self.host, self.port, self.token)
        while True:
            is_first = not self.controller
            reports = list(self.parts.values()) if is_first else []
            self._take(await self._sync(line, 20.0 if not is_first else 0.0, reports, complete=is_first))

    async def _tell(self) -> None:
        line = Line(self.host, self.port, self.token)
        while True:
            await self.wake.wait()
            self.wake.clear()
            if self.controller and self.news:
                told, self.news = list(self.news.values()), {}
                self._take(await self._sync(line, 0.0, told))

    async def _sync(
        self, line: Line, wait_s: float, reports: list[dict[str, Any]], complete: bool = False
    ) -> dict[str, Any]:
        request = {
            "incarnation": self.name, "seen": self.seen, "controller": self.controller,
            "wait_s": wait_s, "reports": reports, "complete": complete,
        }  # fmt: skip
        return await line.call(f"/v1/agents/{self.name}/sync", request)

    def _take(self, reply: dict[str, Any]) -> None:
        if reply["controller"] != self.controller:
            self.controller, self.seen = reply["controller"], 0
        self.seen = max(self.seen, reply["version"])
        for part in reply["parts"]:
            self._obey(part, (part["row"], part["attempt"]))

    def _obey(self, part: dict[str, Any], key: tuple[int, int]) -> None:
        wanted = part["wanted"]
        if wanted == "forget":
            self.parts.pop(key, None)
        elif wanted == "run" and key not in self.parts:
            self.fleet.started.setdefault(part["job"], time.time())
            self._say(key, "running", started_s=time.time(), port=part["port"] or 20000 + key[0] % 30000)
            heapq.heappush(self.ends, (time.monotonic() + float(part["command"][1]), key))
        elif wanted in ("leave", "stop", "kill", "suspend") and self._runs(key):
            self._end(key, code=None if wanted == "kill" else 85)

    def _runs(self, key: tuple[int, int]) -> bool:
        return key in self.parts and self.parts[key]["status"] == "running"

    def _say(self, key: tuple[int, int], status: str, **more: Any) -> None:
        report = {"row": key[0], "attempt": key[1], "status": status, "since_s": time.time(), **more}
        self.parts[key] = self.news[key] = report
        self.wake.set()

    def _end(self, key: tuple[int, int], code: int | None) -> None:
        end = {"ended_s": time.time(), "code": code, "signal": 9 if code is None else None}
        self._say(key, "ended", started_s=self.parts[key]["started_s"], end=end)

    async def _work(self) -> None:
        """Programs end in time; what they use is told now and then."""
        looked = time.monotonic()
        while True:
            await asyncio.sleep(0.05)
            while self.ends and self.ends[0][0] <= time.monotonic():
                _, key = heapq.heappop(self.ends)
                if self._runs(key):
                    self._end(key, code=0)
            if time.monotonic() - looked > USAGE_EVERY_S:
                looked = time.monotonic()
                for key, report in self.parts.items():
                    if report["status"] == "running":
                        usage = {"at_s": time.time(), "cpu_cores": 1.0, "gpu_utilisation": 0.9}
                        self.news[key] = {**report, "usage": usage}
                self.wake.set()


@dataclass
class Fleet:
    """All machines; when each job was first told to one of them."""

    started: dict[str, float] = field(default_factory=dict)

    async def run(self, host: str, port: int, token: str, nodes: int, gpus: int) -> None:
        machines = [Machine(f"n{i:04}", gpus, host, port, self) for i in range(nodes)]
        began = time.monotonic()
        for first in range(0, nodes, 32):
            await asyncio.gather(*(machine.join(token) for machine in machines[first : first + 32]))
        print(json.dumps({"joined_s": time.monotonic() - began}), flush=True)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._answer)
        try:
            await asyncio.gather(*(machine.live() for machine in machines))
        except (ControllerStopsError, ConnectionError, asyncio.IncompleteReadError):
            os._exit(0)

    def _answer(self) -> None:
        """A line on standard input asks when jobs were started; none are there any more after that."""
        if not sys.stdin.readline():
            sys.exit(0)
        print(json.dumps(self.started), flush=True)
        self.started.clear()


class Machines:
    """The fleet's process, from outside."""

    def __init__(self, rota: Cluster, nodes: int, gpus: int) -> None:
        url = urlsplit(json.loads((rota.home / "controller.json").read_text())["url"])
        token = rota.client.call("POST", "/v1/agents/token", {})["token"]
        where = [str(url.hostname), str(url.port), str(nodes), str(gpus)]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--machines", *where],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(f"{token}\n")  # one that begins with `-` would be an option
        self._process.stdin.flush()
        self.joined_s: float = self._line()["joined_s"]

    def started(self) -> dict[str, float]:
        """Unix time at which each job was told to its machines, since this was last asked."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def waits_of_others(rota: Cluster) -> Iterator[list[float]]:
    """What `rota status` waits while something else is going on."""
    waits: list[float] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.05):
            began = time.monotonic()
            rota.status()
            waits.append(time.monotonic() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join()


def controller_costs(rota: Cluster, span_s: float) -> str:
    """What the controller and its policy use."""
    used = costs(rota.processes_of_controller(), span_s)
    return ", ".join(
        f"{name} {part * 100:.1f} % of a core, {used.memory_mb[name]:.0f} MB"
        for name, part in used.cores.items()
    )


def measure(nodes: int, gpus: int, jobs: int, policy: str) -> None:
    print(f"{nodes} machines with {gpus} GPUs each, {policy}; {load()}")
    with ExitStack() as stack:
        there: list[Machines] = []
        stack.callback(
            lambda: [machines.close() for machines in there]
        )  # after the cluster: they end its jobs
        rota = stack.enter_context(cluster(0, policy))
        machines = Machines(rota, nodes, gpus)
        there.append(machines)
        print(f"all have joined after             {machines.joined_s:.1f} s")
        began = time.time()
        up_s = until(lambda: rota.status()["gpus"] == nodes * gpus, 600, 0.05) - began
        print(f"and can be scheduled after        {up_s:.1f} s more")
        print(f"idle                              {controller_costs(rota, 20)}")
        first_starts(rota, machines)
        burst(rota, machines, jobs)
        steady(rota, machines, jobs)


def first_starts(rota: Cluster, machines: Machines) -> None:
    """One job after the other on an empty cluster."""
    waits = []
    machines.started()
    for _ in range(30):
        asked = time.time()
        id = rota.submit(["work", "0"])
        rota.wait(id)
        waits.append(machines.started()[id] - asked)
    print("submit -> the machine is told     ", Spread(tuple(waits)))


def burst(rota: Cluster, machines: Machines, jobs: int) -> None:
    """An array of short jobs."""
    before = rota.status()["finished"]
    with waits_of_others(rota) as waits:
        began = time.time()
        rota.client.call(
            "POST", "/v1/jobs", {"spec": {"command": ["work", "1"], "workdir": "/", "array": f"1-{jobs}"}}
        )
        end = until(lambda: rota.status()["finished"] - before >= jobs, 600, 0.2)
    told = [at - began for at in machines.started().values()]
    print(f"{jobs} jobs of 1 s: all told after   {max(told):.1f} s (median {statistics.median(told):.1f})")
    print(f"  all on record as ended after    {end - began:.1f} s: {jobs / (end - began):.0f} jobs/s")
    print(f"  `rota status` meanwhile         median {ms(statistics.median(waits))}, worst {ms(max(waits))}")


def steady(rota: Cluster, machines: Machines, jobs: int) -> None:
    """As many long jobs run; nothing else happens."""
    rota.client.call(
        "POST", "/v1/jobs", {"spec": {"command": ["work", "9999"], "workdir": "/", "array": f"1-{jobs}"}}
    )
    until(lambda: rota.status()["running"] >= jobs, 600, 0.2)
    time.sleep(5)
    print(f"{jobs} jobs run                     {controller_costs(rota, 40)}")


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--machines", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if given.machines:
        host, port, nodes, gpus = given.machines
        token = sys.stdin.readline().strip()
        asyncio.run(Fleet().run(host, int(port), token, int(nodes), int(gpus)))
    else:
        measure(given.nodes, given.gpus, given.jobs, given.policy)


if __name__ == "__main__":
    main()
