"""A CUDA driver that is a folder of files, and programs that believe in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rota.engines.rota import cuda_checkpoint
from rota.engines.rota.cuda_driver import LIBRARY, ProcessState

PROGRAM = """
import os, sys, time
mine, steps = os.path.join(os.environ["TOY_CUDA"], str(os.getpid())), 0
with open(mine + ".new", "w") as file:
    file.write("0")
os.rename(mine + ".new", mine)
while True:
    while open(mine).read() != "0":  # a CUDA call of a locked process does not return
        time.sleep(0.005)
    steps += 1
    with open(mine + ".steps", "a") as file:
        file.write(".")
    time.sleep(0.01)
"""


class ToyCuda:
    """What the toy driver knows, and is to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"TOY_CUDA": str(folder)}
        """Of the programs that use it."""

    def holders(self) -> list[int]:
        """Processes that ever had a context."""
        return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdecimal())

    def state(self, pid: int) -> ProcessState:
        return ProcessState(int((self.folder / str(pid)).read_text()))

    def put(self, pid: int, state: ProcessState) -> None:
        """It has a context, in this state."""
        (self.folder / str(pid)).write_text(str(int(state)))

    def steps(self, pid: int) -> int:
        """Steps that a program has done."""
        file = self.folder / f"{pid}.steps"
        return file.stat().st_size if file.exists() else 0

    def mark(self, name: str, text: str = "") -> None:
        """`PID.managed`, `PID.late` (with a number) or `full`."""
        (self.folder / name).write_text(text)

    def unmark(self, name: str) -> None:
        (self.folder / name).unlink()


def install(folder: Path, patch: pytest.MonkeyPatch) -> ToyCuda:
    """Have programs that this one starts find the toy in place of a driver."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder.mkdir()
    (folder / "states").mkdir()
    source = Path(__file__).with_name("toy_cuda.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(folder / LIBRARY), str(source)], check=True)
    patch.setenv("LD_LIBRARY_PATH", str(folder))  # of programs that this one starts
    patch.setattr(cuda_checkpoint, "_library_has_them", lambda: True)
    patch.setenv("TOY_CUDA", str(folder / "states"))
    return ToyCuda(folder / "states")


def program() -> list[str]:
    """A command that computes on the toy until it is killed."""
    return [sys.executable, "-c", PROGRAM]
