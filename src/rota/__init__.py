"""Rota: a scheduler for deep-learning GPU clusters.

    import rota
    result = rota.simulate("trace.csv", cluster="80x8:V100", policies=["tiresias", "srtf", "fifo"])
    result.report("out/")

The names below are loaded when first used, so that importing one part of Rota does not load the rest.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` would cost more time to load than all the rest of this file
if TYPE_CHECKING:
    from rota.api.moments import replay, snapshot
    from rota.api.results import Results
    from rota.api.simulation import simulate
    from rota.errors import InputError, PolicyError, RotaError, WorldError
    from rota.model.cluster import Cluster
    from rota.model.record import Record
    from rota.model.trace import Trace
    from rota.reports.advice import Advice, advise
    from rota.scheduler.policy import systems
    from rota.traces import read, write
    from rota.traces.capacity import cluster_from
    from rota.traces.describe import describe
    from rota.traces.generate import generate

__version__ = "0.1.0"

_HOME = {
    "Advice": "rota.reports.advice",
    "Cluster": "rota.model.cluster",
    "InputError": "rota.errors",
    "PolicyError": "rota.errors",
    "Record": "rota.model.record",
    "Results": "rota.api.results",
    "RotaError": "rota.errors",
    "Trace": "rota.model.trace",
    "WorldError": "rota.errors",
    "advise": "rota.reports.advice",
    "cluster_from": "rota.traces.capacity",
    "describe": "rota.traces.describe",
    "generate": "rota.traces.generate",
    "read": "rota.traces",
    "replay": "rota.api.moments",
    "simulate": "rota.api.simulation",
    "snapshot": "rota.api.moments",
    "systems": "rota.scheduler.policy",
    "write": "rota.traces",
}
"""Public name -> module it lives in."""

__all__ = [
    "Advice",
    "Cluster",
    "InputError",
    "PolicyError",
    "Record",
    "Results",
    "RotaError",
    "Trace",
    "WorldError",
    "__version__",
    "advise",
    "cluster_from",
    "describe",
    "generate",
    "read",
    "replay",
    "simulate",
    "snapshot",
    "systems",
    "write",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
