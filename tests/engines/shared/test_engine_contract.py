"""Real agents and the machines that tests make up keep the contract of engines."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from agent_play import end_all, process, served
from site_play import Machine, Site
from site_play import Program as MadeUpProgram

from rota.testing.engine_contract import Program, engine_contract
from rota.testing.engine_controller import PATIENCE_S, Key, StandInController
from rota.wire.sync import Part
from rota.worlds.live.inbox import ReportTold

LOOK_S = 0.02


class AgentNode:
    """`python -m rota.engines.rota` with two CPU slots, over HTTP."""

    def __init__(self, folder: Path) -> None:
        self.home, self.running, self.open = folder / "agent", ExitStack(), ExitStack()
        self.controller: StandInController | None = None

    def begin(self, controller: StandInController) -> None:
        if self.controller is None:
            self.controller = controller
            self.url = self.open.enter_context(served(controller))
        self.running.enter_context(process(self.home, self.url))

    def kill(self) -> None:
        self.running.close()

    def command(self, program: Program) -> list[str]:
        return {
            Program.STAYS: ["sleep", "600"],
            Program.ENDS: ["true"],
            Program.FAILS: ["sh", "-c", "exit 3"],
        }[program]

    def working(self) -> set[Key]:
        """As the environment of ranks tells that are not stopped; shims are no ranks."""
        mark = f"ROTA_ATTEMPT_DIR={self.home}/attempts/".encode()
        keys = set()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:  # it has gone, or is somebody else's
                continue
            if mark in environment and b"\0RANK=" in environment and state not in "TZ":
                row, attempt = environment.partition(mark)[2].split(b"\0")[0].split(b"/")[:2]
                keys.add((int(row), int(attempt)))
        return keys

    def until(self, holds: Callable[[], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end_s, "it never came about"
            time.sleep(LOOK_S)

    def close(self) -> None:
        self.running.close()
        self.open.close()
        if self.controller is not None:
            end_all(self.home, self.controller)


class MadeUpNode:
    """A machine as `site_play` makes it up, in time that jumps; it takes this for its site."""

    def __init__(self, folder: Path) -> None:
        self.time, self.heard = SimpleNamespace(now=0.0), dict[str, float]()
        self.programs: dict[int, MadeUpProgram] = {}
        self.desk = self.directives = self.inbox = self

    # -- what the machine asks of its site -------------------------------------------------------

    @property
    def incarnation(self) -> str:
        return self.controller.incarnation

    def put(self, told: ReportTold) -> None:
        self.controller.sync(told.request.model_copy(update={"wait_s": 0.0}))

    def since(self, node: str, seen: int) -> list[Part]:
        newer = [part for part in self.controller.parts.values() if part.version > seen]
        for part in newer:
            work_s, ends = WORK[part.command[0]]
            self.programs.setdefault(part.row, MadeUpProgram(work_s, ends))
        return sorted(newer, key=lambda part: part.version)

    # -- what the contract asks of a node --------------------------------------------------------

    def begin(self, controller: StandInController) -> None:
        self.controller = controller
        if not hasattr(self, "machine"):
            self.machine = Machine("here", 2, cast(Site, self))
        self.machine.is_up = True
        self.machine.forget()

    def kill(self) -> None:
        self.machine.is_up = False

    def command(self, program: Program) -> list[str]:
        return [program.value]

    def working(self) -> set[Key]:
        return {key for key, body in self.machine.bodies.items() if body.is_running}

    def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(TURNS):
            if holds():
                return
            self.time.now += 0.5
            self.machine.happen()
            self.machine.sync()
        raise AssertionError("it never came about")

    def close(self) -> None:
        """Nothing of it is anywhere but here."""


WORK = {"stays": (1e9, "ok"), "ends": (1.0, "ok"), "fails": (1.0, "fail")}
"""By command: seconds of work, and how it ends."""
TURNS = 200
BUT = {
    "absence_kills_only_when_it_is_whole": "it lets live whatever is not named",
    "what_fences_itself_is_gone_when_the_controller_is_silent": "it does not count how long it was alone",
}
"""What made-up machines leave out."""

test_agent = pytest.mark.slow(engine_contract(AgentNode))
test_made_up_machine = engine_contract(MadeUpNode, but=BUT)
