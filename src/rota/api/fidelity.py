"""Fidelity cases: a YAML file names a workload, a policy, timing rules and the authors' results.

name: tiresias-itp06-dlas-gpu
reference: Tiresias simulator                    # whose results these are, in words
trace: workloads/itp06.csv.gz                    # relative paths start at the data directory
format: tiresias                                 # as `rota trace formats` lists them; found if left out
where: {load: "1.0", workload: workload-6}       # only rows with these cells; all if left out
elastic: 1:64,ncf=1:1                            # sizes on which its jobs can run, as `--elastic`
first: 40                                        # number of its jobs, the earliest; all if left out
cluster: 16x8                                    # or, instead of it, `virtual_clusters: vc_config.csv`
cpus: 24                                         # of each node, no limit if left out; `memory_gib` as well
policy: tiresias@authors
semantics: tiresias                              # a preset of timing rules; exact if left out
throughputs: inputs/throughputs.csv.gz           # only for jobs that state iterations: rates by GPU type
scaling: inputs/throughputs.csv.gz:v100         # or by number of GPUs alone, on one type
goodputs: inputs/goodputs.json.gz                # or by profiles of jobs that choose their batch
step_times: inputs/step_times.csv.gz             # or by what was measured of them, with `epochs`
epochs: inputs/epochs.csv.gz
seeds: 3                                         # runs, of which each job's mean counts; 1 if left out
tuned: sia                                       # jobs choose their batch by their own measurements
slower: {cifar10: 1.8}                           # factors by which some take longer than measured
hosts: inputs/profiles.json.gz                   # speeds by cores, as Synergy's simulator takes its profiles
regimes: shockwave                               # batch sizes that change as the modes of the trace say
knowledge: {duration: user}                      # sources by kind, as `--knowledge`; the truth if left out
service_history: {file: samples.csv, column: x}  # only for policies that need it
costs: preempt=40s|9:60s                         # as `--costs`; stops are free if left out
arrivals: {jobs: 1000, every_s: 60}              # jobs at once, instead of the times of the trace
results:
  file: jobs/dlas-gpu.csv.gz                     # CSV, one row per job
  job: job                                       # column with the name of the job in the trace
  jct: jct                                       # its completion time, or `submit` and `finish` instead
  unit_s: 1                                      # seconds in one unit of these columns
  in_time: 0.749                                 # share of the jobs that they count as planned in time
  where: {workload: workload-6}                  # only rows with these cells
tolerance: {equal_share: 0.99, mean_within: 0.01}
note: where a known difference comes from
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rota.api.run_setup import parse_knowledge
from rota.api.speed_sources import make_speed, measured_only
from rota.errors import InputError
from rota.knowledge.hosts_file import on_a_line, read_hosts
from rota.knowledge.service import ServiceSamples
from rota.knowledge.side_file import read_text
from rota.model.cluster import Cluster, parse_cluster
from rota.model.columns import read_only
from rota.model.once import refuse_twice
from rota.model.record import Record
from rota.model.trace import Trace
from rota.reports.fidelity import CaseResult, Tolerance, compare_times
from rota.reports.metrics import planned_in_time_share
from rota.reports.sample import Sample
from rota.scheduler.policy import parse_policy
from rota.traces import read
from rota.traces.elastic import make_elastic, parse_sizes
from rota.traces.lucid import read_vcs
from rota.traces.registry import find
from rota.traces.source import TraceSource
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.semantics import Work, semantics
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed_tuned import BatchBounds


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Samples(_Strict):
    file: str
    column: str | None = None


class _Arrivals(_Strict):
    jobs: int = Field(gt=0)
    every_s: float = Field(gt=0, allow_inf_nan=False)


class _Results(_Strict):
    file: str
    job: str = "job"
    jct: str | None = None
    submit: str | None = None
    finish: str | None = None
    unit_s: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    in_time: float | None = Field(default=None, ge=0, le=1)
    where: dict[str, str] = {}


class _Tolerance(_Strict):
    equal_share: float | None = Field(default=None, ge=0, le=1)
    mean_within: float = Field(default=0.03, ge=0, allow_inf_nan=False)


class _Case(_Strict):
    name: str
    reference: str
    trace: str
    format: str | None = None
    where: dict[str, str] = {}
    elastic: str | None = None
    first: int | None = Field(default=None, gt=0)
    cluster: str | None = None
    cpus: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    memory_gib: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    virtual_clusters: str | None = None
    policy: str
    semantics: str = "exact"
    costs: str = ""
    arrivals: _Arrivals | None = None
    throughputs: str | None = None
    scaling: str | None = None
    goodputs: str | None = None
    step_times: str | None = None
    epochs: str | None = None
    tuned: str | None = Field(default=None, pattern="^(pollux|sia)$")
    slower: dict[str, float] = {}
    hosts: str | None = None
    regimes: str | None = None
    knowledge: dict[str, str] = {}
    service_history: _Samples | None = None
    seeds: int = Field(default=1, gt=0)
    results: _Results
    tolerance: _Tolerance = _Tolerance()
    note: str = ""


_FIELDS: dict[str, type[BaseModel]] = {
    "": _Case,
    "service_history": _Samples,
    "arrivals": _Arrivals,
    "results": _Results,
    "tolerance": _Tolerance,
}


def run_case(
    path: str | os.PathLike[str], data_dir: str | os.PathLike[str] = ".", also: str = ""
) -> CaseResult:
    """Replay the case in the file `path` and compare; relative paths in it start at `data_dir`.

    `also` is a further parameter of its policy, such as `tie=sum`, which becomes part of its name.
    Raises InputError naming the case file and the field that is wrong, or the file that is missing.
    """
    case, data = _load(Path(path)), Path(data_dir)
    if also:
        joint = "," if ":" in case.policy else ":"
        case = case.model_copy(
            update={"name": f"{case.name}, {also}", "policy": f"{case.policy}{joint}{also}"}
        )
    theirs = _their_times(case.results, data)
    records = _replay(case, Path(path), data)
    times = compare_times(_mean_times(records), theirs, str(data / case.results.file))
    return CaseResult(
        name=case.name,
        reference=case.reference,
        workload=case.trace,
        cluster=case.cluster or str(records[0].provenance["cluster"]),
        policy=case.policy,
        engine_seconds=sum(record.engine_seconds for record in records),
        tolerance=Tolerance(case.tolerance.equal_share, case.tolerance.mean_within),
        in_time=None if case.results.in_time is None else _planned_in_time(records),
        in_time_theirs=case.results.in_time,
        note=case.note,
        **vars(times),
    )


def replay_case(path: str | os.PathLike[str], data_dir: str | os.PathLike[str] = ".") -> Record:
    """The record of the case in the file `path` with its first seed; compares nothing."""
    return _replay(_load(Path(path)), Path(path), Path(data_dir))[0]


def _replay(case: _Case, path: Path, data: Path) -> list[Record]:
    """One run for each seed."""
    try:
        spec, cluster, rules, costs, knowledge = (
            parse_policy(case.policy),
            _cluster(case, data),
            semantics(case.semantics),
            parse_costs(case.costs),
            parse_knowledge(case.knowledge),
        )
    except InputError as error:
        raise InputError.at(str(error), file=path) from None
    trace = _rows_of(data / case.trace, case).by_submission()
    trace = _arriving(trace.take(np.arange(len(trace))[: case.first]), case.arrivals)
    if case.elastic is not None:
        trace = make_elastic(trace, parse_sizes(case.elastic))
    providers = []
    if case.service_history:
        samples = case.service_history
        providers.append(ServiceSamples.read(data / samples.file, samples.column))
    tables = (case.throughputs, case.goodputs, case.scaling, case.step_times, case.epochs)
    throughputs, goodputs, scaling, step_times, epochs = (
        None if name is None else str(data / name) for name in tables
    )
    # Synergy's simulator takes the best demand of each profile, and a straight line to it.
    hosts = None if case.hosts is None else Slowdowns(hosts=on_a_line(read_hosts(data / case.hosts)))

    def played(seed: int) -> Record:
        """One run, with speeds of its own: jobs learn them during the run."""
        speed = make_speed(
            trace,
            cluster,
            throughputs,
            goodputs,
            hosts,
            scaling=scaling,
            regimes=case.regimes,
            step_times=step_times,
            epochs=epochs,
            whole_steps=rules.work is Work.WHOLE_STEPS,
            tuned=None if case.tuned is None else BatchBounds(case.tuned),
            slower=case.slower,
        )
        setting = Setting(rules, costs, speed, knowledge, providers, seed=seed)
        return run(spec, measured_only(trace, speed), cluster, setting)

    try:
        return [played(seed) for seed in range(case.seeds)]
    except InputError as error:
        raise InputError.at(str(error), file=path) from None


def _cluster(case: _Case, data: Path) -> Cluster:
    if case.virtual_clusters is not None:
        return read_vcs(data / case.virtual_clusters)
    cluster = parse_cluster(str(case.cluster))
    cpus, memory_gib = np.full(cluster.nodes, case.cpus), np.full(cluster.nodes, case.memory_gib)
    return replace(cluster, node_cpus=read_only(cpus), node_memory_gib=read_only(memory_gib))


def _rows_of(path: Path, case: _Case) -> Trace:
    """The trace; of a table of several workloads those rows that the case names."""
    if not case.where:
        return read(path, case.format)
    frame = _picked(_read_csv(path), case.where, path)
    source = TraceSource(str(path), frame.write_csv().encode())
    return find(source, case.format).read(source)


def _picked(frame: pl.DataFrame, where: Mapping[str, str], path: Path) -> pl.DataFrame:
    """The rows with these cells."""
    for name, cell in where.items():
        if name not in frame.columns:
            raise InputError.at(
                "is not there", file=path, row=1, field=name, expected=", ".join(frame.columns)
            )
        frame = frame.filter(pl.col(name) == cell)
        if not frame.height:
            raise InputError.at(f"no row has {cell!r} there", file=path, field=name, expected="a cell of it")
    return frame


def _arriving(trace: Trace, arrivals: _Arrivals | None) -> Trace:
    """The trace with jobs that arrive in groups of `arrivals.jobs`, in their order."""
    if arrivals is None:
        return trace
    submit_s = np.arange(len(trace)) // arrivals.jobs * arrivals.every_s
    return replace(trace, jobs=replace(trace.jobs, submit_s=read_only(submit_s)))


def _planned_in_time(records: Sequence[Record]) -> float:
    """Share of the jobs that were planned in time, the mean of all runs."""
    shares = [planned_in_time_share(Sample.of(record)) for record in records]
    return float(np.mean([share if isinstance(share, float) else 0.0 for share in shares]))


def _mean_times(records: Sequence[Record]) -> pl.DataFrame:
    """Completion time of each job, the mean of all runs; null if it did not complete in each."""
    if len(records) == 1:
        return _our_times(records[0])
    times = pl.concat([_our_times(record) for record in records])
    mean = pl.when(pl.col("jct_s").null_count() == 0).then(pl.col("jct_s").mean()).alias("jct_s")
    return times.group_by("job_id", maintain_order=True).agg(mean)


def _our_times(record: Record) -> pl.DataFrame:
    """Completion time of each job; null if it did not complete."""
    is_done = pl.col("state") == "COMPLETED"
    jct_s = pl.when(is_done).then(pl.col("finish_s") - pl.col("submit_s")).alias("jct_s")
    return record.jobs.select("job_id", jct_s)


def _their_times(results: _Results, data: Path) -> pl.DataFrame:
    """Completion time of each job by the authors' results."""
    file = data / results.file
    frame = _picked(_read_csv(file), results.where, file)
    wanted = [results.job, *filter(None, (results.jct, results.submit, results.finish))]
    missing = next((name for name in wanted if name not in frame.columns), None)
    if missing is not None:
        raise InputError.at(
            "is not there", file=file, row=1, field=missing, expected=", ".join(frame.columns)
        )
    numbers = {name: frame[name].cast(pl.Float64, strict=False) for name in wanted[1:]}
    for name, column in numbers.items():
        wrong = column.is_null().arg_true()
        if len(wrong):
            cell = frame[name][wrong[0]]
            raise InputError.at(f"{cell!r} is no number", file=file, row=wrong[0] + 2, field=name)
    if results.jct is not None:
        jct = numbers[results.jct]
    else:
        jct = numbers[str(results.finish)] - numbers[str(results.submit)]
    return pl.DataFrame({"job_id": frame[results.job].cast(pl.String), "jct_s": jct * results.unit_s})


def _read_csv(file: Path) -> pl.DataFrame:
    try:
        frame = pl.read_csv(read_text(file, expected="CSV").encode(), infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise InputError.at(f"cannot be read ({str(error).splitlines()[0]})", file=file) from None
    if not frame.height:
        raise InputError.at("holds no jobs", file=file, expected="one row per job")
    return frame


# -- the case file -----------------------------------------------------------------------------------


def _load(path: Path) -> _Case:
    try:
        text = path.read_text(encoding="utf-8")
        values = yaml.safe_load(text)
        refuse_twice(yaml.compose(text, Loader=yaml.SafeLoader), path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError.at(f"cannot read the case: {reason}", file=path) from None
    except (yaml.YAMLError, RecursionError) as error:  # the latter where it is nested too deep
        problem = getattr(error, "problem", None) or "something is misplaced"
        raise InputError.at(f"this is not YAML: {problem}", file=path) from None
    if not isinstance(values, dict):
        raise InputError.at("this describes no case", file=path, expected="fields such as trace and policy")
    try:
        case = _Case.model_validate(values)
    except ValidationError as error:
        raise InputError.at(_explain(error), file=path) from None
    if (case.cluster is None) == (case.virtual_clusters is None):
        clusters = "no cluster" if case.cluster is None else "two clusters"
        raise InputError.at(f"names {clusters}", file=path, expected="either cluster or virtual_clusters")
    results = case.results
    if (results.jct is None) == (results.submit is None or results.finish is None):
        raise InputError.at(
            "results names no completion times", file=path, expected="either jct, or submit and finish"
        )
    return case


def _explain(error: ValidationError) -> str:
    """The first problem in one sentence; a misspelt name before the field that it leaves missing."""
    first: Any = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = list(_FIELDS[str(first["loc"][0]) if len(first["loc"]) > 1 else ""].model_fields)
        near = get_close_matches(str(first["loc"][-1]), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
        return f"{name} is not a field of a fidelity case; {hint}"
    if first["type"] == "missing":
        return f"{name} is missing"
    return f"{name} is {first['input']!r}; {first['msg'].replace('Input should', 'it should')}"
