"""A program whose wall clock is set as a test likes: python own_clock.py FILE MODULE [ARGUMENT...]

FILE holds, as 8 bytes, by how many seconds it is ahead of the machine's.  Monotonic clocks go as they go.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

AHEAD = struct.Struct("d")


def set_ahead(path: Path, seconds: float) -> None:
    """Step the clocks of all who look at this file."""
    with open(path, "r+b" if path.exists() else "w+b", buffering=0) as file:
        file.write(AHEAD.pack(seconds))


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        shown = mmap.mmap(file.fileno(), AHEAD.size, access=mmap.ACCESS_READ)
    machine = time.time
    time.time = lambda: machine() + AHEAD.unpack(shown[: AHEAD.size])[0]
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
