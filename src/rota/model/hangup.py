"""SIGHUP: a service goes on in a new log, as daemons do, and never stops because of it.

`logrotate` moves a log and sends SIGHUP; a terminal that is closed sends it as well.  The sender knows the
service alone: processes that the service has started, with logs of their own, receive the signal from it.
"""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import threading
from pathlib import Path
from weakref import WeakSet

OUTPUTS = (1, 2)
"""Standard output and error, where a service logs."""
log = logging.getLogger(__name__)
_followers: WeakSet[subprocess.Popen[bytes]] = WeakSet()


def open_logs_anew_on_hangup() -> None:
    """From now on, SIGHUP reopens the files to which standard output and error go, if any.

    To be called by the main thread, as early as possible.  It does not use `SIG_IGN`, which started programs
    would inherit.
    """
    paths = {number: path for number in OUTPUTS if (path := _file_of(number))}

    def heard(*_: object) -> None:  # in another thread: this one may be in the middle of writing a line
        threading.Thread(target=_open_anew, args=(paths,), name="hangup", daemon=True).start()

    signal.signal(signal.SIGHUP, heard)


def tell_of_hangups(child: subprocess.Popen[bytes]) -> None:
    """Send `child`, which can already reopen its own log, every SIGHUP that this process receives."""
    _followers.add(child)


def _file_of(number: int) -> str:
    """The file behind a descriptor, by the name that it has now; empty if that is a terminal or a pipe."""
    try:
        opened = os.fstat(number)
        path = os.readlink(f"/proc/self/fd/{number}")
        is_there = stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, os.stat(path))
    except OSError:
        return ""
    return path if is_there else ""


def _open_anew(paths: dict[int, str]) -> None:
    for number, path in paths.items():
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            log.error("%s cannot be opened anew: %s; the log goes on where it was", path, error.strerror)
            continue
        os.dup2(file, number)
        os.close(file)
    for child in list(_followers):
        child.send_signal(signal.SIGHUP)  # nothing, once it has ended
