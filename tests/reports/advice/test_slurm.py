"""What comes nearest in Slurm: every system has an answer, and lines have the form of a configuration."""

from __future__ import annotations

import re

import pytest
from advice_play import busy

from play import trace_of
from rota.reports.advice.adoption import nearest
from rota.scheduler.policy import parse_policy, systems

KNOWN = {
    "AccountingStorageEnforce", "AccountingStorageTRES", "AccountingStorageType", "JobRequeue",
    "PreemptExemptTime", "PreemptMode",
    "PreemptType", "PriorityDecayHalfLife", "PriorityFlags", "PriorityType", "PriorityWeightAge",
    "PriorityWeightFairshare", "PriorityWeightQOS", "SchedulerParameters", "SchedulerType",
}  # fmt: skip
"""Words of slurm.conf(5) that a Slurm 22.05 was started with."""
FAMILIES = [
    # policy                    what has to be there, and what must not
    ("fifo",                    "SchedulerType=sched/builtin", "sched/backfill"),
    ("fifo:skip=yes",           "bf_min_age_reserve=2592000", "sched/builtin"),
    ("fifo:backfill=easy",      "bf_job_part_count_reserve=1", "bf_min_age_reserve"),
    ("multifactor",             "PriorityWeightFairshare=10000", "sched/builtin"),
    ("sjf:skip=yes",            "MaxWall=", "PreemptType"),
    ("srtf",                    "PreemptMode=REQUEUE", "SUSPEND"),
    ("tiresias:order=gittins",  "Preempt=middle,long", "SUSPEND"),
    ("drf",                     "PriorityFlags=MAX_TRES", "PreemptType"),
    ("edf",                     "sacctmgr add qos urgent", "deadline="),
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(systems()))
def test_every_system_has_an_answer(name: str) -> None:
    near = nearest(parse_policy(name), busy())
    assert near.idea.endswith(".")
    assert near.conf or near.sacctmgr or near.cannot or "Nothing" in near.idea
    words = {line.partition("=")[0] for line in near.conf if not line.startswith("#")}
    assert words <= KNOWN
    assert all(re.match(r"sacctmgr (add|modify) ", line) for line in near.sacctmgr)
    assert all(sentence.endswith(".") for sentence in near.cannot)


@pytest.mark.parametrize(("policy", "there", "absent"), FAMILIES)
def test_family(policy: str, there: str, absent: str) -> None:
    near = nearest(parse_policy(policy), busy())
    lines = "\n".join((*near.conf, *near.sacctmgr))
    assert there in lines
    assert absent not in lines


def test_limits_are_those_of_the_trace() -> None:
    """Half of the jobs run up to 50 minutes, nine tenths up to 20 hours, the longest 3 days."""
    seconds = [3000] * 6 + [72_000] * 3 + [259_200]
    trace = trace_of(" ".join(f"J{i} 1x{run_s}" for i, run_s in enumerate(seconds)))
    near = nearest(parse_policy("srtf"), trace)
    lines = "\n".join((*near.conf, *near.sacctmgr))
    assert "qos short Priority=100 MaxWall=01:00:00 " in lines
    assert "qos middle Priority=50 MaxWall=2-00:00:00 " in lines
    assert "bf_window=4320," in lines
