"""A real cluster in a folder: a controller and agents as processes, killed at the end whatever happens.

`with LiveCluster(tmp_path, devices="cpu:2", policy="fifo") as live: live.submit("sleep", "1", gpus=2)`
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from json import dumps
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import yaml

from new_store import put_new_store
from rota.client import Client, Refused, Unreachable, route
from rota.server.config import ONLY_IN_FILE

PATIENCE_S = 60.0
"""How long anything may take on a busy machine before the test has failed."""
LOOK_S, LOOK_MOST_S = 0.01, 0.1
"""Between two looks at first, and at most: looking is work for the machine, too."""
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
T = TypeVar("T")


class LiveCluster:
    """`devices` of the first agent, and settings as `Config` names them (durations as floats, in s).

    `home` is ROTA_HOME; `client` is an admin's, over the socket.
    """

    def __init__(self, folder: Path, devices: str = "cpu:2", node: str = "n1", **config: Any) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.devices, self.node = devices, node
        self.config = {"min_run": 0.0, **config}
        self.client = Client(str(self.home / "controller.sock"))
        self.controller: subprocess.Popen[bytes] | None = None
        self.agents: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> LiveCluster:
        try:
            return self.up()
        except BaseException:
            self.down()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # -- processes -------------------------------------------------------------------------------

    def up(self) -> LiveCluster:
        """Controller and first agent; returns once the node takes part."""
        self.start_controller()
        self.start_agent(self.node, self.devices)
        return self

    def start_controller(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it (again); returns once it answers.  `environment` is added to this process's."""
        in_file = {key: value for key, value in self.config.items() if key in ONLY_IN_FILE}
        (self.home / "config.yaml").write_text(yaml.safe_dump(in_file))
        put_new_store(self.home)
        flags = {key: value for key, value in self.config.items() if key not in ONLY_IN_FILE}
        arguments = ["rota.server.main", "--home", str(self.home), "--flags", dumps(flags)]
        self.controller = self._spawn("controller", arguments, environment)
        self.until(self._answers, "a controller that answers", self.controller)

    def start_agent(
        self, node: str = "", devices: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the agent of `node` (again); returns once it takes part."""
        node = node or self.node
        agent = self.begin_agent(node, devices, environment)
        self.until(lambda: self.node_state(node) in ("up", "drained", "draining"), f"node {node}", agent)

    def begin_agent(
        self, node: str, devices: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """The agent of `node`, whether it may take part or not."""
        folder = self.agent_home(node)
        arguments = ["rota.engines.rota", "--home", str(folder), "--node", node]
        arguments += ["--controller", str(self.home / "controller.sock")]
        arguments += ["--devices", devices or self.devices]
        agent = self.agents[node] = self._spawn(f"agent-{node}", arguments, environment)
        return agent

    def agent_home(self, node: str = "") -> Path:
        """The folder of an agent, `agent` for the first."""
        return self.home / ("agent" if node in ("", self.node) else f"agent-{node}")

    def kill_controller(self) -> None:
        """kill -9; jobs run on.  `start_controller` brings it back."""
        _kill(self.controller)
        self.controller = None

    def kill_agent(self, node: str = "") -> None:
        """kill -9; jobs run on.  `start_agent` brings it back."""
        _kill(self.agents.pop(node or self.node, None))

    def down(self) -> None:
        """End every process of this cluster, those of its jobs too."""
        for agent in list(self.agents):
            self.kill_agent(agent)
        self.kill_controller()
        self.client.close()
        until = time.monotonic() + PATIENCE_S
        while left := list(processes_under(self.home)):
            for pid in left:
                _signal(pid)
            assert time.monotonic() < until, f"processes {left} cannot be killed"
            time.sleep(LOOK_S)

    def _spawn(
        self, name: str, arguments: list[str], environment: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        folder = self.home / "logs"
        folder.mkdir(exist_ok=True)
        with open(folder / f"{name}.log", "ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    def _answers(self) -> bool:
        try:
            return bool(self.client.call("GET", "/health")["ok"])
        except (Unreachable, Refused):
            return False

    # -- what tests do ---------------------------------------------------------------------------

    def submit(self, *command: str, **spec: Any) -> str:
        """Submit a job (or an array) with `spec` as `JobSpec` has it; the id of the (first) job.

        Programs have all the time in the world to leave, unless their test is about those that do not.
        """
        body = {"spec": {"command": list(command or ("sleep", "600")), "grace_s": PATIENCE_S, **spec}}
        return str(self.client.call("POST", "/v1/jobs", body)["jobs"][0]["id"])

    def job(self, id: str) -> dict[str, Any]:
        """The `JobView` of a job, as JSON."""
        found: dict[str, Any] = self.client.call("GET", route("v1", "jobs", id))["job"]
        return found

    def act(self, id: str, verb: str, **body: Any) -> dict[str, Any]:
        """cancel, hold, release, suspend, resume or requeue a job."""
        done: dict[str, Any] = self.client.call("POST", route("v1", "jobs", id, verb), body)
        return done

    def why(self, id: str) -> dict[str, Any]:
        """`rota why`, as JSON."""
        found: dict[str, Any] = self.client.call("GET", route("v1", "jobs", id, "why"))
        return found

    def wait(self, id: str) -> dict[str, Any]:
        """The `JobView` of a job that has ended: the controller says when."""
        path, end_s = route("v1", "jobs", id, "wait"), time.monotonic() + PATIENCE_S
        while True:
            seen: dict[str, Any] = self.client.call("GET", path, query={"wait_s": 60}, timeout_s=90.0)
            if seen["state"] in ENDED:
                return seen
            assert time.monotonic() < end_s, f"not seen: the end of job {id} ({seen})\n{self.logs()}"

    def reaches(self, id: str, *states: str) -> dict[str, Any]:
        """The `JobView` of a job once it is in one of these states."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update(self.job(id))
            return seen["state"] in states

        self.until(there, f"job {id} {' or '.join(states)}", seen)
        return seen

    def node_state(self, name: str) -> str:
        """State of a node, empty if it has not joined."""
        nodes = self.client.call("GET", "/v1/nodes")
        return next((str(node["state"]) for node in nodes if node["name"] == name), "")

    def until(self, look: Callable[[], T], what: str, about: object = None) -> T:
        """Look until it is true; `about` is shown if it never is, and a process must not end meanwhile."""
        end_s, look_s = time.monotonic() + PATIENCE_S, LOOK_S
        while not (found := look()):
            has_ended = isinstance(about, subprocess.Popen) and about.poll() is not None
            if has_ended or time.monotonic() > end_s:
                raise AssertionError(f"not seen: {what} ({about})\n{self.logs()}")
            time.sleep(look_s)
            look_s = min(1.2 * look_s, LOOK_MOST_S)
        return found

    def logs(self) -> str:
        """The ends of all logs, for a test that fails."""
        tails = (
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted((self.home / "logs").glob("*.log"))
        )
        return "\n".join(tails)


def processes_under(home: Path) -> Iterator[int]:
    """Processes of attempts in `home`, as their environment tells, and those whose arguments name it."""
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            environment = (folder / "environ").read_bytes()
            arguments = (folder / "cmdline").read_bytes()
            is_dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:  # it has gone, or is somebody else's
            continue
        mine = f"ROTA_ATTEMPT_DIR={home}/".encode() in environment
        if not is_dead and (mine or f"\0{home}\0".encode() in arguments):
            yield int(folder.name)


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
