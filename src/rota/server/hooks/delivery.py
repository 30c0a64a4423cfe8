"""One message to an operator's command, on its standard input, or to a webhook, by POST."""

from __future__ import annotations

import errno
import ipaddress
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import urlsplit

from rota.errors import InputError
from rota.model.units import format_duration

MOST_SAID = 200
"""Most characters of a command's last output that are passed on."""

MOST_READ = 1 << 16
"""Most bytes read of the answer of a command or an address."""


class NotTaken(Exception):  # noqa: N818
    """The message was not taken."""

    def __init__(self, why: str, *, again: bool = True) -> None:
        super().__init__(why)
        self.again = again


def run_command(
    command: Sequence[str], data: bytes, patience_s: float, begun: Callable[[int], None] | None = None
) -> None:
    """Run it until it ends; raises NotTaken.  `begun` receives its pid.

    It reads and writes files, not pipes: a process that it leaves in the background blocks nothing.
    After `patience_s` it is killed with its process group.
    """
    with TemporaryFile() as message, TemporaryFile() as said:
        message.write(data)
        message.seek(0)
        try:
            process = subprocess.Popen(
                command,
                stdin=message,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise NotTaken(f"it cannot be run: {_unrun(command[0], error)}") from None
        if begun is not None:
            begun(process.pid)
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            process.wait()
            raise NotTaken(f"it has not ended within {format_duration(patience_s)}") from None
        if code:
            said.seek(max(0, said.seek(0, os.SEEK_END) - MOST_READ))
            lines = said.read().decode(errors="replace").strip().splitlines()
            raise NotTaken(f"it ended with {code}{': ' + lines[-1][:MOST_SAID] if lines else ''}")


def _unrun(program: str, error: OSError) -> str:
    """Why a program did not start; the kernel says no more of a script's first line than that."""
    if error.errno == errno.ENOEXEC or (isinstance(error, FileNotFoundError) and os.path.isfile(program)):
        return "its first line names no program to run it with that is here (expected #!/bin/sh or the like)"
    return error.strerror or str(error)


def kill_group(pid: int) -> None:
    """End the process group that `pid` leads."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: a message goes to the operator's address only."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(url: str, data: bytes, patience_s: float) -> None:
    """Send it, through the proxy that the environment names for such addresses; raises NotTaken."""
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", "User-Agent": "rota"})
    proxies = [urllib.request.ProxyHandler({})] if _is_here(url) else []
    try:
        with urllib.request.build_opener(_NoRedirect, *proxies).open(request, timeout=patience_s) as answer:
            answer.read1(MOST_READ)  # one read: an endless answer blocks nothing
    except urllib.error.HTTPError as error:
        again = error.code in (408, 429) or error.code >= 500
        raise NotTaken(f"it answers {error.code}", again=again) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NotTaken(f"it cannot be reached: {getattr(reason, 'strerror', None) or reason}") from None


def _is_here(url: str) -> bool:
    """Whether it is this machine, which is another one to a proxy."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, or no address at all
        return False


def shown_target(command: Sequence[str], url: str) -> str:
    """A target for people: without what an address may hold as a secret."""
    if command:
        return f"command {command[0]}"
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('/')[0]}/…"


def command_or_url(said: Any, where: str, known: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """`command` and `url` of a setting, which has one of them besides `known`; InputError if it has not."""
    expected = f"expected `command` or `url`, and some of {', '.join(known)}"
    if not isinstance(said, dict):
        raise InputError(f"{where}: {expected}")
    if strange := sorted(str(name) for name in set(said) - {"command", "url", *known}):
        raise InputError(f"{where}: there is no `{strange[0]}`; {expected}")
    if ("command" in said) == ("url" in said):
        raise InputError(f"{where}: {expected}")
    command, url = said.get("command", []), said.get("url", "")
    if "command" in said and not (command and are_texts(command)):
        raise InputError(f"{where}: command is {command!r}; expected a program and its arguments as a list")
    if "url" in said and not str(url).startswith(("http://", "https://")):
        raise InputError(f"{where}: url is no address; expected http://… or https://…")
    if "@" in urlsplit(str(url)).netloc:
        raise InputError(f"{where}: url holds a user or a password, which are not sent; expected none in it")
    return tuple(command), str(url)


def are_texts(said: Any) -> bool:
    """True of a list of texts that say something."""
    return isinstance(said, list) and all(isinstance(one, str) and one for one in said)
