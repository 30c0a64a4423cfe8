"""How fast each job is on each number of GPUs, with the batch that it would have there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from rota.knowledge.goodput import GoodputProfile, profiles_of
from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import shared_curves
from rota.scheduler.snapshot import Snapshot
from rota.solvers.hybrid_scaling import Throughput, batch_for
from rota.stages.sizes import Sizes


class Speeds(NamedTuple):
    """Speeds by job, in the order of the rows that were asked for."""

    rates: list[list[float]]
    """Speed on 0, 1, 2, ... GPUs."""
    counts: list[Sequence[int]]
    """Numbers of GPUs that each job may have."""
    batches: list[dict[int, float]]
    """Batch size by number of GPUs, where it is not the one that the job asks for."""


def strong(snapshot: Snapshot, sizes: Sizes) -> Speeds:
    """Every batch stays as it is: scaling curves say how fast that is."""
    most = max((count[-1] for count in sizes.counts), default=0)
    rates = shared_curves(snapshot.know(Knowledge.SCALING), sizes.rows, most)
    return Speeds(rates, sizes.counts, [{} for _ in sizes.counts])


def hybrid(snapshot: Snapshot, sizes: Sizes, growth: float) -> Speeds:
    """Lets batches grow with the number of GPUs, as far as they must and by no more than `growth` in all.

    Goodput profiles say how long a step takes; Elan does not consider how well a larger batch learns.
    """
    table = snapshot.know(Knowledge.GOODPUT)
    types = snapshot.cluster.type_names
    profiles, class_of = profiles_of(table, types), table.by_row["class"][sizes.rows].tolist()
    largest_node = max(1, int(snapshot.cluster.node_gpus.max()))
    asked, now = snapshot.jobs.batch_size[sizes.rows], snapshot.jobs.batch_now(sizes.rows)
    most = snapshot.jobs.batch_max[sizes.rows]
    speeds = Speeds([], [], [])
    for place, counts in enumerate(sizes.counts):
        profile = profiles[class_of[place]]
        first = profile.limits.initial if np.isnan(asked[place]) else asked.item(place)
        current = first if np.isnan(now[place]) else now.item(place)
        allowed = profile.limits.most if np.isnan(most[place]) else most.item(place)
        limit = max(current, min(first * growth, allowed))
        throughput = _throughput(profile, types, largest_node)
        batches = _batches(throughput, counts, current, limit)
        rates = [0.0] * (counts[-1] + 1)
        for count, batch in batches.items():
            rates[count] = throughput(count, batch)
        speeds.rates.append(rates)
        speeds.counts.append(list(batches))
        speeds.batches.append({count: batch for count, batch in batches.items() if batch != first})
    return speeds


def _batches(throughput: Throughput, counts: Sequence[int], batch: float, most: float) -> dict[int, float]:
    """The batch for each of `counts` that some batch feeds; the least one needs no batch to be of use."""
    candidates = [1 << power for power in range((counts[-1] - 1).bit_length() + 1)]
    batches = {counts[0]: batch_for(throughput, counts[0], batch, candidates, most) or batch}
    for count in counts[1:]:
        fed = batch_for(throughput, count, batch, candidates, most)
        if fed is None:
            break
        batches[count] = fed
    return batches


def _throughput(profile: GoodputProfile, types: Sequence[str], largest_node: int) -> Throughput:
    """Samples per second on the first type on which the job runs, on as few nodes as can be."""
    fit, stages = next(
        ((fit, profile.stages_on(kind)) for kind in types if (fit := profile.fit_on(kind)) is not None),
        (None, 1),
    )

    @cache
    def throughput(gpus: int, batch: float) -> float:
        replicas = gpus // stages
        if fit is None or not replicas:
            return 0.0
        return fit.throughput(-(-gpus // largest_node), replicas, profile.limits.split(replicas, batch))

    return throughput
