"""From words, as people type them, to the setting of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from rota.api.slowing import check_workloads, parse_slowdowns, with_pairs
from rota.errors import InputError
from rota.knowledge.adaptation import courses_of
from rota.knowledge.goodput_file import read_goodputs
from rota.knowledge.needs import Knowledge, Provenance
from rota.knowledge.regimes import Course
from rota.knowledge.regimes_file import read_regimes
from rota.knowledge.registry import Where, parse_sources, source_of
from rota.knowledge.scaling import ScalingCurves
from rota.knowledge.step_tables_file import read_step_tables
from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster import Cluster
from rota.model.grants import Can
from rota.model.trace import Trace
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.answers import UserAnswers, parse_answers
from rota.worlds.simulated.autoscale import Autoscale
from rota.worlds.simulated.costs import Costs, parse_costs
from rota.worlds.simulated.limits import TimeLimits, limits_of
from rota.worlds.simulated.retries import Retries, parse_retries
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import Semantics
from rota.worlds.simulated.semantics import semantics as semantics_named
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration, SpeedModel
from rota.worlds.simulated.speed_goodput import GoodputSpeed
from rota.worlds.simulated.speed_regimes import RegimeSpeed, StepRegimeSpeed
from rota.worlds.simulated.speed_steps import StepTableSpeed
from rota.worlds.simulated.speed_table import ScalingSpeed, ThroughputSpeed
from rota.worlds.simulated.speed_tuned import BatchBounds, TunedSpeed

ASKED = (
    *(
        "cluster",
        "knowledge",
        "costs",
        "ideal",
        "faults",
        "elastic",
        "deadlines",
        "accept",
        "failures",
        "retries",
    ),
    *("limits", "throughput", "scaling", "goodput", "regimes", "step_times", "epochs", "slowdowns", "pairs"),
    *("service_history", "autoscale", "can", "observation_noise"),
)
"""Options that change a run, which without their words nobody could repeat from its record."""
_DEFAULTS: tuple[object, ...] = (None, "", 0.0, (), [], {}, "auto", "ignore")
"""As an option is given that changes nothing."""
_DEFAULTS_OF: Mapping[str, tuple[object, ...]] = {"failures": (True,), "ideal": (False,), "costs": (None,)}
"""The same of options of which something else changes nothing; empty costs are free stops, stated."""
_CLUSTER_FILES = (".yaml", ".yml", ".csv")


def as_asked(given: Mapping[str, object]) -> dict[str, object]:
    """Those of `given`, by name, that are not as by default: `simulate(**as_asked(given))` asks for the same.

    A cluster in words is described in the record as it is; objects are shown.
    """
    said = {name: given[name] for name in ASKED if name in given and not _is_default(name, given[name])}
    if not str(said.get("cluster", "")).endswith(_CLUSTER_FILES):
        said.pop("cluster", None)
    plain = (str, bool, int, float)
    return {
        name: one if isinstance(one, plain) else str(one) if isinstance(one, PathLike) else repr(one)
        for name, one in said.items()
    }


def _is_default(name: str, value: object) -> bool:
    return any(type(value) is type(one) and value == one for one in _DEFAULTS_OF.get(name, _DEFAULTS))


def make_setting(
    *,
    semantics: str | Semantics = "exact",
    costs: str | Costs | None = None,
    knowledge: str | Mapping[str, str] | None = None,
    speed: SpeedModel | None = None,
    retries: int | str | Retries | None = None,
    observation_noise: float = 0.0,
    can: str | Mapping[str, Can] | None = None,
    seed: int = 0,
    accept: str | UserAnswers | None = None,
    limits: str | TimeLimits = TimeLimits.IGNORE,
    autoscale: Autoscale | None = None,
    asked: Mapping[str, object] | None = None,
) -> Setting:
    """The setting that these words describe; InputError names the one that is wrong."""
    if not 0.0 <= observation_noise < 1.0:
        raise InputError.at(
            f"{observation_noise:g} is no relative error",
            field="--observation-noise",
            expected="0, or a number below 1 such as 0.1",
        )
    return Setting(
        semantics=semantics if isinstance(semantics, Semantics) else semantics_named(semantics),
        costs=parse_costs(costs) if isinstance(costs, str) else costs or Costs(),
        speed=speed,
        knowledge=parse_knowledge(knowledge),
        retries=retries if isinstance(retries, Retries) else parse_retries(retries),
        observation_noise=observation_noise,
        can=parse_can(can) if isinstance(can, str) else can or {},
        answers=parse_answers(accept) if isinstance(accept, str) else accept or UserAnswers(),
        limits=limits_of(limits),
        autoscale=autoscale,
        asked=asked or {},
        seed=seed,
    )


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
    """How fast jobs work: by a table, curves or profiles, or slowed down; None replays durations.

    `step_times` with `epochs` are tables of what was measured: `FILE`, or `FILE,yolov3=8` where a workload
    bears no larger batch on one GPU.  `tuned` if jobs choose their batch by what they measure of themselves;
    `slower` is how many times longer some workloads take than was measured of their steps.

    `whole_steps` if its world counts in whole iterations: then `regimes` change at the end of a round.
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
    """Each of these says all of how fast jobs are."""
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
    """The trace, whose jobs take only types and sizes of GPUs on which a throughput table knows them.

    Jobs that choose their batch have the sizes for their own that were measured.
    """
    return replace(trace, jobs=speed.jobs) if isinstance(speed, ThroughputSpeed | TunedSpeed) else trace


def speed_remarks(speed: SpeedModel | None) -> list[str]:
    """What had to be guessed of the speeds that a table states."""
    guessed = speed.guessed if isinstance(speed, ThroughputSpeed) else {}
    return [
        f"Nobody measured {workload} on {_few(counts)} GPUs: its rate there is taken between its others."
        for workload, counts in guessed.items()
    ]


def _few(counts: Sequence[int], most: int = 8) -> str:
    """`3, 5, 6`, and dots if there are more."""
    return ", ".join([*map(str, counts[:most]), *["..."] * (len(counts) > most)])


def with_history(
    knowledge: Mapping[str, str], service_history: str | PathLike[str] | None
) -> Mapping[str, str]:
    """`knowledge` with a file of past jobs' GPU-seconds, as `--service-history` gives it."""
    if service_history is None:
        return knowledge
    kind = Knowledge.SERVICE_HISTORY.value
    if kind in knowledge:
        raise InputError.at(
            f"{kind} comes from {knowledge[kind]} already",
            field="--service-history",
            expected="one of the two",
        )
    return {**knowledge, kind: f"{Provenance.MEASURED.value}:{service_history}"}


def parse_knowledge(given: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """Kinds of knowledge and their sources: `duration=user`."""
    if isinstance(given, str):
        return parse_sources(given, Where.SIMULATED)
    for kind, source in (given or {}).items():
        source_of(kind, source, Where.SIMULATED)
    return given or {}
