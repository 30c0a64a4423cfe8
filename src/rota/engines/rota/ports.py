"""Where the ranks of a gang meet: a port that is still free once they have loaded their libraries."""

from __future__ import annotations

import random
import socket
from collections.abc import Set
from functools import cache
from pathlib import Path

KERNELS_OWN = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""First and last port that the kernel gives to whoever asks for any."""
LOWEST = 10_000
"""Below it many a service has its place, even if it does not run just now."""
TRIES = 100


def free_port(taken: Set[int | None] = frozenset()) -> int:
    """A TCP port that nobody listens on now, and none of `taken`.

    Rank 0 listens there seconds later.  A port that the kernel gives away by itself may be another's by then,
    so those are taken only where nothing else is left.
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
    """The first port of the kernel's own range; 0 if it does not say."""
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
