"""Secrets in the words of a command, which every user of this machine would see in `ps`.

The kernel shows the words of a process from its memory, so they are overwritten there.  They are visible
until this runs, some hundredths of a second after the start: a file or the environment is better.
"""

from __future__ import annotations

from rota.server.store.addresses import passwords_in

TYPE_CHECKING = False  # as in `quick`: the start of the command line counts in milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence

_SECRET_OPTIONS = ("--token",)
START, END = 48, 49
"""Fields of /proc/PID/stat, from 1: where the words of the process begin and end."""


def secrets_in(words: Sequence[str]) -> list[str]:
    """Passwords in addresses, and what follows an option that takes a secret."""
    secrets = [secret for word in words if "://" in word for secret in passwords_in(word)]
    for option, value in zip(words, (*words[1:], ""), strict=True):
        name, equals, rest = option.partition("=")
        if name in _SECRET_OPTIONS:
            secrets.append(rest if equals else value)
    return [one for one in secrets if one]


def hide(words: Sequence[str]) -> None:
    """Overwrite the secrets among this process's words, where the kernel allows it."""
    secrets = secrets_in(words)
    if not secrets:
        return
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
        start, end = (int(fields[number - 3]) for number in (START, END))
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            shown = memory.read(end - start)
            for secret in secrets:
                shown = shown.replace(secret.encode(errors="surrogateescape"), b"*" * len(secret.encode()))
            memory.seek(start)
            memory.write(shown)
    except OSError:  # the kernel does not show the words here, so no other user sees them
        return
