"""A cluster whose wall clock somebody sets: controller, agents, shims and jobs read one that a file moves.

`stepped_clock.c` is preloaded, so that compiled programs see it as well; the compiled shim is linked anew for
that, since an installed one is static.  Monotonic clocks, and the times of files, go as they go.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster
from own_clock import set_ahead

from rota.engines.rota import native

RUN = """
import runpy, sys
from pathlib import Path
from rota.engines.rota import native
native.PROGRAM = Path(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""python -c RUN SHIM MODULE [ARGUMENT...]: a module of ours, and the shim that it uses."""


def compiled(folder: Path, ahead: Path) -> tuple[Path, Path]:
    """The library that moves the clock as `ahead` says, and a shim that heeds it; skips without compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library, shim = folder / "stepped_clock.so", folder / "shim-stepped"
    source, ours = Path(__file__).with_name("stepped_clock.c"), native.PROGRAM.with_name("shim.c")
    moved = [compiler, f'-DAHEAD="{ahead}"', "-O1"]
    subprocess.run([*moved, "-shared", "-fPIC", "-o", library, source], check=True)
    subprocess.run([*moved, "-o", shim, ours, source, "-lm"], check=True)
    return library, shim


class SteppedCluster(LiveCluster):
    """`step` sets the wall clock of all processes at once."""

    def __init__(self, folder: Path, **config: Any) -> None:
        super().__init__(folder, **config)
        self._ahead = folder / "ahead"
        self.step(0.0)
        library, shim = compiled(folder, self._ahead)
        self._more, self._shim = {"LD_PRELOAD": str(library)}, str(shim)

    def step(self, ahead_s: float) -> None:
        """From now on the wall clock is so many seconds ahead of the machine's."""
        set_ahead(self._ahead, ahead_s)

    def command(self, *words: str) -> str:
        """What `rota WORDS` prints, by the clock that was set."""
        done = subprocess.run(
            [sys.executable, "-m", "rota.cli.main", *words],
            env={**os.environ, **self._more, "ROTA_HOME": str(self.home), "COLUMNS": "160"},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    def _spawn(
        self, name: str, arguments: list[str], environment: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        (folder := self.home / "logs").mkdir(exist_ok=True)
        with open(folder / f"{name}.log", "ab") as out:
            return subprocess.Popen(
                [sys.executable, "-c", RUN, self._shim, *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, **self._more, **(environment or {})},
            )  # fmt: skip
