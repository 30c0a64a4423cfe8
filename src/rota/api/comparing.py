"""Replay a trace under several policies, in three lines.

import rota
result = rota.simulate("trace.csv", cluster="80x8:V100", policies=["tiresias", "srtf", "fifo"])
result.report("out/")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from difflib import get_close_matches
from os import PathLike
from typing import cast

import numpy as np

from rota.api.arguments import ARGUMENTS
from rota.api.asked import check_seeds, trace_as_asked
from rota.api.measured_jobs import measured_jobs
from rota.api.remarks import due_before_remarks, idle_remarks, refused_remarks, run_remarks
from rota.api.results import Results
from rota.api.setting import (
    as_asked,
    make_setting,
    make_speed,
    measured_only,
    parse_knowledge,
    speed_remarks,
    with_history,
)
from rota.api.site_terms import site_terms
from rota.api.unread import (
    unread_costs,
    unread_failures,
    unread_ideal,
    unread_limits,
    unread_remarks,
    unread_seeds,
    unread_site_policy,
)
from rota.arguments import shown, takes
from rota.bounds import NAMES, PREFIX, compute, has_observed
from rota.bounds import observed as observed_run
from rota.errors import InputError, PolicyError
from rota.model.cluster import Cluster
from rota.model.grants import Can
from rota.model.trace import Trace
from rota.model.units import format_duration, plural
from rota.reports.window import Window, parse_window
from rota.scheduler.policy import Policy, PolicySpec, called, parse_policy, split_policies
from rota.traces.capacity import cluster_from, peak_demand
from rota.traces.deadlines import DrawnDeadlines
from rota.traces.elastic import ElasticSizes
from rota.traces.elsewhere import on_cluster
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.autoscale import autoscale_of
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault, parse_faults
from rota.worlds.simulated.many import Task, run_all
from rota.worlds.simulated.measured_costs import MeasuredCosts
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import Semantics, Work
from rota.worlds.simulated.semantics import semantics as semantics_named
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import SpeedModel

Policies = str | PolicySpec | Policy | Sequence[str | PolicySpec | Policy]
Progress = Callable[[str, int, int], None]
"""Is told a run's name, how many of its jobs have ended, and how many there are."""

SITE_POLICY = "fifo:skip=yes"
"""What a site is taken to have run when nobody says."""
SITE_POLICY_OF = dict.fromkeys(("pbs", "sacct", "swf"), "fifo:backfill=easy")
"""The same by format: batch schedulers backfill, on the limits that users state."""


@takes(**ARGUMENTS)
def simulate(
    trace: str | PathLike[str] | Trace,
    *,
    cluster: str | PathLike[str] | Cluster = "auto",
    policies: Policies = ("fifo",),
    format: str | None = None,
    knowledge: str | Mapping[str, str] | None = None,
    semantics: str | Semantics = "exact",
    costs: str | Costs | None = None,
    ideal: bool = False,
    faults: str | Sequence[Fault] = (),
    elastic: str | ElasticSizes | None = None,
    deadlines: str | DrawnDeadlines | None = None,
    accept: str | UserAnswers | None = None,
    failures: bool = True,
    retries: int | str | None = None,
    limits: str = "ignore",
    throughput: str | PathLike[str] | None = None,
    scaling: str | PathLike[str] | None = None,
    goodput: str | PathLike[str] | None = None,
    regimes: str | PathLike[str] | None = None,
    step_times: str | PathLike[str] | None = None,
    epochs: str | PathLike[str] | None = None,
    slowdowns: str | Slowdowns | None = None,
    pairs: str | PathLike[str] | None = None,
    service_history: str | PathLike[str] | None = None,
    autoscale: str | None = None,
    speed: SpeedModel | None = None,
    can: str | Mapping[str, Can] | None = None,
    observation_noise: float = 0.0,
    measure: str | Window | None = None,
    baseline: str | None = None,
    seed: int = 0,
    seeds: int = 1,
    observed: bool = True,
    site_policy: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Results:
    """Replay `trace` on `cluster` under each of `policies`; the same call gives the same results.

    cluster      `80x8:V100`, `auto` (as large as the trace needs), a YAML file, or a `Cluster`
    policies     names with parameters (`tiresias:promote=2`), specs, instances (called by their `name`,
                 if they have one, else by their class); `bound:srtf_relaxed`
    knowledge    source of what policies are told: `duration=oracle`, `user` or `predicted`; None is the truth,
                 and for a site's own history predicted durations (`rota.api.site_terms`)
    semantics    timing rules: `exact`, or those of a published simulator
    costs        such as `start=20s,restore=30s+1s/gpu,checkpoint_every=30m`, or `Costs` (`measured_costs`);
                 None is nothing, and for a site's own history `site_terms.RESTARTS`
    ideal        true durations and free stops for a site's own history too, as far as nothing else is said
    faults       nodes lost and repaired: `mtbf=30d,repair=4h` (per node), or a list
    elastic      `1:64`, `1:64:pow2`: sizes that jobs of one size can run on as well (`rota.traces.elastic`)
    deadlines    `0.5:1.5`: factors of its duration between which the deadline of a job without one is drawn;
                 `0.5:1.5:30%` for a part of the jobs (`rota.traces.deadlines`)
    autoscale    nodes that come and go as the policy asks: `2:16,delay=5m` (`worlds.simulated.autoscale`)
    accept       which later deadlines users take if a policy offers them: `1.5`, up to 1.5 times as long from
                 submission as they had asked for, `1.5:10m` after ten minutes; none if None
    failures     replay the failing attempts the trace recorded; False leaves them out
    retries      failing attempts after which a job is given up, or "adaptive"; None: as in the trace
    limits       `enforce`: who has run for as long as was stated at submission, and as its own record did,
                 is ended; `ignore`: nobody is (`worlds.simulated.limits`)
    throughput   table of iterations per second by workload, GPU type and GPUs, for traces with iterations
    scaling      the same table by number of GPUs alone, `FILE` or `FILE:TYPE`, interpolated
    goodput      profiles of step times and gradient noise by workload, for jobs that choose their batch
    regimes      batch sizes that jobs go through (`knowledge.regimes_file`), or `shockwave` for its modes
    step_times   seconds of a step by how the GPUs lie (`knowledge.step_tables_file`), with `epochs`, the
                 progress by batch size; `FILE,yolov3=8` limits a batch
    slowdowns    rates when spread or packed, and by host: `spread=0.8,spread.vgg19=0.5,colocation=0.9`
    can          what jobs bear without losing their work: `checkpoint+resize,vgg19=suspend`; all if None
    observation_noise  relative error of what is seen of running jobs, such as 0.1: what policies learn from
    pairs        rates of workloads beside each other, and their utilisation (`knowledge.pairs_file`)
    service_history  GPU-seconds of past jobs in a CSV file of one column, for `tiresias:order=gittins`
    speed        a speed model of one's own, in place of these
    measure      count jobs submitted in a window only: `10%:90%`, `1d:5d`
    baseline     the policy that changes are against; None takes `site_policy`, or the first
    seeds        run each policy with so many seeds, from `seed` on
    observed     where the trace recorded starts, add what happened and a replay of `site_policy`
    site_policy  what the site ran; EASY backfill for batch schedulers' logs, else `fifo:skip=yes`
    workers      processes to run on; None takes the cores there are, or this process for small traces

    Raises InputError for anything that is not as expected, PolicyError if a policy breaks a rule.
    """
    given = dict(locals())
    window = parse_window(measure) if isinstance(measure, str) else measure
    specs, bounds = _chosen(policies)
    named_baseline = _check_baseline(baseline, specs, bounds)
    whole = trace_as_asked(trace, format, elastic=elastic, deadlines=deadlines, seed=seed)
    own = parse_policy(site_policy or SITE_POLICY_OF.get(whole.format, SITE_POLICY))
    where = _cluster(cluster, whole)
    whole, elsewhere = on_cluster(whole, where)
    _check_window(window, whole)
    rules = semantics_named(semantics) if isinstance(semantics, str) else semantics

    def replayed(part: Trace) -> Trace:
        return part if failures else replace(part, truth=replace(part.truth, failures={}))

    if speed is None:
        files = throughput, goodput, slowdowns, pairs, scaling, regimes, step_times, epochs
        whole_steps = rules.work is Work.WHOLE_STEPS
        whole, speed = measured_jobs(
            whole, lambda part: make_speed(replayed(part), where, *files, whole_steps=whole_steps)
        )
    history = measured_only(replayed(whole), speed)
    said = with_history(parse_knowledge(knowledge), service_history)
    terms = site_terms(whole, said, costs, ideal=ideal)
    setting = make_setting(
        semantics=rules,
        costs=terms.costs,
        knowledge=terms.knowledge,
        speed=speed,
        retries=retries,
        can=can,
        observation_noise=observation_noise,
        accept=accept,
        limits=limits,
        autoscale=None if autoscale is None else autoscale_of(autoscale, where, specs),
        asked=as_asked(given),
    )
    shows_observed = observed and has_observed(whole)
    as_the_site = replace(setting, knowledge={**setting.knowledge, **_from_users(whole), **said})
    runs = [(spec, as_the_site if terms.is_own and str(spec) == str(own) else setting) for spec in specs]
    if shows_observed and str(own) not in map(str, specs):
        runs.append((own, replace(as_the_site, autoscale=None)))
    ran = [spec for spec, _ in runs]
    tasks = _tasks(runs, _seeds(seed, seeds), faults, history, where)
    records = run_all(
        tasks, history, where, workers=_check_workers(workers), progress=_named(progress, tasks, len(whole))
    )
    records += [compute(name, history, where) for name in bounds]
    if shows_observed:
        records.append(observed_run(whole, where))
    unread = tuple(unread_remarks(ran, said, given))
    return Results(
        records=tuple(records),
        trace=whole,
        cluster=where,
        window=window,
        named_baseline=named_baseline,
        site_policy=str(own) if shows_observed else None,
        remarks=(
            *whole.remarks,
            *refused_remarks(history, where),
            *due_before_remarks(history),
            *unread,
            *(unread_costs(ran, setting.costs, history, loses_nodes=bool(faults or autoscale)) if costs else ()),
            *unread_ideal(whole, ideal),
            *unread_failures(whole, failures, retries, faults),
            *unread_limits(history, setting.limits),
            *unread_seeds(records),
            *unread_site_policy(None if shows_observed else site_policy),
            *speed_remarks(speed),
            *run_remarks(records, history, where),
            *_remarks(whole, where, shows_observed),
            *elsewhere,
            *idle_remarks(records, cluster),
            *_costs_remark(setting.costs),
            *terms.remarks,
        ),
        unread=unread,
    )


def _tasks(
    runs: Sequence[tuple[PolicySpec | Policy, Setting]],
    seeds: Sequence[int],
    faults: str | Sequence[Fault],
    trace: Trace,
    cluster: Cluster,
) -> list[Task]:
    """Every policy with every seed; faults that are drawn are drawn anew for each."""
    is_only = len(runs) == len(seeds) == 1
    return [
        Task(
            policy if is_only else _copy(policy),
            replace(setting, seed=seed, faults=_faults(faults, trace, cluster, seed)),
        )
        for policy, setting in runs
        for seed in seeds
    ]


def _copy(policy: PolicySpec | Policy) -> PolicySpec | Policy:
    """A copy for one run of several, since an instance may keep caches of it."""
    try:
        return deepcopy(policy)
    except TypeError:
        name = type(policy).__name__
        raise PolicyError(
            f"{name} has compiled parts, which cannot be copied for several runs; give the policy by name, "
            "or run it alone"
        ) from None


def _cluster(given: str | PathLike[str] | Cluster, trace: Trace) -> Cluster:
    return given if isinstance(given, Cluster) else cluster_from(given, trace)


def _check_policy(policy: object) -> None:
    if isinstance(policy, type):
        raise InputError.at(
            f"{policy.__name__} is a class", argument="policies", expected=f"an instance, {policy.__name__}()"
        )
    if not isinstance(policy, str | PolicySpec) and not hasattr(policy, "decide"):
        expected = "names such as 'tiresias' (`rota systems` lists them), or instances of policies"
        raise InputError.at(f"{shown(policy)} is no policy", argument="policies", expected=expected)


def _chosen(policies: Policies) -> tuple[list[PolicySpec | Policy], list[str]]:
    """Policies as specs or instances, and names of bounds; a name given twice would look like two seeds."""
    listed: list[str | PolicySpec | Policy] = []
    several = isinstance(policies, Sequence) and not isinstance(policies, str)
    for policy in cast(Sequence[str | PolicySpec | Policy], policies if several else [policies]):
        _check_policy(policy)
        listed += split_policies(policy) if isinstance(policy, str) else [policy]
    bounds = [_check_bound(one) for one in listed if isinstance(one, str) and one.startswith(PREFIX)]
    specs = [
        parse_policy(one) if isinstance(one, str) else one
        for one in listed
        if not (isinstance(one, str) and one.startswith(PREFIX))
    ]
    if not listed:
        raise InputError.at("no policy is named", field="--policy", expected="names such as fifo,srtf")
    names = [*bounds, *map(called, specs)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        is_text = any(isinstance(spec, PolicySpec) and str(spec) == twice for spec in specs)
        expected = "each policy once" if is_text or twice in bounds else "instances with a `name` each"
        raise InputError.at(f"{twice!r} is named twice", field="--policy", expected=expected)
    return specs, bounds


def _check_bound(name: str) -> str:
    if name not in NAMES:
        close = get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(NAMES)}"
        raise InputError(f"there is no bound {name!r}; {hint}")
    return name


def _check_baseline(
    baseline: str | None, specs: Sequence[PolicySpec | Policy], bounds: Sequence[str]
) -> str | None:
    """The baseline as a record will call it."""
    if baseline is None:
        return None
    names = [*map(called, specs), *bounds]
    name = baseline if baseline in names else str(parse_policy(baseline))
    if name not in names:
        raise InputError.at(
            f"{baseline!r} is not among the policies",
            field="--baseline",
            expected=f"one of {', '.join(names)}",
        )
    return name


def _check_window(window: Window | None, trace: Trace) -> None:
    """A window without jobs would give a table without numbers."""
    submit_s = trace.jobs.submit_s
    if window is None or not len(submit_s):
        return
    first_s, last_s = float(submit_s.min()), float(submit_s.max())
    begin_s = window.start.resolve(first_s, last_s)
    end_s = window.end.resolve(first_s, last_s) if window.end else np.inf
    if not ((begin_s <= submit_s) & (submit_s <= end_s)).any():
        raise InputError.at(
            f"no job was submitted in {str(window)!r}",
            field="--measure",
            expected=f"a part of the {format_duration(last_s - first_s)} between first and last submission",
        )


def _costs_remark(costs: Costs) -> list[str]:
    return costs.remarks if isinstance(costs, MeasuredCosts) else []


def _from_users(trace: Trace) -> dict[str, str]:
    """Durations as the site knew them: from users, if they stated any."""
    return {} if np.isnan(trace.jobs.limit_s).all() else {"duration": "user"}


def _check_workers(workers: int | None) -> int | None:
    if workers is not None and workers < 1:
        raise InputError.at(f"{workers} workers cannot work", field="--workers", expected="1 or more")
    return workers


def _seeds(first: int, count: int) -> range:
    if first < 0:
        raise InputError.at(f"{first} is no seed", field="--seed", expected="0 or above")
    return range(first, first + check_seeds(count))


def _faults(faults: str | Sequence[Fault], trace: Trace, cluster: Cluster, seed: int) -> Sequence[Fault]:
    return (
        parse_faults(faults, cluster, _horizon_s(trace, cluster), seed) if isinstance(faults, str) else faults
    )


def _horizon_s(trace: Trace, cluster: Cluster) -> float:
    """A time by which any policy is done that wastes less than half of the cluster."""
    run_s = np.nan_to_num(trace.truth.run_s(), posinf=0.0)
    demand_gpu_s = float((run_s * trace.jobs.gpus).sum())
    last_s = float(trace.jobs.submit_s.max(initial=0.0))
    return last_s + float(run_s.max(initial=0.0)) + 2.0 * demand_gpu_s / max(cluster.gpus, 1)


def _named(progress: Progress | None, tasks: Sequence[Task], jobs: int) -> Callable[[int, int], None] | None:
    """Progress by name of the run in place of its number."""
    if progress is None:
        return None
    many_seeds = len({task.setting.seed for task in tasks}) > 1
    names = [f"{task.policy} seed {task.setting.seed}" if many_seeds else str(task.policy) for task in tasks]

    def told(number: int, done: int) -> None:
        progress(names[number], done, jobs)

    return told


def _remarks(trace: Trace, cluster: Cluster, shows_observed: bool) -> list[str]:
    if not shows_observed:
        return []
    peak = peak_demand(trace).gpus
    if peak <= cluster.gpus:
        return []
    return [
        f"The recorded run held up to {plural(peak, 'GPU')} at once, this cluster has {cluster.gpus:,}: "
        "the calibration compares different clusters."
    ]
