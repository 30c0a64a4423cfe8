"""Which policies are tried on a trace, and why the others are not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.knowledge.registry import Where, kinds
from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.scheduler.policy import PolicySpec, parse_policy, split_policies, systems

ALWAYS = (
    "fifo",
    "fifo:skip=yes",
    "fifo:backfill=easy",
    "sjf:skip=yes",
    "srtf",
    "srsf",
    "tiresias",
    "tiresias:order=gittins",
    "las",
)
"""Tried on every trace; those that replay within a second come first."""
BY_GROUP = ("pai",)
BETWEEN_TENANTS = ("drf",)
FOR_FAIRNESS = ("themis", "gavel")
FOR_SIZES = ("afs", "elan")
"""Tried where jobs may change their size and their speeds at other sizes are given."""
FOR_DEADLINES = ("edf", "deadline_sla", "chronus")
UNNAMED = (*ALWAYS, *BY_GROUP, *BETWEEN_TENANTS, *FOR_FAIRNESS, *FOR_SIZES, *FOR_DEADLINES)
"""Policies that are tried by default, in the order in which they run."""
_SITE = "needs quotas, cells or labels that are a site's own: name it with its parameters"
_SLOW = "takes turns of a minute or so, which takes long to replay: name it, with a shorter --window"
UNASKED: Mapping[str, str] = {
    "partition": _SITE,
    "philly": _SITE,
    "hived": _SITE,
    "synergy": "stands around another policy, and needs what jobs want of cores and memory: name it",
    "gandiva": _SLOW,
    "gandiva_fair": _SLOW,
}
"""Systems that are tried only if they are named, and why."""
UNTOLD: Mapping[Knowledge, str] = {
    Knowledge.SCALING: "needs speeds by number of GPUs and jobs that may change it (--scaling, --elastic)",
    Knowledge.GOODPUT: "needs profiles of step times and gradient noise (--goodput)",
    Knowledge.CONVERGENCE: "needs the losses of jobs, which no trace has",
    Knowledge.REGIMES: "needs to know how batch sizes change, which no trace says",
    Knowledge.PAIRS: "needs rates of jobs beside each other",
}
"""Kinds of knowledge that a trace does not have by itself, and remarks on policies that need them."""


@dataclass(frozen=True)
class Candidates:
    """The policies that are tried, in this order, and of every other system why not."""

    specs: tuple[PolicySpec, ...]
    left_out: tuple[tuple[str, str], ...]
    """Name, and the reason as a clause."""


@dataclass(frozen=True)
class Situation:
    """What decides which policies can be tried."""

    trace: Trace
    cluster: Cluster
    goals: Collection[str]
    told: frozenset[Knowledge] = frozenset()
    """Kinds that tables on the command line provide."""

    @property
    def has_tenants(self) -> bool:
        return len(np.unique(self.trace.jobs.tenant)) > 1

    @property
    def has_groups(self) -> bool:
        return bool((self.trace.jobs.group >= 0).any())

    @property
    def has_deadlines(self) -> bool:
        return bool(np.isfinite(self.trace.jobs.deadline_s).any())

    @property
    def is_elastic(self) -> bool:
        jobs = self.trace.jobs
        return bool((jobs.gpus_max > jobs.gpus_min).any())


def candidates(situation: Situation, present: PolicySpec, asked: Sequence[str] | None = None) -> Candidates:
    """Those that are `asked` for, or those that suit the trace, without `present`, which runs anyway."""
    if asked is not None:
        return Candidates(tuple(_named(asked, present)), ())
    specs = [parse_policy(text) for text in UNNAMED]
    left: dict[str, str] = {}
    chosen = []
    for spec in specs:
        why = _why_not(spec, situation)
        if why:
            left[str(spec)] = why
        elif str(spec) != str(present):
            chosen.append(spec)
    tried = {spec.name for spec in [*chosen, present]}
    for name in systems():
        if name not in tried and name not in left:
            left[name] = (
                _why_not(parse_policy(name), situation) or "is not tried unless it is named (--policy)"
            )
    return Candidates(tuple(chosen), tuple(sorted(left.items())))


def _named(asked: Sequence[str], present: PolicySpec) -> list[PolicySpec]:
    specs = [parse_policy(one) for text in asked for one in split_policies(text)]
    names = [str(spec) for spec in specs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError.at(f"{twice!r} is named twice", field="--policy", expected="each policy once")
    others = [spec for spec in specs if str(spec) != str(present)]
    if not others:
        raise InputError.at(
            f"{present} is what is there", field="--policy", expected="another policy to compare it with"
        )
    return others


def _why_not(spec: PolicySpec, situation: Situation) -> str:
    """Why `spec` is not tried unasked; empty if it is."""
    if spec.name in UNASKED:
        return UNASKED[spec.name]
    needs = spec.make().needs
    for kind, why in UNTOLD.items():
        # Where sizes are an extra, jobs of one size are no obstacle.
        is_extra = kind is Knowledge.SCALING and spec.name in FOR_FAIRNESS
        if kind in needs and not is_extra and not _is_told(kind, situation):
            return why
    if not needs <= kinds(Where.LIVE):
        return "needs what no live cluster can tell it"
    if spec.name in FOR_DEADLINES and not (situation.has_deadlines and "deadlines" in situation.goals):
        return "serves deadlines" + ("" if situation.has_deadlines else ", which no job has")
    if spec.name in BETWEEN_TENANTS and not situation.has_tenants:
        return "divides between tenants, and all jobs are of one"
    if spec.name in FOR_FAIRNESS and "fairness" not in situation.goals:
        return "is for fairness, which is no goal here, and takes long to replay"
    if spec.name in BY_GROUP and not situation.has_groups:
        return "predicts by the groups of jobs, which have none"
    return ""


def _is_told(kind: Knowledge, situation: Situation) -> bool:
    if kind is Knowledge.SCALING:
        return situation.is_elastic and kind in situation.told
    return kind in situation.told


def reads_durations(spec: PolicySpec) -> bool:
    """Whether it reads how long jobs run."""
    return Knowledge.DURATION in spec.make().needs
