"""The shim as it turns into a rank: it has become another user by then, who may not read its library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rota.engines.rota import shim

_LOOK = """
import os, sys
sys.path.insert(0, sys.argv[1])
import shim
before = set(sys.modules)
os.get_exec_path({"PATH": "/bin"})
print(*sorted(set(sys.modules) - before))
"""


def test_finding_a_command_loads_nothing() -> None:
    """An import in between fails for users who cannot enter the folder of a root's Python."""
    folder = str(Path(shim.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LOOK, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
