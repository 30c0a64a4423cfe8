"""Traces: readers of every public format, one writer, generators.

Reading   `read(path)` detects the format; `formats()` lists the known ones; one module per origin.
Writing   `write(trace, path)` in our own `plain` format, as CSV or Parquet.
Clusters  some traces come with a list of machines: `openb.read_nodes`, `lucid.read_vcs`.
"""

from __future__ import annotations

from importlib import import_module

from rota.traces.reading import read
from rota.traces.registry import TraceFormat, formats
from rota.traces.writing import write

__all__ = ["TraceFormat", "formats", "read", "write"]

_READERS = (
    *("chronus", "elasticflow", "gavel", "helios", "itp", "lucid", "openb", "pai", "philly_json"),
    *(
        "pbs.reader",
        "philly_list",
        "plain.reader",
        "pollux",
        "sacct",
        "shockwave",
        "swf",
        "synergy",
        "tiresias",
    ),
)
"""Modules that hold a reader; importing one registers its format."""

for _name in _READERS:
    import_module(f"{__name__}.{_name}")
