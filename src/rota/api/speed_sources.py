"""Speeds of jobs, from tables, curves, profiles and rates of slowdown, as options of a run name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from rota.errors import InputError
from rota.knowledge.adaptation import courses_of
from rota.knowledge.goodput_file import read_goodputs
from rota.knowledge.hosts import HostTable
from rota.knowledge.hosts_file import read_hosts
from rota.knowledge.pairs_file import read_pairs
from rota.knowledge.regimes import Course
from rota.knowledge.regimes_file import read_regimes
from rota.knowledge.scaling import ScalingCurves
from rota.knowledge.servers import ServedTable
from rota.knowledge.servers_file import read_servers
from rota.knowledge.step_tables_file import read_step_tables
from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.sharing import SHARINGS, DeviceSharing
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration, SpeedModel
from rota.worlds.simulated.speed_goodput import GoodputSpeed
from rota.worlds.simulated.speed_regimes import RegimeSpeed, StepRegimeSpeed
from rota.worlds.simulated.speed_steps import StepTableSpeed
from rota.worlds.simulated.speed_table import ScalingSpeed, ThroughputSpeed
from rota.worlds.simulated.speed_tuned import BatchBounds, TunedSpeed

_FLAG = "--slowdowns"


def make_speed(
    trace: Trace,
    cluster: Cluster,
    throughput: str | PathLike[str] | None = None,
    goodput: str | PathLike[str] | None = None,
    slowdowns: str | Slowdowns | None = None,
    pairs: str | PathLike[str] | None = None,
    scaling: str | PathLike[str] | None = None,
    regimes: str | PathLike[str] | None = None,
    step_times: str | PathLike[str] | None = None,
    epochs: str | PathLike[str] | None = None,
    whole_steps: bool = False,
    tuned: BatchBounds | None = None,
    slower: Mapping[str, float] | None = None,
) -> SpeedModel | None:
    """The speeds of jobs: by a table, curves or profiles, or slowed down; None replays durations.

    `step_times` with `epochs` are tables of measured steps: `FILE`, or `FILE,yolov3=8` to limit the batch
    of a workload on one GPU.  With `tuned`, jobs choose their batch by what they measure of themselves.
    `slower` maps workloads to factors: they take that much longer than their measured steps.

    With `whole_steps` the world counts whole iterations, and `regimes` change at the end of a round.
    Raises InputError for options that exclude or need each other, and for files that cannot be read.
    """
    factors = parse_slowdowns(slowdowns) if isinstance(slowdowns, str) else slowdowns
    if isinstance(slowdowns, str) and factors is not None:
        check_workloads(factors, trace)
    if pairs is not None:
        factors = with_pairs(factors or Slowdowns(), pairs, trace)
    _refuse_two(
        {"--throughput": throughput, "--scaling": scaling, "--goodput": goodput, "--step-times": step_times}
    )
    if (step_times is None) != (epochs is None):
        flag, other = ("--epochs", "--step-times") if step_times is None else ("--step-times", "--epochs")
        raise InputError.at("says half of how fast jobs are", field=flag, expected=f"{other} with it")
    if step_times is not None and epochs is not None:
        file, largest = _with_limits(str(step_times))
        measured = read_step_tables(file, epochs, largest, slower)
        if tuned is not None:
            return TunedSpeed(trace, cluster, measured, factors, tuning=tuned)
        return StepTableSpeed(trace, cluster, measured, factors)
    if regimes is not None:
        if throughput is None:
            raise InputError.at(
                "needs iterations per second", field="--regimes", expected="--throughput with a table"
            )
        kind = StepRegimeSpeed if whole_steps else RegimeSpeed
        return kind(trace, cluster, read_throughputs(Path(throughput)), read_courses(trace, regimes), factors)
    if throughput is not None:
        return ThroughputSpeed(trace, cluster, read_throughputs(Path(throughput)), factors)
    if goodput is not None:
        return GoodputSpeed(trace, cluster, read_goodputs(Path(goodput)), factors)
    if scaling is not None:
        return ScalingSpeed(trace, cluster, read_scaling(scaling), factors)
    return None if factors is None else FixedDuration(trace.jobs, cluster, factors)


def read_courses(trace: Trace, regimes: str | PathLike[str]) -> list[Course]:
    """The batch sizes of each job: by the modes that a Shockwave trace states (`shockwave`), or by a file."""
    return courses_of(trace) if str(regimes) == "shockwave" else read_regimes(regimes, trace)


def _with_limits(text: str) -> tuple[str, dict[str, int]]:
    """`FILE,yolov3=8` as the file, and the largest batch of one GPU of some workloads."""
    file, *parts = text.split(",")
    limits = {}
    for part in parts:
        workload, equals, size = part.partition("=")
        if not equals or not size.strip().isdecimal() or not int(size):
            raise InputError.at(
                f"{part!r} is no limit of a workload", field="--step-times", expected=f"{file},yolov3=8"
            )
        limits[workload.strip()] = int(size)
    return file, limits


def _refuse_two(given: Mapping[str, object]) -> None:
    """Raises InputError if more than one option is given: each says all of how fast jobs are."""
    named = [flag for flag, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError.at(
            f"says how fast jobs are, as {named[0]} does", field=named[1], expected="one of the two"
        )


def read_scaling(given: str | PathLike[str]) -> ScalingCurves:
    """The curves in a throughput table: `FILE`, or `FILE:TYPE` where it has several types of GPU."""
    text = str(given)
    path, colon, gpu_type = text.rpartition(":")
    if not colon or Path(text).exists():
        path, gpu_type = text, ""
    table = read_throughputs(Path(path))
    if not gpu_type and len(table.types) > 1:
        raise InputError.at(
            f"has rates for {', '.join(table.types)}, and curves are of one type",
            file=path,
            expected=f"--scaling {path}:{table.types[0]}",
        )
    return ScalingCurves.from_table(table, gpu_type or table.types[0])


def measured_only(trace: Trace, speed: SpeedModel | None) -> Trace:
    """The trace, with jobs limited to the types and numbers of GPUs that have rates in the table of `speed`.

    Jobs that choose their batch are limited to the sizes that were measured.
    """
    return replace(trace, jobs=speed.jobs) if isinstance(speed, ThroughputSpeed | TunedSpeed) else trace


def speed_remarks(speed: SpeedModel | None) -> list[str]:
    """The rates that were interpolated, since the table lacks them."""
    guessed = speed.guessed if isinstance(speed, ThroughputSpeed) else {}
    return [
        f"No rate of {workload} was measured on {_few(counts)} GPUs: it is interpolated between its others."
        for workload, counts in guessed.items()
    ]


def _few(counts: Sequence[int], most: int = 8) -> str:
    """`3, 5, 6`, and dots if there are more."""
    return ", ".join([*map(str, counts[:most]), *["..."] * (len(counts) > most)])


def parse_slowdowns(text: str) -> Slowdowns:
    """The slowdowns that `spread=0.8,spread.vgg19=0.5,colocation=0.9` describes, relative to full speed.

    spread[.WORKLOAD]        on more nodes than needed, of one workload or of all others
    level.LEVEL[.WORKLOAD]   on more units of a level than needed: level.rack=0.6
    colocation               of packed jobs, for each job that shares their GPUs
    utilisation[.WORKLOAD]   part of a device that a job keeps busy alone: it leaves the rest to others
    sharing                  how jobs with first claim share a device: tgs or antman; by shares if not given
    hosts                    file of speeds by CPU cores and memory for each GPU
    servers                  file of speeds by parameter servers and workers
    """
    spread: dict[str, float] = {}
    levels: dict[str, dict[str, float]] = {}
    utilisation: dict[str, float] = {}
    colocation = 1.0
    sharing: DeviceSharing | None = None
    hosts: HostTable = {}
    servers: ServedTable = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = part.partition("=")
        kind, dot, workload = key.partition(".")
        if kind == "spread":
            spread[workload if dot else "*"] = _factor(key, value)
        elif kind == "utilisation":
            utilisation[workload if dot else "*"] = _factor(key, value)
        elif kind == "level" and dot:
            level, dot, workload = workload.partition(".")
            levels.setdefault(level, {})[workload if dot else "*"] = _factor(key, value)
        elif key == "colocation":
            colocation = _factor(key, value)
        elif key == "sharing":
            sharing = _sharing(value)
        elif key == "hosts":
            hosts = read_hosts(value)
        elif key == "servers":
            servers = read_servers(value)
        else:
            raise InputError.at(
                f"{part!r} slows nothing down", field=_FLAG, expected="spread=0.8,colocation=0.9"
            )
    company = Interference(utilisation=utilisation) if utilisation else None
    return Slowdowns(spread, levels, colocation, company, sharing, hosts, servers)


def _sharing(name: str) -> DeviceSharing:
    if name not in SHARINGS:
        raise InputError.at(f"sharing={name} is unknown", field=_FLAG, expected=" or ".join(SHARINGS))
    return SHARINGS[name]


def _factor(key: str, value: str) -> float:
    try:
        factor = float(value)
    except ValueError:
        factor = -1.0
    if not 0 < factor <= 1:
        raise InputError.at(
            f"{key}={value} is no rate", field=_FLAG, expected="above 0 and up to 1, which is full speed"
        )
    return factor


def with_pairs(slowdowns: Slowdowns, path: str | PathLike[str], trace: Trace) -> Slowdowns:
    """`slowdowns` with the pairs and utilisations of a file, except utilisations that `slowdowns` states.

    Raises InputError if the file knows no workload of the trace.
    """
    measured = read_pairs(Path(path))
    known = {name for pair in measured.pairs for name in pair}.union(measured.utilisation)
    if not known.intersection(trace.jobs.workload_names):
        few = ", ".join(trace.jobs.workload_names[:5])
        raise InputError.at(
            f"knows no workload that a job runs ({', '.join(sorted(known)[:5])})",
            file=path,
            expected=f"among {few}" if few else "a trace that names workloads",
        )
    own = slowdowns.company.utilisation if slowdowns.company else {}
    company = Interference(measured.pairs, {**measured.utilisation, **own})
    return replace(slowdowns, company=company)


def check_workloads(slowdowns: Slowdowns, trace: Trace) -> None:
    """Raises InputError for a workload that no job runs: misspelt, it would slow down no job."""
    names = trace.jobs.workload_names
    utilisation = slowdowns.company.utilisation if slowdowns.company else {}
    named = [("spread", name) for name in slowdowns.spread]
    named += [(f"level.{level}", name) for level, factors in slowdowns.levels.items() for name in factors]
    named += [("utilisation", name) for name in utilisation]
    unknown = next(((kind, name) for kind, name in named if name not in ("*", *names)), None)
    few = f"among {', '.join(names[:5])}"
    if unknown is not None:
        kind, name = unknown
        raise InputError.at(
            f"{kind}.{name} is for a workload that no job runs",
            field=_FLAG,
            expected=few if names else f"{kind}=: the trace names no workloads",
        )
    for key, known in (("hosts", slowdowns.hosts), ("servers", slowdowns.servers)):
        if known and not any(name in known for name in names):
            raise InputError.at(
                f"{key}= has no workload that a job runs ({', '.join(list(known)[:5])})",
                field=_FLAG,
                expected=few if names else "a trace that names workloads",
            )
