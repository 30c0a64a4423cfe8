"""The trace that a caller means: read, with sizes and deadlines of our own where they are asked for."""

from __future__ import annotations

from os import PathLike

from rota.errors import InputError
from rota.model.trace import Trace
from rota.traces import read
from rota.traces.deadlines import DrawnDeadlines, parse_deadlines, with_deadlines
from rota.traces.elastic import ElasticSizes, make_elastic, parse_sizes

MOST_SEEDS = 10_000
"""A replay for each of them, and each keeps its record."""


def check_seeds(count: int) -> int:
    """`count` itself, if it is a number of seeds.  Raises InputError."""
    if not 1 <= count <= MOST_SEEDS:
        raise InputError.at(f"{count:,} seeds", field="--seeds", expected=f"from 1 to {MOST_SEEDS:,}")
    return count


def trace_as_asked(
    trace: str | PathLike[str] | Trace,
    format: str | None,
    *,
    elastic: str | ElasticSizes | None,
    deadlines: str | DrawnDeadlines | None,
    seed: int = 0,
) -> Trace:
    """The trace itself or in a file; missing deadlines are drawn from `seed`.  Raises InputError."""
    whole = trace if isinstance(trace, Trace) else read(trace, format)
    if elastic is not None:
        whole = make_elastic(whole, parse_sizes(elastic) if isinstance(elastic, str) else elastic)
    if deadlines is not None:
        drawn = parse_deadlines(deadlines) if isinstance(deadlines, str) else deadlines
        whole = with_deadlines(whole, drawn, seed)
    return whole
