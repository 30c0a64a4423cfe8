"""A port for the ranks of a gang to meet: one that is likely still free once they have loaded libraries."""

from __future__ import annotations

import random
import socket
from collections.abc import Set
from functools import cache
from pathlib import Path

KERNELS_OWN = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""First and last port that the kernel assigns to programs that ask for any port."""
LOWEST = 10_000
"""Lowest port to use: many services have ports below it, even if they do not run now."""
TRIES = 100


def free_port(taken: Set[int | None] = frozenset()) -> int:
    """A TCP port that no process listens on now, and not in `taken`.

    Rank 0 listens on it seconds later. By then the kernel may have assigned a port of its own range to
    another program, so ports of that range are used only if there are no others.
    """
    end = _kernels_first(KERNELS_OWN)
    for _ in range(TRIES if end > LOWEST else 0):
        port = random.randrange(LOWEST, end)
        if port not in taken and _is_free(port):
            return port
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("", 0))
            given: int = listener.getsockname()[1]
        if given not in taken:
            return given


@cache
def _kernels_first(path: Path) -> int:
    """First port of the kernel's own range; 0 if unknown."""
    try:
        return int(path.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(("", port))
        except OSError:
            return False
    return True
