"""What a service reports to the manager that started it (systemd, `Type=notify`), if there is one."""

from __future__ import annotations

import os
import socket

READY, STOPPING = "READY=1", "STOPPING=1"


def tell_manager(state: str) -> None:
    """Send `state` to the socket in NOTIFY_SOCKET, if that is set.

    A manager that does not listen is no reason to fail: it reports a missing message itself.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        try:
            manager.sendto(state.encode(), address)
        except OSError:
            return
