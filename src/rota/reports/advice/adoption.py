"""How to adopt the winner: the lines for a live cluster, and the nearest settings in Slurm.

Lines for Slurm are as slurm.conf(5) and sacctmgr(1) of version 22.05 describe them.  Controller and database
of that version took all of them; on a node of two slots the three of `fifo` behaved as the policies do
(docs/advise.md).  QOS and fair-share need slurmdbd.  What else a site has configured stays.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rota.knowledge.needs import Knowledge, Provenance
from rota.knowledge.registry import ORDER, Where, kinds
from rota.model.trace import Trace
from rota.reports.advice.candidates import reads_durations
from rota.reports.advice.trials import DURATION
from rota.scheduler.policy import Lever, PolicySpec


@dataclass(frozen=True)
class Adoption:
    """The lines that let a policy decide."""

    set_line: str
    """Empty if no live cluster can run it."""
    shadow_line: str
    """As a shadow of the present policy, without acting."""
    knowledge_line: str
    """Options for the start of the controller; empty if its defaults suffice."""
    refused: str = ""
    """Why there is no line."""


def adoption(spec: PolicySpec, knowledge: Mapping[str, str]) -> Adoption:
    """The lines for `spec`, which ran with `knowledge`."""
    lacks = sorted(kind.value for kind in spec.make().needs - kinds(Where.LIVE))
    if lacks:
        why = f"{spec} needs {', '.join(lacks)}, which no live cluster provides"
        return Adoption("", "", "", why)
    name = shlex.quote(str(spec))
    return Adoption(f"rota policy set {name}", f"rota policy shadow {name}", _knowledge(spec, knowledge))


def _knowledge(spec: PolicySpec, knowledge: Mapping[str, str]) -> str:
    """`rota up --knowledge duration=predicted` where the live default is another source."""
    source = knowledge.get(DURATION, "")
    is_default = source == ORDER[Where.LIVE][0].value
    possible = source == Provenance.PREDICTED.value and Knowledge.DURATION in kinds(Where.LIVE)
    if not reads_durations(spec) or is_default or not possible:
        return ""
    return f"rota up --knowledge {DURATION}={source}"


@dataclass(frozen=True)
class Near:
    """The configuration that comes nearest to a policy."""

    idea: str
    """The effect of the lines, in a sentence; without lines, that there is nothing to do."""
    conf: tuple[str, ...] = ()
    """Lines of slurm.conf."""
    sacctmgr: tuple[str, ...] = ()
    """Commands for the accounting database."""
    cannot: tuple[str, ...] = ()
    """What Slurm does not do of the policy, each in a sentence."""


MINUTE_S, DAY_S = 60.0, 86_400.0
_ROUND_S = tuple(
    MINUTE_S * minutes for minutes in (5, 10, 15, 30, 60, 120, 240, 480, 720, 1440, 2880, 5760, 10080, 20160)
)
"""Time limits that people find natural."""
MOST_WINDOW_MIN = 43_200
"""Most of `bf_window`."""
_BACKFILL = "SchedulerType=sched/backfill"
_ARRIVAL = "PriorityType=priority/basic"
_DATABASE = (
    "AccountingStorageType=accounting_storage/slurmdbd",
    "AccountingStorageEnforce=associations,limits,qos",
    "PriorityType=priority/multifactor",
)
_GPUS = "AccountingStorageTRES=gres/gpu"
_LIMITS = "Backfill believes time limits: without them every job could run for ever and no job passes."
_CLASSES = "Slurm has no order by run time: classes of time limits stand in for it, and users choose theirs."
_UNCHANGED = "A job keeps its class while it runs, however much it has received or has left."
_REQUEUE = (
    "A job that gives way is requeued and begins its script again: only a script that resumes from a "
    "checkpoint keeps its work.",
    "Suspending is no way around it: a suspended job does not release its GPUs (slurm.conf(5), PreemptMode).",
)


def nearest(spec: PolicySpec, trace: Trace) -> Near:
    """The nearest settings to `spec` at the site that `trace` is from."""
    return _FAMILIES.get(spec.name, _nothing)(spec, trace)


def _fifo(spec: PolicySpec, trace: Trace) -> Near:
    if spec.options.get("backfill") == "easy":
        parameters = f"bf_window={_window_min(trace)},bf_continue,bf_job_part_count_reserve=1"
        return Near(
            "Backfill with a reservation for the first job of each partition, which is EASY.",
            (_BACKFILL, f"SchedulerParameters={parameters}", _ARRIVAL),
            (),
            (_LIMITS,),
        )
    if spec.make().parameters.skip:  # type: ignore[attr-defined]
        return _skip()
    return Near(
        "The built-in scheduler stops at the first job of a partition that cannot start.",
        ("SchedulerType=sched/builtin", _ARRIVAL),
    )


def _skip() -> Near:
    parameters = "SchedulerParameters=bf_continue,bf_min_age_reserve=2592000"
    return Near(
        "Backfill that reserves for no job that has waited for less than 30 days: a job that fits passes.",
        (_BACKFILL, parameters, _ARRIVAL),
        (),
        ("After 30 days, the most that the option takes, a job that still waits gets a reservation.",),
    )


def _shortest(spec: PolicySpec, trace: Trace) -> Near:
    if Lever.PREEMPT in spec.levers:
        return _classes(trace, preempt=True, cannot=(_CLASSES, _UNCHANGED, *_REQUEUE))
    past = "Slurm does not predict run times from a group's past."
    return _classes(trace, preempt=False, cannot=(_CLASSES, *[past] * (spec.name == "pai")))


def _attained(spec: PolicySpec, trace: Trace) -> Near:
    return _classes(
        trace,
        preempt=True,
        cannot=(
            "Slurm does not order jobs by the GPU time they have received, which needs no estimates; "
            "classes of time limits stand in for it, and users choose theirs.",
            _UNCHANGED,
            *_REQUEUE,
        ),
    )


def _classes(trace: Trace, *, preempt: bool, cannot: tuple[str, ...]) -> Near:
    """Three QOS by time limit, as the run times of the trace divide."""
    short, middle = _edges(trace)
    conf = (*_DATABASE, "PriorityWeightQOS=100000", "PriorityWeightAge=1000", _BACKFILL)
    parameters = f"SchedulerParameters=bf_window={_window_min(trace)},bf_continue"
    give_way = (
        "PreemptType=preempt/qos",
        "PreemptMode=REQUEUE",
        "PreemptExemptTime=00:10:00",
        "JobRequeue=1",
    )
    over = ("Preempt=middle,long", "Preempt=long") if preempt else ("", "")
    commands = (
        "sacctmgr add qos long Priority=0",
        f"sacctmgr add qos middle Priority=50 MaxWall={_clock(middle)} Flags=DenyOnLimit {over[1]}".rstrip(),
        f"sacctmgr add qos short Priority=100 MaxWall={_clock(short)} Flags=DenyOnLimit {over[0]}".rstrip(),
        "sacctmgr modify account root set qos+=short,middle,long",
    )
    idea = f"Classes of time limits, up to {_clock(short)}, up to {_clock(middle)} and longer, shorter first"
    idea += ", and shorter ones take GPUs from longer ones." if preempt else "."
    return Near(idea, (*conf, parameters, *(give_way if preempt else ())), commands, cannot)


def _fair(spec: PolicySpec, trace: Trace) -> Near:
    weights = "PriorityFlags=MAX_TRES" if spec.name == "drf" else ""
    conf = (
        *_DATABASE,
        _GPUS,
        "PriorityWeightFairshare=100000",
        "PriorityDecayHalfLife=7-0",
        *filter(None, [weights]),
    )
    partition = (
        '# on the PartitionName line: TRESBillingWeights="CPU=1.0,Mem=0.125G,GRES/gpu=16.0", in proportion '
        "to what a node has"
    )
    return Near(
        "Fair-share between accounts: those that used less than their share of the last weeks come first.",
        (*conf, partition, _BACKFILL, f"SchedulerParameters=bf_window={_window_min(trace)},bf_continue"),
        ("sacctmgr modify account ACCOUNT set fairshare=10",),
        (
            "Fair-share orders jobs that wait; no running job gives way for it.",
            "It divides use in the past, not when jobs will be done.",
        ),
    )


def _multifactor(spec: PolicySpec, trace: Trace) -> Near:
    p = spec.make().parameters  # type: ignore[attr-defined]
    weights = {"Age": p.age, "Fairshare": p.share, "QOS": p.priority}
    conf = [f"PriorityWeight{name}={round(weight)}" for name, weight in weights.items()]
    parameters = f"SchedulerParameters=bf_window={_window_min(trace)},bf_continue,bf_job_part_count_reserve=1"
    half_life = f"PriorityDecayHalfLife={_clock(p.half_life_s)}"
    untried = [f"PriorityMaxAge={_clock(p.max_age_s)}"]
    untried += [f"PriorityWeightJobSize={round(abs(p.size))}"] * bool(p.size)
    untried += ["PriorityFavorSmall=YES"] * (p.size < 0)
    return Near(
        "The multifactor priorities themselves.",
        (*_DATABASE, _GPUS, *conf, half_life, _BACKFILL, parameters),
        (),
        (f"Lines that were not tried on a controller: {', '.join(untried)}.", _LIMITS),
    )


def _deadlines(spec: PolicySpec, trace: Trace) -> Near:
    return Near(
        "A class for urgent jobs, which users have to choose.",
        (*_DATABASE, "PriorityWeightQOS=100000"),
        (
            "sacctmgr add qos urgent Priority=100",
            "sacctmgr modify account root set qos+=urgent",
        ),
        (
            "Slurm does not order by deadline: `sbatch --deadline` removes a job that can't end in time.",
            "It promises no deadline, and refuses none.",
        ),
    )


def _quotas(spec: PolicySpec, trace: Trace) -> Near:
    return Near(
        "A quota for each account, in GPUs.",
        (*_DATABASE[:2], _GPUS),
        ("sacctmgr modify account ACCOUNT set GrpTRES=gres/gpu=64",),
        ("Such a quota is a ceiling: what others leave idle is not lent.",),
    )


def _turns(spec: PolicySpec, trace: Trace) -> Near:
    why = "Slurm's time slices (PreemptMode=GANG) are none for GPUs: a suspended job does not release them."
    return Near("Nothing comes near.", cannot=(why,))


def _elastic(spec: PolicySpec, trace: Trace) -> Near:
    return Near("Nothing comes near.", cannot=("Slurm does not change the GPUs of a running job by itself.",))


def _nothing(spec: PolicySpec, trace: Trace) -> Near:
    return Near("Nothing in Slurm is known to come near.")


_FAMILIES: Mapping[str, Callable[[PolicySpec, Trace], Near]] = {
    "fifo": _fifo,
    "multifactor": _multifactor,
    **dict.fromkeys(("sjf", "srtf", "srsf", "pai"), _shortest),
    **dict.fromkeys(("las", "tiresias"), _attained),
    **dict.fromkeys(("drf", "themis"), _fair),
    **dict.fromkeys(("edf", "deadline_sla", "chronus", "elasticflow"), _deadlines),
    **dict.fromkeys(("philly", "partition", "hived"), _quotas),
    **dict.fromkeys(("gandiva", "gandiva_fair", "gavel", "shockwave"), _turns),
    **dict.fromkeys(("afs", "elan", "optimus", "pollux", "sia"), _elastic),
}
"""By name of the policy."""


def _edges(trace: Trace) -> tuple[float, float]:
    """Round time limits that half of the jobs, and nine tenths, stay within, in seconds."""
    run_s = trace.truth.run_s()
    known = run_s[np.isfinite(run_s)]
    half, most = np.percentile(known, [50, 90]).tolist() if len(known) else (3600.0, 86400.0)
    short = _rounded(half)
    return short, max(_rounded(most), next((one for one in _ROUND_S if one > short), 2 * short))


def _rounded(seconds: float) -> float:
    return next((one for one in _ROUND_S if one >= seconds), _ROUND_S[-1])


def _window_min(trace: Trace) -> int:
    """Whole days, in minutes, that backfill has to look ahead: the longest limit; where none is, run time."""
    for column in (trace.jobs.limit_s, trace.truth.run_s()):
        known = column[np.isfinite(column)]
        if len(known):
            return int(np.clip(1440 * np.ceil(known.max() / DAY_S), 1440, MOST_WINDOW_MIN))
    return 1440


def _clock(seconds: float) -> str:
    """`01:00:00`, `2-00:00:00`."""
    days, rest = divmod(round(seconds), 86_400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock
