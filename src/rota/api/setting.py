"""From words, as people type them, to the setting of a run."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from rota.errors import InputError
from rota.knowledge.registry import Where, parse_sources, source_of
from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.worlds.simulated.costs import Costs, parse_costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import Semantics
from rota.worlds.simulated.semantics import semantics as semantics_named
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration, SpeedModel
from rota.worlds.simulated.speed_table import ThroughputSpeed


def make_setting(
    *,
    semantics: str | Semantics = "exact",
    costs: str | Costs | None = None,
    knowledge: str | Mapping[str, str] | None = None,
    speed: SpeedModel | None = None,
    retries: int | None = None,
    seed: int = 0,
) -> Setting:
    """The setting that these words describe; InputError names the one that is wrong."""
    if retries is not None and retries < 0:
        raise InputError.at(f"{retries} is below 0", field="--retries", expected="0 or more")
    return Setting(
        semantics=semantics if isinstance(semantics, Semantics) else semantics_named(semantics),
        costs=parse_costs(costs) if isinstance(costs, str) else costs or Costs(),
        speed=speed,
        knowledge=parse_knowledge(knowledge),
        retries=retries,
        seed=seed,
    )


def make_speed(
    trace: Trace,
    cluster: Cluster,
    throughput: str | PathLike[str] | None = None,
    slowdowns: str | Slowdowns | None = None,
) -> SpeedModel | None:
    """How fast jobs work: by a table of throughputs, or slowed down; None replays the trace's durations."""
    factors = parse_slowdowns(slowdowns) if isinstance(slowdowns, str) else slowdowns
    if isinstance(slowdowns, str) and factors is not None:
        _check_workloads(factors, trace)
    if throughput is not None:
        return ThroughputSpeed(trace, cluster, read_throughputs(Path(throughput)), factors)
    return None if factors is None else FixedDuration(trace.jobs, cluster, factors)


def _check_workloads(factors: Slowdowns, trace: Trace) -> None:
    """A misspelt workload would slow nobody down, and nobody would know."""
    names = trace.jobs.workload_names
    unknown = next((name for name in factors.spread if name not in ("*", *names)), None)
    if unknown is not None:
        raise InputError.at(
            f"spread.{unknown} is for a workload that no job runs",
            field="--slowdowns",
            expected=f"among {', '.join(names[:5])}" if names else "spread=: the trace names no workloads",
        )


def parse_slowdowns(text: str) -> Slowdowns:
    """The rates, relative to full speed, that `spread=0.8,spread.vgg19=0.5,colocation=0.9` describes.

    `spread` is for jobs on more nodes than they need, of one workload or of all others; `colocation` is for
    packed jobs, for each job beside them.
    """
    spread: dict[str, float] = {}
    colocation = 1.0
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = part.partition("=")
        kind, dot, workload = key.partition(".")
        if kind == "spread":
            spread[workload if dot else "*"] = _factor(key, value)
        elif key == "colocation":
            colocation = _factor(key, value)
        else:
            raise InputError.at(
                f"{part!r} slows nothing down", field="--slowdowns", expected="spread=0.8,colocation=0.9"
            )
    return Slowdowns(spread, colocation=colocation)


def _factor(key: str, value: str) -> float:
    try:
        factor = float(value)
    except ValueError:
        factor = -1.0
    if not 0 < factor <= 1:
        raise InputError.at(
            f"{key}={value} is no rate",
            field="--slowdowns",
            expected="above 0 and up to 1, which is full speed",
        )
    return factor


def parse_knowledge(given: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """Kinds of knowledge and their sources: `duration=user`."""
    if isinstance(given, str):
        return parse_sources(given, Where.SIMULATED)
    for kind, source in (given or {}).items():
        source_of(kind, source, Where.SIMULATED)
    return given or {}
