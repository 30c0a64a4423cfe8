"""Ends a program with code 85, quickly and without losing what it has written.

SystemExit unwinds the program, so that its `finally` blocks, `with` blocks and exit handlers run. The slow
shutdown of the interpreter (a second or more with torch) is skipped; open files are flushed instead. A
program that still runs after `EXIT_WITHIN_S` is killed.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import threading
from typing import NoReturn

from rota.training.checkpoint import say
from rota.training.protocol import LEAVE_CODE

EXIT_WITHIN_S = 10.0


def leave_now() -> NoReturn:
    """End the program with code 85 by SystemExit."""
    timer = threading.Timer(EXIT_WITHIN_S, _hard)
    timer.daemon = True
    timer.start()
    atexit.register(_soon)
    raise SystemExit(LEAVE_CODE)


def _soon() -> None:
    """The first exit handler: runs the others, flushes files, and ends the process."""
    atexit.unregister(_soon)
    atexit._run_exitfuncs()
    flush_files()
    os._exit(LEAVE_CODE)


def _hard() -> None:
    say(f"the program has not ended {EXIT_WITHIN_S:g} s after leaving: ending it")
    flush_files()
    os._exit(LEAVE_CODE)


def flush_files() -> None:
    """Flush every open file of the program; text layers before the binary files that they write to."""
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    files = [one for one in gc.get_objects() if type(one) in kinds] + [sys.stdout, sys.stderr]
    for file in sorted(files, key=lambda one: not isinstance(one, io.TextIOWrapper)):
        try:
            if file is not None and not file.closed:
                file.flush()
        except (OSError, ValueError) as error:
            say(f"{file!r} could not be flushed: {error}")
