"""Knowledge that a policy uses but lacked in a run, as neither the trace nor a table has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rota.knowledge.needs import SIZES, Knowledge, Provenance, Provider
from rota.model.jobs import JobTable
from rota.model.tenants import Between
from rota.scheduler.policy import Lever, Policy, levers_of
from rota.worlds.simulated.speed import SpeedModel

GIVE: Mapping[Knowledge, tuple[str, str]] = {
    Knowledge.THROUGHPUT: ("speeds by GPU type", "--throughput FILE"),
    Knowledge.SCALING: ("speeds by number of GPUs", "--scaling FILE"),
    Knowledge.GOODPUT: ("goodput by size and batch", "--goodput FILE"),
    Knowledge.PAIRS: ("speeds of jobs side by side", "--throughput FILE with pairs"),
    Knowledge.PLACEMENT: ("what lying apart costs", "--slowdowns spread=0.8"),
    Knowledge.HOSTS: ("speeds by cores and memory", "--slowdowns hosts=FILE"),
    Knowledge.SERVERS: ("speeds by parameter servers", "--slowdowns servers=FILE"),
    Knowledge.REGIMES: ("batch sizes that change", "--regimes FILE"),
    Knowledge.UTILISATION: ("how busy a job keeps its GPUs", "--slowdowns utilisation=0.5"),
    Knowledge.SKEW: ("models whose tensors are known", "the column workload, such as vgg19"),
}
"""For each kind that a trace of durations does not contain: its name, and the option that gives it."""


def went_without(
    policy: Policy, providers: Mapping[Knowledge, Provider], jobs: JobTable, speed: SpeedModel
) -> dict[str, str]:
    """The knowledge that `policy` uses and did not get, with the option that gives each.

    Speeds come from the speed model of the world; what is assumed, or learnt from a world without a speed
    model, does not count.
    """
    return dict(_lacks(policy, providers, jobs, speed))


def _lacks(
    policy: Policy, providers: Mapping[Knowledge, Provider], jobs: JobTable, speed: SpeedModel
) -> Iterator[tuple[str, str]]:
    offered: Mapping[Knowledge, Provider] = getattr(speed, "knowledge", {})
    for kind, (name, give) in GIVE.items():
        if kind in policy.needs and not (_is_told(offered.get(kind)) or _is_said(providers.get(kind))):
            yield name, give
    if (SIZES & policy.needs or Lever.RESIZE in levers_of(policy)) and not _are_elastic(jobs):
        yield "jobs that may change their size", "--elastic 1:64"
    if getattr(policy, "heeds_deadlines", False) and not np.isfinite(jobs.deadline_s).any():
        yield "deadlines", "the column deadline_s, or --deadlines 0.5:1.5"
    if getattr(policy, "heeds_groups", False) and not (jobs.group >= 0).any():
        yield "groups of jobs that are alike", "the column group"
    if getattr(policy, "between", Between.NOTHING) is not Between.NOTHING and len(np.unique(jobs.tenant)) < 2:
        yield "several tenants", "the column tenant"


def _is_told(offered: Provider | None) -> bool:
    """True if the world itself is built on this kind of knowledge."""
    return offered is not None and offered.provenance is not Provenance.ASSUMED


def _is_said(provider: Provider | None) -> bool:
    """True if a user's file states it."""
    return provider is not None and provider.provenance is Provenance.USER


def _are_elastic(jobs: JobTable) -> bool:
    return bool((jobs.gpus_max > jobs.gpus_min).any())
