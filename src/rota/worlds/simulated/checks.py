"""The simulator checks itself: recounts from the record what the loop counted as it went."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np

from rota.errors import WorldError
from rota.table.occupancy import EPSILON, Occupancy
from rota.table.state import Phase, State
from rota.worlds.simulated.recorder import RunRecorder


def recount(state: State, recorder: RunRecorder) -> None:
    """Raise WorldError if grants, queue, service or devices do not add up at the end of a run."""
    _recount_sets(state)
    _recount_devices(state)
    _recount_service(state, recorder)


def _fail(what: str, counted: object, recounted: object) -> None:
    raise WorldError(f"the simulator miscounted {what}: it has {counted}, a recount gives {recounted}")


def _recount_sets(state: State) -> None:
    for phase, rows in ((Phase.PENDING, state.waiting), (Phase.RUNNING, state.running)):
        recounted = np.flatnonzero(state.phase == phase)
        if not np.array_equal(recounted, rows.sorted()):
            _fail(f"{phase.name.lower()} jobs", len(rows), len(recounted))
    gpus = int(state.jobs.gpus[state.waiting.sorted()].sum())
    if gpus != state.waiting_gpus:
        _fail("GPUs waited for", state.waiting_gpus, gpus)
    if set(state.grants) != set(state.running.sorted().tolist()):
        _fail("grants", len(state.grants), len(state.running))


def _recount_devices(state: State) -> None:
    """Claims rebuilt from the grants in force equal the claims kept."""
    fresh = Occupancy(state.cluster, state.jobs)
    for grant in state.grants.values():
        fresh.hold(grant)
    kept = state.occupancy
    if not np.allclose(fresh.claimed, kept.claimed, atol=EPSILON):
        _fail("claims on devices", sum(kept.claimed), sum(fresh.claimed))
    free = sum(c <= EPSILON for d, c in enumerate(kept.claimed) if d not in kept.down)
    if free != kept.free.total or sum(kept.free.count) != kept.free.total:
        _fail("free devices", kept.free.total, free)


def _recount_service(state: State, recorder: RunRecorder) -> None:
    """GPU-seconds of all intervals equal the service all jobs received."""
    rows = np.arange(state.submitted)
    counted = float(state.service_gpu_s(rows).sum())
    latest = ((end - start) * len(g.devices) * g.share for g, start, end, _, _ in recorder.intervals)
    recounted = math.fsum(chain(latest, *(part.gpu_s.tolist() for part in recorder.book.parts)))
    if not math.isclose(counted, recounted, rel_tol=1e-9, abs_tol=1e-3):
        _fail("GPU-seconds", counted, recounted)
