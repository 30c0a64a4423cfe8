"""Who waits although GPUs that nobody holds, and nothing is reserved on, would do."""

from __future__ import annotations

import math

from rota.scheduler.loop import Loop
from rota.stages.fit import Fitter
from rota.stages.place import consolidate


def waits_beside_idle(loop: Loop) -> set[int]:
    """Rows of jobs of whole GPUs that wait, and for which there are some on as few nodes as would do.

    Quotas and reservations are heeded.  Who asks for cores or memory too may belong where these are taken.
    """
    snapshot = loop.snapshot()
    scratch, fit = snapshot.scratch(), Fitter(snapshot, consolidate)
    for _, devices, until_s in snapshot.reservations:
        if until_s > snapshot.now:
            scratch.free.remove_all([device for device in devices if scratch.free.is_free(device)])
    jobs, waiting = snapshot.jobs.table, snapshot.waiting
    asks_more = (jobs.gpu_share != 1.0) | (jobs.cpus > 0.0) | (jobs.memory_gib > 0.0)
    grants = [
        grant for row in waiting[~asks_more[waiting]].tolist() if (grant := fit(scratch, row)) is not None
    ]
    node_of, most = snapshot.cluster.device_node, int(snapshot.cluster.node_gpus.max())
    return {
        grant.job
        for grant in grants
        if len(set(node_of[list(grant.devices)].tolist())) <= math.ceil(len(grant.devices) / most)
    }


def run_and_watch(loop: Loop, until_s: float = math.inf) -> dict[int, float]:
    """Run to the end; for how many seconds on end each row has waited so, at most."""
    since_s, longest_s = dict[int, float](), dict[int, float]()
    while loop.state.now < until_s and loop.step():
        now, idle = loop.state.now, waits_beside_idle(loop)
        for row in since_s.keys() - idle:
            longest_s[row] = max(longest_s.get(row, 0.0), now - since_s.pop(row))
        for row in idle - since_s.keys():
            since_s[row] = now
    for row, begun_s in since_s.items():
        longest_s[row] = max(longest_s.get(row, 0.0), loop.state.now - begun_s)
    return longest_s
