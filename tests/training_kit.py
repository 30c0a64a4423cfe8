"""Runs programs that import rota.training as ranks of one gang, and speaks the agent's side."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from rota.engines.rota.ports import free_port
from rota.training import protocol
from rota.training.protocol import Directive, RankState

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "training"
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
"""For programs that import it; nobody imports it to find out."""
PATIENCE_S = 600.0
"""Gangs load torch several times over and take leave of it, with the share of a core that is left to them."""


def until(true: Callable[[], bool], why: Callable[[], str]) -> None:
    """Poll for something another process does; fails after some minutes."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, f"waited {PATIENCE_S:g} s for {why()}"
        time.sleep(0.003)


class Gang:
    """One attempt: `size` processes of one program over `nodes` nodes, each node with a folder of its own.

    `checkpoints` may contain `{node}`: folders that nodes do not share.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str | Path],
        size: int = 1,
        nodes: int = 1,
        checkpoints: Path | None = None,
        restore: Sequence[Path] = (),
        env: dict[str, str] | None = None,
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        self.size, self.local = size, size // nodes
        self.folders = [folder / f"node-{node}" for node in range(nodes)]
        for one in self.folders:
            protocol.prepare(one)
        self.output = [folder / f"rank-{rank}.log" for rank in range(size)]
        shared = {
            key: value for key, value in os.environ.items() if not key.startswith(("ROTA_", "COV", "PYTEST"))
        }
        shared |= {
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(self.local),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT / "src"),
            "ROTA_RESTORE_DIRS": ":".join(map(str, restore)),
        }
        shared |= env or {}
        self.ranks = []
        for rank in range(size):
            own = shared | {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank % self.local),
                "GROUP_RANK": str(rank // self.local),
                "ROTA_TRAINING_DIR": str(self.folders[rank // self.local]),
            }
            if checkpoints is not None:
                own["ROTA_CHECKPOINT_DIR"] = str(checkpoints).format(node=rank // self.local)
            with self.output[rank].open("w") as log:
                self.ranks.append(
                    subprocess.Popen([*python, *map(str, command)], env=own, stdout=log, stderr=log)
                )

    @property
    def folder(self) -> Path:
        return self.folders[0]

    def __enter__(self) -> Gang:
        return self

    def __exit__(self, *problem: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL, all of them."""
        for process in self.ranks:
            process.kill()
            process.wait()

    def tell(self, do: str, **details: object) -> int:
        """One directive to all nodes."""
        directive = Directive(do, **details)  # type: ignore[arg-type]
        return max(protocol.command(one, directive) for one in self.folders)

    def states_of(self, node: int) -> dict[int, RankState]:
        """Of the ranks of one node that have spoken, by rank."""
        return protocol.ranks(self.folders[node], self.ranks_of(node))

    def ranks_of(self, node: int) -> range:
        """The ranks of one node."""
        return range(node * self.local, (node + 1) * self.local)

    def states(self) -> list[RankState]:
        """Of all ranks that have spoken."""
        return [state for node in range(len(self.folders)) for state in self.states_of(node).values()]

    def log(self) -> str:
        return "\n".join(path.read_text() for path in self.output)

    def wait_states(self, *wanted: str, sequence: int = 0, step: int = 0) -> list[RankState]:
        """Until every rank is in one of these states."""

        def there() -> bool:
            for process in self.ranks:
                assert process.poll() in (None, 0, protocol.LEAVE_CODE), self.log()
            self.settle()
            found = self.states()
            return len(found) == self.size and all(
                one.state in wanted and one.sequence >= sequence and one.step >= step for one in found
            )

        until(there, lambda: f"{wanted} of {self.size} ranks; they are {self.states()}")
        return self.states()

    def settle(self) -> None:
        """What the agent does for plain loops."""
        if self.size > 1:
            for node, folder in enumerate(self.folders):
                states = self.states_of(node).values()
                if any(state.capability.get("agreement") == "agent" for state in states):
                    protocol.settle(folder, self.ranks_of(node))

    def wait(self) -> list[int]:
        """Exit codes of all ranks."""

        def ended() -> bool:
            self.settle()
            return all(process.poll() is not None for process in self.ranks)

        until(ended, lambda: f"the end of all ranks; {self.log()}")
        return [process.returncode for process in self.ranks]
