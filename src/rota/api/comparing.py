"""Replay a trace under several policies, in three lines.

import rota
result = rota.simulate("trace.csv", cluster="80x8:V100", policies=["tiresias", "srtf", "fifo"])
result.report("out/")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike

import numpy as np

from rota.api.arguments import ARGUMENTS
from rota.api.asked import trace_as_asked
from rota.api.chosen import Policies, check_baseline, chosen_policies
from rota.api.fitting import fit_present, site_knowledge, usual_policy
from rota.api.measured_jobs import measured_jobs
from rota.api.remarks import due_before_remarks, idle_remarks, refused_remarks, run_remarks
from rota.api.results import Results
from rota.api.seeds import Progress, run_seeds, seeds_from
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
    unread_confidence,
    unread_costs,
    unread_failures,
    unread_ideal,
    unread_limits,
    unread_remarks,
    unread_seeds,
    unread_site_policy,
)
from rota.arguments import takes
from rota.bounds import compute, has_observed
from rota.bounds import observed as observed_run
from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.grants import Can
from rota.model.trace import Trace
from rota.model.units import format_duration, plural
from rota.reports.window import Window, parse_window
from rota.scheduler.policy import parse_policy
from rota.traces.capacity import cluster_from, peak_demand
from rota.traces.deadlines import DrawnDeadlines
from rota.traces.elastic import ElasticSizes
from rota.traces.elsewhere import on_cluster
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.autoscale import autoscale_of
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.measured_costs import MeasuredCosts
from rota.worlds.simulated.semantics import Semantics, Work
from rota.worlds.simulated.semantics import semantics as semantics_named
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import SpeedModel


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
    confidence: bool = False,
    observed: bool = True,
    site_policy: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Results:
    """Replay `trace` on `cluster` under each of `policies`; the same call gives the same results.

    cluster      `80x8:V100`, `auto` (as large as the trace needs), a YAML file, or a `Cluster`
    policies     names with parameters (`tiresias:promote=2`), specs, instances (called by their `name`,
                 if they have one, else by their class); `bound:srtf_relaxed`
    knowledge    source of what policies are told: `duration=oracle`, `user` or `predicted`; None is
                 the truth, and for a site's own history predicted durations (`rota.api.site_terms`)
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
    seeds        run each policy with so many seeds, from `seed` on; once, if nothing in its run is drawn
    confidence   intervals beside the numbers: what they come to in other mixtures of the same weeks
    observed     where the trace recorded starts, add what happened and a replay of `site_policy`
    site_policy  what the site ran; None takes what fits the recorded starts best (`rota.api.fitting`)
    workers      processes to run on; None takes the cores there are, or this process for small traces

    Raises InputError for anything that is not as expected, PolicyError if a policy breaks a rule.
    """
    given = dict(locals())
    window = parse_window(measure) if isinstance(measure, str) else measure
    specs, bounds = chosen_policies(policies)
    named_baseline = check_baseline(baseline, specs, bounds)
    whole = trace_as_asked(trace, format, elastic=elastic, deadlines=deadlines, seed=seed)
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
    fit = (
        fit_present(whole, simulate, given | {"cluster": where})
        if shows_observed and not site_policy
        else None
    )
    own = parse_policy(site_policy or (fit.policy if fit else usual_policy(whole)))
    as_the_site = replace(setting, knowledge={**setting.knowledge, **site_knowledge(whole, said)})
    runs = [(spec, as_the_site if terms.is_own and str(spec) == str(own) else setting) for spec in specs]
    if shows_observed and str(own) not in map(str, specs):
        runs.append((own, replace(as_the_site, autoscale=None)))
    ran = [spec for spec, _ in runs]
    records = run_seeds(
        runs,
        seeds_from(seed, seeds),
        faults,
        history,
        where,
        workers=_check_workers(workers),
        progress=progress,
    )
    records += [compute(name, history, where) for name in bounds]
    if shows_observed:
        records.append(observed_run(whole, where))
    loses_nodes = bool(faults or autoscale)
    unread = tuple(unread_remarks(ran, said, given))
    return Results(
        records=tuple(records),
        trace=whole,
        cluster=where,
        window=window,
        named_baseline=named_baseline,
        site_policy=str(own) if shows_observed else None,
        fit=fit,
        remarks=(
            *whole.remarks,
            *refused_remarks(history, where),
            *due_before_remarks(history),
            *unread,
            *(
                unread_costs(ran, setting.costs, history, loses_nodes=bool(faults or autoscale))
                if costs
                else ()
            ),
            *unread_ideal(whole, ideal),
            *unread_failures(whole, failures, retries, faults),
            *unread_limits(history, setting.limits),
            *unread_seeds(records, seeds),
            *unread_confidence(whole, confidence),
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
        confidence=confidence,
    )


def _cluster(given: str | PathLike[str] | Cluster, trace: Trace) -> Cluster:
    return given if isinstance(given, Cluster) else cluster_from(given, trace)


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


def _check_workers(workers: int | None) -> int | None:
    if workers is not None and workers < 1:
        raise InputError.at(f"{workers} workers cannot work", field="--workers", expected="1 or more")
    return workers


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
