"""Read a trace file in any of the known formats."""

from __future__ import annotations

import os

from rota.arguments import FILE, TEXT, takes
from rota.model.trace import Trace
from rota.traces.registry import find
from rota.traces.source import load


@takes(path=FILE, format=TEXT.or_none())
def read(path: str | os.PathLike[str], format: str | None = None) -> Trace:
    """The trace in the file `path`.

    The format is detected from the content unless `format` names it (see `formats`). Times are seconds;
    wall-clock stamps are shifted so that the first submission is at 0, and `facts["epoch"]` then holds that
    stamp. Raises InputError with file, row and column if the file violates its format.
    """
    source = load(path)
    return find(source, format).read(source)
