"""Properties of policies in a world that refuses: a refused action is not repeated again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rota.model.grants import Can
from rota.model.job_columns import AllowedCounts
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.guard.live_rules import NoPreemption
from rota.scheduler.policy import Lever, Policy, levers_of
from rota.scheduler.snapshot import Snapshot
from rota.testing.scenes import WORKLOADS, Scene
from rota.testing.sentences import at
from rota.testing.subject import Subject, moments

OFTEN = 3
"""How often the number of devices of a job that keeps its devices may be changed in vain."""


def refusals_heeded(subject: Subject, scene: Scene) -> Iterator[str]:
    """Checks policies that resize, in a world that does not let jobs of two workloads be resized."""
    if Lever.RESIZE not in levers_of(subject.make()):
        return
    scene = _stretched(scene)
    jobs = scene.trace.jobs
    bound = set(np.flatnonzero(jobs.workload != WORKLOADS.index("lstm")).tolist())
    tried: Counter[tuple[int, tuple[int, ...]]] = Counter()
    offences: list[str] = []

    def count(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = asked(policy, snapshot, memory)
        for grant in decision.grants:
            old = snapshot.grants.get(grant.job)
            if old is None or grant.job not in bound or len(old.devices) == len(grant.devices):
                continue
            tried[grant.job, old.devices] += 1
            if tried[grant.job, old.devices] == OFTEN + 1:
                sizes = f"{len(old.devices)} to {len(grant.devices)} GPUs"
                offences.append(
                    f"{at(snapshot)} {jobs.ids[grant.job]} is to go from {sizes}, which was refused often"
                )
        return decision

    loop, _ = subject.loop(scene, count)
    loop.rules, loop.strict = NoPreemption(lambda: bound), False
    for _ in moments(loop):
        yield from offences
        offences.clear()


def _stretched(scene: Scene) -> Scene:
    """The scene with jobs that may have half to twice what they ask for, where they want whole GPUs.

    Those of one workload can save nothing, those of another not go on on another number of GPUs.
    """
    jobs, cluster = scene.trace.jobs, scene.cluster
    most = min(cluster.gpus_of_type(code) for code in range(len(cluster.type_names)))
    whole = (jobs.gpus > 0) & (jobs.gpu_share == 1.0)
    elastic = replace(
        jobs,
        gpus_min=np.where(whole, np.maximum(jobs.gpus // 2, 1), jobs.gpus_min),
        gpus_max=np.where(whole, np.maximum(np.minimum(2 * jobs.gpus, most), jobs.gpus), jobs.gpus_max),
        counts=np.full(len(jobs), int(AllowedCounts.ANY)),
    )
    can = {"resnet": Can.NOTHING, "bert": Can.SUSPEND | Can.CHECKPOINT}
    setting = replace(scene.setting, can=can)
    return replace(scene, trace=replace(scene.trace, jobs=elastic), setting=setting)
