"""From words, as people type them after `--slowdowns`, to what placement, company and host cost."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

from rota.errors import InputError
from rota.knowledge.hosts import HostTable
from rota.knowledge.hosts_file import read_hosts
from rota.knowledge.pairs_file import read_pairs
from rota.knowledge.servers import ServedTable
from rota.knowledge.servers_file import read_servers
from rota.model.trace import Trace
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.sharing import SHARINGS, DeviceSharing
from rota.worlds.simulated.slowdowns import Slowdowns

_FLAG = "--slowdowns"


def parse_slowdowns(text: str) -> Slowdowns:
    """The slowdowns that `spread=0.8,spread.vgg19=0.5,colocation=0.9` describes, relative to full speed.

    spread[.WORKLOAD]        on more nodes than needed, of one workload or of all others
    level.LEVEL[.WORKLOAD]   the same for a level of the cluster above its nodes: level.rack=0.6
    colocation               of packed jobs, for each job beside them
    utilisation[.WORKLOAD]   part of a device that a job keeps busy alone: what it leaves to others
    sharing                  who gets what where some have first claim: tgs or antman; by shares if not given
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
    """`slowdowns` with the pairs and utilisations of a file; what was named by itself goes before the file.

    InputError if no job of the trace runs anything that the file knows.
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
    """A misspelt workload would slow nobody down, and nobody would know."""
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
