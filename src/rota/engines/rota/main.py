"""`rota agent`: join a cluster once, and take part in it until stopped.

In its folder an agent keeps `token` (mode 0600), `node.json` (its description when it joined), `devices` (the
devices it was configured with) and `lock`, so that two agents never work in one folder.
"""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rota.client.http import Client, Refused, is_loopback
from rota.engines.rota.cuda_checkpoint import probe
from rota.engines.rota.daemon import Agent, AgentSettings
from rota.engines.rota.devices import Devices, open_devices
from rota.engines.rota.folder import read_json, write_json
from rota.engines.rota.identity import boot_id
from rota.engines.rota.usage import machine_memory_gib
from rota.engines.shared.link import FAR_MOST_S, LOCAL_MOST_S, Transport
from rota.errors import InputError, WorldError
from rota.model.atomic import write_secret
from rota.model.hangup import open_logs_anew_on_hangup
from rota.model.readiness import READY, STOPPING, tell_manager
from rota.model.revision import full_version
from rota.model.units import plural
from rota.wire.node_names import check_node
from rota.wire.sync import Joined, NodeInfo

LOG = logging.getLogger("rota.engines.rota")
TOKEN, NODE, LOCK, DEVICES = "token", "node.json", "lock", "devices"
CALL_S = 30.0
SWITCH_S = 0.0005
"""Seconds that a thread with news waits for a working one; Python's default is ten times as long."""
LOCK_S, LOCK_LOOK_S = 5.0, 0.05
"""Seconds to wait for the lock of an agent that was just killed, and between two attempts to take it."""
LEAVING, LEAVING_S = "leaving", 30.0
"""Word in the lock of an agent that is shutting down, and the seconds to wait for it."""


@dataclass(frozen=True)
class Options:
    """Options of `rota agent`."""

    home: Path
    """ROTA_HOME/agent."""
    controller: str
    """URL of the controller, or the path of its UNIX socket."""
    join_token: str = ""
    """Needed the first time, and when the stored token is no longer accepted."""
    devices: str = "auto"
    node: str = ""
    """Name of this node; if empty, the name it joined with before, or the host name."""
    address: str = ""
    """Address at which other nodes reach its jobs; detected if empty."""
    checkpoints: Path | None = None
    suspend_memory_gib: float | None = None
    allow_root: bool = False
    """Jobs of users without an account may run as root, if the agent does."""
    on_ready: Callable[[str], None] = field(default=lambda node: None)
    """Called with the node's name once the controller has answered its agent."""


def run(options: Options) -> int:
    """Take part until SIGTERM, SIGINT or an order of the controller; jobs run on. Returns the exit code.

    Raises WorldError if another agent works in the folder. Raises InputError for unavailable devices, for an
    invalid node name and if a join token is missing; Refused or Unreachable if joining fails.
    """
    open_logs_anew_on_hangup()
    sys.setswitchinterval(SWITCH_S)
    with locked(options.home) as lock:
        devices = open_devices(options.devices)
        membership = Membership(options, devices)
        transport = membership.transport()
        (options.home / DEVICES).write_text(options.devices + "\n", encoding="utf-8")
        settings = AgentSettings(
            options.home,
            membership.node,
            checkpoints=options.checkpoints,
            suspend_memory_gib=options.suspend_memory_gib,
            allow_root=options.allow_root,
            most_s=LOCAL_MOST_S if is_local(options.controller) else FAR_MOST_S,
        )
        has_answered = False

        def answered() -> None:
            nonlocal has_answered
            if not has_answered:
                has_answered = True
                options.on_ready(membership.node)

        agent = Agent(settings, devices, transport, on_denied=membership.again, on_back=answered)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: _leave(lock, agent))
        tell_manager(READY)  # also while the controller is unreachable: its jobs need an agent
        LOG.info(
            "node %s, with %s, calls %s",
            membership.node,
            plural(len(devices.infos()), "device"),
            options.controller,
        )
        agent.run()
    return 0


def _leave(lock: locked, agent: Agent) -> None:
    """Shut down soon; another agent started here meanwhile waits for this one."""
    tell_manager(STOPPING)
    lock.leave()
    agent.stop()


class locked:  # noqa: N801
    """Holds the lock of the agent's folder during the block."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._fd = -1

    def __enter__(self) -> locked:
        path = self._home / LOCK
        try:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o755)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WorldError(
                f"{self._home} cannot be written: {error.strerror}; an agent keeps there what it has begun"
            ) from None
        began_s, said = time.monotonic(), ""
        while not self._taken():
            holder, _, does = os.pread(self._fd, 40, 0).decode(errors="replace").strip().partition(" ")
            holder = holder or "?"
            if time.monotonic() - began_s >= (LEAVING_S if does == LEAVING else LOCK_S):
                os.close(self._fd)
                raise WorldError(f"another agent (process {holder}) works in {self._home}")
            if holder != said:
                LOG.warning("waits for process %s, which still has the lock of %s", holder, self._home)
                said = holder
            time.sleep(LOCK_LOOK_S)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        return self

    def leave(self) -> None:
        """Write that the folder will be free soon; it may be free already if a signal came a second time."""
        if self._fd < 0:
            return
        os.pwrite(self._fd, f"{os.getpid()} {LEAVING}\n".encode(), 0)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __exit__(self, *_: object) -> None:
        fd, self._fd = self._fd, -1  # first, because the number may soon be another file's
        os.close(fd)


class Membership:
    """Name and token of this node in its cluster."""

    def __init__(
        self, options: Options, devices: Devices, connect: Callable[[str, str], Transport] | None = None
    ) -> None:
        self._options, self._devices = options, devices
        self._connect = connect or (lambda address, token: Client(address, token, CALL_S))
        self._said = read_json(options.home / NODE) or {}
        self._is_unknown = False
        """True if the controller does not know our token and that has been logged."""
        self._refusal = ""
        """Why this node may not join again, as last logged."""
        self.node = check_node(options.node or str(self._said.get("name", "")) or socket.gethostname())

    def transport(self) -> Transport:
        """A connection to the controller as this node; joins if necessary."""
        token = self._token()
        if token and self._said == self._info():
            return self._connect(self._options.controller, token)
        if token:
            try:
                return self._join(token)  # with its own token a node can report what has changed
            except Refused as refused:
                if refused.status not in (401, 403) or not self._options.join_token:
                    raise
        return self._join(self._options.join_token)

    def again(self) -> Transport | None:
        """After the token was refused: join again if there is a join token; None if not."""
        if not self._options.join_token:
            if not self._is_unknown:
                LOG.error("this node is not known to the controller; its jobs go on, no others start")
            self._is_unknown = True
            return None
        try:
            return self._join(self._options.join_token)
        except Refused as refused:
            if str(refused) != self._refusal:
                LOG.error("this node may not join again: %s", refused)
            self._refusal = str(refused)
            return None

    def _join(self, token: str) -> Transport:
        if not token and is_url(self._options.controller):
            raise InputError.at(
                f"node {self.node!r} has no token yet",
                field="--token",
                expected="a join token of the cluster",
            )
        info = self._info()
        answer = self._connect(self._options.controller, token).call("POST", "/v1/agents/join", info)
        joined = Joined.model_validate(answer)
        self.node = joined.node
        write_secret(self._options.home / TOKEN, joined.token)
        self._said = {**info, "name": joined.node}
        write_json(self._options.home / NODE, self._said)
        return self._connect(self._options.controller, joined.token)

    def _token(self) -> str:
        try:
            return (self._options.home / TOKEN).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""

    def _info(self) -> dict[str, Any]:
        return node_info(
            self.node, self._devices, self._options.address or own_address(self._options.controller)
        ).model_dump(mode="json")


def node_info(name: str, devices: Devices, address: str) -> NodeInfo:
    """Description of this machine."""
    driver = devices.driver()
    probed = probe(driver)
    return NodeInfo(
        name=name,
        address=address,
        cpus=float(len(os.sched_getaffinity(0))),
        memory_gib=machine_memory_gib(),
        boot_id=boot_id(),
        devices=devices.infos(),
        kind=devices.kind,
        version=full_version(),
        capabilities={
            "cooperative": "yes: programs that import rota.training",
            "signal": "yes" if devices.kind == "cpu" else "no: a stopped process keeps its GPU memory",
            "cuda checkpoint": f"{'yes' if probed.works else 'no'}: {probed.why}",
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            **({"driver": driver} if driver else {}),
        },
    )


def is_url(controller: str) -> bool:
    """Whether a controller is reached over TCP."""
    return controller.startswith(("http://", "https://"))


def is_local(controller: str) -> bool:
    """Whether the controller runs on this machine, judging by its address."""
    if not is_url(controller):
        return True
    return is_loopback(urlsplit(controller).hostname or "")


def own_address(controller: str) -> str:
    """This machine's address towards its controller; loopback if the controller is on this machine."""
    if is_local(controller):
        return "127.0.0.1"
    url = urlsplit(controller)
    try:
        ways = socket.getaddrinfo(url.hostname, url.port or 80, type=socket.SOCK_DGRAM)
    except OSError:
        raise WorldError(f"cannot reach {controller}: no machine {url.hostname!r} is known here") from None
    try:
        family, _, _, _, address = ways[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe_socket:
            probe_socket.connect(address)  # no packet is sent
            return str(probe_socket.getsockname()[0])
    except OSError as error:
        raise WorldError(
            f"cannot find the way to {controller}: {error}; give this node's --address"
        ) from None
