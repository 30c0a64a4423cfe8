"""Policies that misbehave in one way each, for ROTA_POLICY_MODULES."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from rota.knowledge.needs import Knowledge
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import register
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority import ByPriority
from rota.systems.tiresias.system import Tiresias


@dataclass(frozen=True)
class OddParameters:
    """Which way, and a folder for what has to be seen from outside."""

    how: str = ""
    folder: str = ""


@register("odd", "Misbehaves on demand", parameters=OddParameters)
class Odd:
    """Counts its calls in its memory; misbehaves at the second call of each process, or as `how` says."""

    needs: frozenset[Knowledge] = frozenset()

    def __init__(self, parameters: OddParameters | None = None) -> None:
        self.p = parameters or OddParameters()
        self.inner = ByPriority(lambda snapshot, row: row)
        self.misforms = self.spoils = False

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        memory["calls"] = memory.get("calls", 0) + 1
        if memory["calls"] >= 2 and not (Path(self.p.folder) / "well").exists():
            getattr(self, self.p.how)(memory)
        decision = self.inner.decide(snapshot, memory, Wake())
        if self.spoils:
            snapshot.occupancy.hold(Grant(0, (3,)))
        return replace(decision, wake=5) if self.misforms else decision  # type: ignore[arg-type]

    def leave(self, memory: Memory) -> None:
        sys.exit(3)

    def misform(self, memory: Memory) -> None:
        self.misforms = True

    def spoil(self, memory: Memory) -> None:
        self.spoils = True

    def hang(self, memory: Memory) -> None:
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        written = Path(self.p.folder) / "helper.part"
        written.write_text(str(helper.pid))
        written.rename(written.with_name("helper"))  # whoever waits for it finds it whole
        while True:
            pass

    def fail(self, memory: Memory) -> None:
        memory["calls"] = 1000
        raise ZeroDivisionError("nobody can divide by zero")

    def die(self, memory: Memory) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def babble(self, memory: Memory) -> None:
        """Finds the pipe and writes into it."""
        print("to standard output, which is no pipe")
        self._write(b"0123456789 garbage that is no message" * 3)

    def inject(self, memory: Memory) -> None:
        """An answer that would run code in the controller."""
        target = Path(self.p.folder) / "pwned"
        answer = pickle.dumps({"number": _Evil(str(target))})
        self._write(struct.pack("<Q", len(answer)) + answer)
        time.sleep(60)

    def _write(self, data: bytes) -> None:
        for fd in sorted(int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2):
            try:
                is_socket = os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
            except OSError:
                continue
            if is_socket:
                os.write(fd, data)

    def unstorable(self, memory: Memory) -> None:
        memory["seen"] = {1, 2}

    def nothing(self, memory: Memory) -> None:
        self.inner = _Nothing()  # type: ignore[assignment]

    def swell(self, memory: Memory) -> None:
        """Allocates slowly: busy, growing, never done."""
        kept = []
        while True:
            kept.append(bytearray(1 << 16))
            time.sleep(0.01)

    def gorge(self, memory: Memory) -> None:
        """Allocates without end, as fast as it can."""
        kept = []
        while True:
            kept.append(b"x" * (1 << 24))

    def tell_seed(self, memory: Memory) -> None:
        """Behaves well."""


class _Nothing:
    """Decides nothing; a class of its own, since nothing can be set on an instance of a compiled one."""

    def decide(self, *_: object) -> None: ...


class _Evil:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.target,)


@register("levelled", "Two ranks only: those with priority, and the rest")
class Levelled:
    """Many ties, so that victims can be chosen by cost."""

    needs: frozenset[Knowledge] = frozenset()

    def __init__(self) -> None:
        self.inner = ByPriority(
            lambda snapshot, row: -snapshot.jobs.table.priority.item(row), preemptive=True
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)


class _NoOrder:
    """Cannot say who is before whom."""

    spreads = True

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        raise IndexError(f"no place for row {row}")

    def fits(self, snapshot: Snapshot, scratch: object, row: int) -> bool:
        return True


@register("inexplicable", "Decides well, and breaks when asked why")
class Inexplicable:
    """For explanations that fail."""

    needs: frozenset[Knowledge] = frozenset()

    def __init__(self) -> None:
        self.inner = ByPriority(lambda snapshot, row: row)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return replace(self.inner.decide(snapshot, memory), ranking=_NoOrder())


class _OffByOne:
    """Names a job that does not exist as the one before each."""

    spreads = True

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        return [len(snapshot.jobs)]

    def in_turn(self, snapshot: Snapshot) -> list[int]:
        return [-1]

    def fits(self, snapshot: Snapshot, scratch: object, row: int) -> bool:
        return True


@register("off_by_one", "Decides well, and names jobs that do not exist when asked why")
class OffByOne(Inexplicable):
    """For orders that cannot be."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return replace(self.inner.decide(snapshot, memory), ranking=_OffByOne())


@register("sleepy", "Tiresias that takes its time")
class Sleepy:
    """For watching what happens meanwhile: decides once the file `go` is there."""

    needs: frozenset[Knowledge] = frozenset()

    def __init__(self) -> None:
        self.inner = Tiresias()
        self.folder = Path(
            os.environ.get("SLEEPY_FOLDER", os.devnull)
        )  # whoever lists all policies makes it too

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        (self.folder / "asked").touch()
        while not (self.folder / "go").exists():
            time.sleep(0.01)
        return self.inner.decide(snapshot, memory)
