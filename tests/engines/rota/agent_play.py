"""Programs, and an agent on a thread or as a process: what tests of the daemon need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rota.client.http import Refused, Unreachable
from rota.engines.rota.daemon import Agent, AgentSettings
from rota.engines.rota.devices import CpuSlots, Devices
from rota.testing.engine_controller import PATIENCE_S, StandInController
from rota.wire.keeping import Kept
from rota.wire.sync import NodeInfo, PartStatus, SyncRequest, Wanted

OVER = (PartStatus.ENDED, PartStatus.LOST)


def python(text: str) -> list[str]:
    """A command that runs a piece of Python."""
    return [sys.executable, "-c", text]


def until_there(file: Path, code: int = 0) -> list[str]:
    """A command that ends with `code` as soon as there is `file`."""
    return ["sh", "-c", f"until [ -e '{file}' ]; do sleep 0.02; done; exit {code}"]


@contextmanager
def served(controller: StandInController) -> Iterator[str]:
    """The controller of a test, over HTTP; a join token is `join`, an agent's `agent-NODE`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            try:
                self._answer(200, self._result(text, token))
            except Unreachable:
                self.close_connection = True
            except Refused as refused:
                self._answer(refused.status, {"error": str(refused)})

        def _result(self, text: bytes, token: str) -> Any:
            if controller.away:
                raise Unreachable("away")
            if self.path == "/v1/agents/join":
                info = NodeInfo.model_validate_json(text)
                if token not in ("join", f"agent-{info.name}"):
                    raise Refused(403, "that takes a join token")
                joins.append(info)
                return {"node": info.name, "token": f"agent-{info.name}"}
            if not token.startswith("agent-"):
                raise Refused(401, "who are you?")
            form = Kept if self.path.endswith("/kept") else SyncRequest
            return controller.call("POST", self.path, form.model_validate_json(text))

        def _answer(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            try:
                self.wfile.write(data)
            except ConnectionError:  # the agent has been killed meanwhile
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            return

    joins: list[NodeInfo] = []
    controller.joins = joins  # type: ignore[attr-defined]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def process(home: Path, url: str, *more: str, token: str = "join") -> Iterator[subprocess.Popen[bytes]]:
    """`python -m rota.engines.rota`, killed at the end of the block if it still runs."""
    command = [sys.executable, "-m", "rota.engines.rota", "--home", str(home), "--controller", url]
    command += ["--devices", "cpu:2", "--node", "here", *more]
    running = subprocess.Popen(command, env={**os.environ, "ROTA_JOIN_TOKEN": token}, stderr=subprocess.PIPE)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


@contextmanager
def agent_at(
    home: Path, controller: StandInController, devices: Devices | None = None, **more: Any
) -> Iterator[Agent]:
    """An agent on `devices` (two CPU slots) that talks to `controller` meanwhile; its jobs outlive it."""
    home.mkdir(parents=True, exist_ok=True)
    settings = AgentSettings(home, "here", **{"usage_s": 0.3, **more})
    agent = Agent(settings, CpuSlots(2, [0]) if devices is None else devices, controller)
    thread = threading.Thread(target=agent.run)
    thread.start()
    try:
        yield agent
    finally:
        agent.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def end_all(home: Path, controller: StandInController) -> None:
    """Kill whatever still runs, by an agent as ever."""
    controller.come_back()
    controller.stop = False
    for key, one in list(controller.parts.items()):
        if one.wanted not in (Wanted.FORGET, Wanted.KILL):
            controller.change(key, Wanted.KILL)
    with agent_at(home, controller):
        for key, one in list(controller.parts.items()):
            if one.wanted is not Wanted.FORGET:
                controller.status(key, *OVER)
