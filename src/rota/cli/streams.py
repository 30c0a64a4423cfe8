"""Standard streams that are closed, full, or without a reader."""

from __future__ import annotations

import errno
import os
import sys

from rota.errors import shown

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def stand_in_for_closed() -> None:
    """Open an empty stream for each that the caller closed (`>&-`): no file of ours may get its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def sentence_of(error: OSError) -> str:
    """What could not be read or written, and why."""
    said = error.strerror or str(error)
    if error.filename:
        return f"{shown(error.filename)}: {said}"
    if error.errno in _NO_ROOM:
        discard_output()  # else Python would report it again as it ends
        return f"the output cannot be written: {said}"
    return said


def discard_output() -> None:
    """Discard everything that is printed from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
