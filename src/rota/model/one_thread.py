"""Linear algebra on one thread: our matrices are small, and a second thread spins for nothing.

Read when NumPy is imported first, so it has to be in the environment before: parents put it there for the
processes that they start, a command for itself.  Jobs never inherit it: agents are started without it.
"""

from __future__ import annotations

import os

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def one_thread() -> dict[str, str]:
    """This process's environment with it set, unless it is set already."""
    return {**ONE_THREAD, **os.environ}


def use_one_thread() -> None:
    """Set it from now on in this process, if that has not imported NumPy yet."""
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
