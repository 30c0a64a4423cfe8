"""Replay a trace under several policies, in three lines.

import rota
result = rota.simulate("trace.csv", cluster="80x8:V100", policies=["tiresias", "srtf", "fifo"])
result.report("out/")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike

import numpy as np

from rota.api.compared_policies import Policies, check_baseline, chosen_policies
from rota.api.no_effect import no_effect_remarks, unread_remarks
from rota.api.prepared_trace import measured_jobs, trace_as_asked
from rota.api.remarks import due_before_remarks, idle_remarks, refused_remarks, run_remarks
from rota.api.results import Results
from rota.api.run_options import ARGUMENTS, RunOptions, documented
from rota.api.run_setup import make_setting, parse_knowledge, with_history
from rota.api.seeds import Progress, run_seeds, seeds_from
from rota.api.site_policy import fit_present, site_knowledge, usual_policy
from rota.api.site_terms import SiteTerms, site_terms
from rota.api.speed_sources import make_speed, measured_only, speed_remarks
from rota.arguments import takes
from rota.bounds import compute, has_observed
from rota.bounds import observed as observed_run
from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.grants import Can
from rota.model.trace import Trace
from rota.model.units import format_duration, plural
from rota.reports.window import Window, parse_window
from rota.scheduler.policy import Policy, PolicySpec, parse_policy
from rota.traces.capacity import cluster_from, peak_demand
from rota.traces.deadlines import DrawnDeadlines
from rota.traces.describe import TRACE
from rota.traces.elastic import ElasticSizes
from rota.traces.elsewhere import on_cluster
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.autoscale import autoscale_of
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.measured_costs import MeasuredCosts
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import Semantics, Work
from rota.worlds.simulated.semantics import semantics as semantics_named
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import SpeedModel


@documented
@takes(trace=TRACE, **ARGUMENTS)
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

    Raises InputError for anything that is not as expected, PolicyError if a policy breaks a rule.
    The options are those of `rota simulate` (`rota.api.run_options`):
    """
    given = dict(locals())
    del given["trace"]
    options = RunOptions(**given)
    measure = parse_window(options.measure) if isinstance(options.measure, str) else options.measure
    specs, bounds = chosen_policies(options.policies)
    named_baseline = check_baseline(options.baseline, specs, bounds)
    read = trace_as_asked(
        trace, options.format, elastic=options.elastic, deadlines=options.deadlines, seed=options.seed
    )
    where = cluster if isinstance(cluster, Cluster) else cluster_from(cluster, read)
    whole, elsewhere = on_cluster(read, where)
    _check_window(measure, whole)
    rules = semantics_named(options.semantics) if isinstance(options.semantics, str) else options.semantics
    whole, speed = _speeds(options, whole, where, rules)
    history = measured_only(_replayed(whole, options.failures), speed)
    stated = with_history(parse_knowledge(options.knowledge), options.service_history)
    terms = site_terms(whole, stated, options.costs, ideal=options.ideal)
    setting = _setting(options, terms, rules, speed, where, specs)
    shows_observed = options.observed and has_observed(whole)
    fit = None
    if shows_observed and not options.site_policy:
        fit = fit_present(whole, simulate, {**given, "cluster": where})
    own = parse_policy(options.site_policy or (fit.policy if fit else usual_policy(whole)))
    runs = _runs(specs, setting, terms, own, site_knowledge(whole, stated), shows_observed=shows_observed)
    records = run_seeds(
        runs,
        seeds_from(options.seed, options.seeds),
        options.faults,
        history,
        where,
        workers=_check_workers(options.workers),
        progress=options.progress,
    )
    records += [compute(name, history, where) for name in bounds]
    if shows_observed:
        records.append(observed_run(whole, where))
    ran = [spec for spec, _ in runs]
    unread = tuple(unread_remarks(ran, stated, given))
    return Results(
        records=tuple(records),
        trace=whole,
        cluster=where,
        window=measure,
        named_baseline=named_baseline,
        site_policy=str(own) if shows_observed else None,
        fit=fit,
        remarks=(
            *whole.remarks,
            *refused_remarks(history, where),
            *due_before_remarks(history),
            *unread,
            *no_effect_remarks(options, whole, ran, setting.costs, records, shows_observed=shows_observed),
            *speed_remarks(speed),
            *run_remarks(records, history, where),
            *(_other_cluster_remarks(whole, where) if shows_observed else ()),
            *elsewhere,
            *idle_remarks(records, options.cluster),
            *(setting.costs.remarks if isinstance(setting.costs, MeasuredCosts) else ()),
            *terms.remarks,
        ),
        unread=unread,
        confidence=options.confidence,
    )


def _replayed(trace: Trace, failures: bool) -> Trace:
    """`trace` with its failing attempts, or without them."""
    return trace if failures else replace(trace, truth=replace(trace.truth, failures={}))


def _speeds(
    options: RunOptions, trace: Trace, cluster: Cluster, rules: Semantics
) -> tuple[Trace, SpeedModel | None]:
    """The jobs with known speeds, and their speeds."""
    if options.speed is not None:
        return trace, options.speed

    def make(part: Trace) -> SpeedModel | None:
        return make_speed(
            _replayed(part, options.failures),
            cluster,
            options.throughput,
            options.goodput,
            options.slowdowns,
            options.pairs,
            options.scaling,
            options.regimes,
            options.step_times,
            options.epochs,
            whole_steps=rules.work is Work.WHOLE_STEPS,
        )

    return measured_jobs(trace, make)


def _setting(
    options: RunOptions,
    terms: SiteTerms,
    rules: Semantics,
    speed: SpeedModel | None,
    cluster: Cluster,
    policies: Sequence[PolicySpec | Policy],
) -> Setting:
    """The setting that policies run in."""
    scale = options.autoscale
    return make_setting(
        semantics=rules,
        costs=terms.costs,
        knowledge=terms.knowledge,
        speed=speed,
        retries=options.retries,
        can=options.can,
        observation_noise=options.observation_noise,
        accept=options.accept,
        limits=options.limits,
        autoscale=None if scale is None else autoscale_of(scale, cluster, policies),
        asked=options.recorded(),
    )


def _runs(
    specs: Sequence[PolicySpec | Policy],
    setting: Setting,
    terms: SiteTerms,
    own: PolicySpec,
    as_known: Mapping[str, str],
    *,
    shows_observed: bool,
) -> list[tuple[PolicySpec | Policy, Setting]]:
    """Each policy with its setting; the site's own one runs as the site knew durations."""
    as_the_site = replace(setting, knowledge={**setting.knowledge, **as_known})
    runs = [(spec, as_the_site if terms.is_own and str(spec) == str(own) else setting) for spec in specs]
    if shows_observed and str(own) not in map(str, specs):
        runs.append((own, replace(as_the_site, autoscale=None)))
    return runs


def _check_window(window: Window | None, trace: Trace) -> None:
    """Raises InputError for a window without jobs: its table would have no numbers."""
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


def _check_workers(workers: int | None) -> int | None:
    if workers is not None and workers < 1:
        raise InputError.at(f"{workers} workers cannot work", field="--workers", expected="1 or more")
    return workers


def _other_cluster_remarks(trace: Trace, cluster: Cluster) -> Iterator[str]:
    """Says if the recorded run needed a larger cluster."""
    peak = peak_demand(trace).gpus
    if peak > cluster.gpus:
        yield (
            f"The recorded run held up to {plural(peak, 'GPU')} at once, this cluster has {cluster.gpus:,}: "
            "the calibration compares different clusters."
        )
