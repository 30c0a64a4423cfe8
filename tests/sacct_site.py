"""A small site's accounting dump, seeded, with faults planted in it or without.

Partitions serve in the order of submission, each on its own nodes; a job that does not fit is passed over.
Steps carry what `TRESUsageInTot` says of GPUs.  What is planted:

idle    a user who holds GPUs for hours and keeps them busy 0 to 3 % of the time
array   an array all of whose tasks die alike
wrong   a user whose jobs, which name no type of GPU, wait for a full partition while another is empty
limits  a user who asks for twenty times and more what the jobs take
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

START = np.datetime64("2026-03-02T00:00:00")
FIELDS = (
    "JobIDRaw", "JobID", "JobName", "User", "Account", "Partition", "Submit", "Eligible", "Start", "End",
    "ElapsedRaw", "TotalCPU", "TimelimitRaw", "State", "ExitCode", "NodeList", "ReqTRES", "AllocTRES",
    "TRESUsageInTot",
)  # fmt: skip
USERS = (("vision", ("ann", "bob", "carl")), ("nlp", ("dora", "eve")), ("bio", ("finn", "gus")))
FAULTS = ("idle", "array", "wrong", "limits")


@dataclass
class Ask:
    """One job as it is submitted."""

    user: str
    account: str
    name: str
    partition: str
    submit_s: float
    gpus: int
    run_s: float
    limit_min: int
    busy: float
    typed: bool = True
    array: str = ""
    state: str = "COMPLETED"
    exit: str = "0:0"
    nodes: list[int] = field(default_factory=list)
    start_s: float = 0.0


@dataclass(frozen=True)
class Site:
    """Shape of the site and what its dump tells."""

    nodes: int = 6
    """Of each partition, with eight GPUs each."""
    days: int = 10
    jobs: int = 700
    usage: bool = True
    cpu: bool = False
    """Whether TotalCPU is counted."""
    fail_rate: float = 0.08


PARTITIONS = (("a100", "a100"), ("v100", "v100"))


def dump(seed: int, faults: tuple[str, ...] = (), site: Site | None = None) -> str:
    """The text that sacct would print."""
    site = site or Site()
    rng = np.random.default_rng(seed)
    asked = [*_background(rng, site)]
    for fault in faults:
        asked += {"idle": _idle, "array": _array, "wrong": _wrong, "limits": _limits}[fault](rng, site)
    asked.sort(key=lambda ask: ask.submit_s)
    for partition, _ in PARTITIONS:
        _serve([ask for ask in asked if ask.partition == partition], site.nodes)
    lines = ["|".join(FIELDS)]
    for number, ask in enumerate(asked):
        lines += _rows(rng, 1000 + number, ask, site)
    return "\n".join(lines) + "\n"


def _background(rng: np.random.Generator, site: Site) -> list[Ask]:
    """Jobs of ordinary users: lognormal run times, limits two to three times as long, a few failures."""
    asked = []
    for number in range(site.jobs):
        account, names = USERS[int(rng.integers(len(USERS)))]
        run_s = float(np.clip(rng.lognormal(8.3, 1.2), 60, 1.5 * 86400))
        failing = rng.random() < site.fail_rate
        state, exit = ("FAILED", f"{rng.choice([1, 2, 127])}:0") if failing else ("COMPLETED", "0:0")
        asked.append(
            Ask(
                user=str(rng.choice(names)),
                account=account,
                name=f"train-{number % 17}",
                partition=PARTITIONS[int(rng.integers(2))][0],
                submit_s=float(rng.uniform(0, site.days * 86400)),
                gpus=int(rng.choice([1, 1, 1, 2, 4, 8])),
                run_s=run_s * (float(rng.uniform(0.05, 1.0)) if failing else 1.0),
                limit_min=int(run_s * rng.uniform(1.3, 3.0) / 60) + 1,
                busy=float(np.clip(rng.normal(0.62, 0.18), 0.12, 0.99)),
                typed=bool(rng.random() < 0.5),
                state=state,
                exit=exit,
            )
        )
    return asked


def _idle(rng: np.random.Generator, site: Site) -> list[Ask]:
    return [
        Ask(
            *("idler", "nlp", "notebook", "v100"),
            submit_s=float(rng.uniform(0, 0.7 * site.days * 86400)),
            gpus=int(rng.choice([1, 2, 4])),
            run_s=float(rng.uniform(6, 20)) * 3600,
            limit_min=1440,
            busy=float(rng.uniform(0, 0.03)),
        )
        for _ in range(int(rng.integers(3, 8)))
    ]


def _array(rng: np.random.Generator, site: Site) -> list[Ask]:
    state, exit = [("FAILED", "1:0"), ("OUT_OF_MEMORY", "0:125"), ("TIMEOUT", "0:0"), ("FAILED", "0:11")][
        int(rng.integers(4))
    ]
    began_s = float(rng.uniform(0.1, 0.8) * site.days * 86400)
    after_s = float(rng.uniform(20, 3000))
    return [
        Ask(
            *("carl", "vision", "sweep", "a100"),
            submit_s=began_s,
            gpus=1,
            run_s=after_s * float(rng.uniform(0.9, 1.1)),
            limit_min=120,
            busy=float(rng.uniform(0.2, 0.5)),
            array="77000",
            state=state,
            exit=exit,
        )
        for _ in range(int(rng.integers(8, 60)))
    ]


def _wrong(rng: np.random.Generator, site: Site) -> list[Ask]:
    """A block of jobs that need a100s fills that partition for hours; in it come those that need none."""
    began_s = (float(site.days) + 4.0) * 86400  # the background is over: v100 is empty
    hours = float(rng.uniform(5, 12))
    filling = [
        Ask(
            *("dora", "nlp", "big", "a100"),
            submit_s=began_s,
            gpus=8,
            run_s=hours * 3600,
            limit_min=1440,
            busy=0.8,
        )
        for _ in range(site.nodes)
    ]
    late = began_s + 600
    asking = [
        Ask(
            *("wendy", "bio", "fold", "a100"),
            submit_s=late + float(rng.uniform(0, 0.4 * hours * 3600)),
            gpus=int(rng.choice([1, 2])),
            run_s=float(rng.uniform(1800, 7200)),
            limit_min=240,
            busy=0.7,
            typed=False,
        )
        for _ in range(int(rng.integers(4, 15)))
    ]
    return filling + asking


def _limits(rng: np.random.Generator, site: Site) -> list[Ask]:
    return [
        Ask(
            *("greta", "bio", "quick", "v100"),
            submit_s=float(rng.uniform(0, site.days * 86400)),
            gpus=1,
            run_s=float(rng.uniform(300, 1800)),
            limit_min=1440,
            busy=0.7,
        )
        for _ in range(int(rng.integers(15, 40)))
    ]


def _serve(asked: list[Ask], nodes: int) -> None:
    """First come, first served, what does not fit passed over; jobs of up to eight GPUs on one node."""
    free = [8] * nodes
    running: list[tuple[float, Ask]] = []
    waiting: list[Ask] = []
    arrivals = sorted(asked, key=lambda ask: ask.submit_s)
    while arrivals or running or waiting:
        moments = [arrivals[0].submit_s] if arrivals else []
        moments += [running[0][0]] if running else []
        now = min(moments)
        while running and running[0][0] <= now:
            _, ended = running.pop(0)
            free[ended.nodes[0]] += ended.gpus
        while arrivals and arrivals[0].submit_s <= now:
            waiting.append(arrivals.pop(0))
        for ask in list(waiting):
            fits = [node for node in range(nodes) if free[node] >= ask.gpus]
            if fits:
                node = min(fits, key=lambda one: free[one])
                free[node] -= ask.gpus
                ask.nodes, ask.start_s = [node], now
                running.append((now + ask.run_s, ask))
                waiting.remove(ask)
        running.sort(key=lambda pair: pair[0])


def _rows(rng: np.random.Generator, number: int, ask: Ask, site: Site) -> list[str]:
    kind = dict(PARTITIONS)[ask.partition]
    plain = f"billing=1,cpu={4 * ask.gpus},gres/gpu={ask.gpus},mem=32G,node=1"
    typed = plain.replace(f"gres/gpu={ask.gpus}", f"gres/gpu:{kind}={ask.gpus},gres/gpu={ask.gpus}")
    run_s = round(ask.run_s)
    cores = 0.01 if ask.busy <= 0.03 else 1.0 + 3.0 * ask.busy
    cells = {
        "JobIDRaw": str(number),
        "JobID": f"{ask.array}_{number}" if ask.array else str(number),
        "JobName": ask.name,
        "User": ask.user,
        "Account": ask.account,
        "Partition": ask.partition,
        "Submit": _stamp(ask.submit_s),
        "Eligible": _stamp(ask.submit_s),
        "Start": _stamp(ask.start_s),
        "End": _stamp(round(ask.start_s) + run_s),
        "ElapsedRaw": str(run_s),
        "TotalCPU": _clock(cores * ask.gpus * run_s) if site.cpu else "",
        "TimelimitRaw": str(ask.limit_min),
        "State": ask.state,
        "ExitCode": ask.exit,
        "NodeList": f"{ask.partition}-{ask.nodes[0] + 1:02d}",
        "ReqTRES": typed if ask.typed else plain,
        "AllocTRES": typed,
    }
    rows = ["|".join(cells.get(name, "") for name in FIELDS)]
    if site.usage:
        util = round(100 * ask.gpus * ask.busy)
        cpu = _clock(cores * ask.gpus * run_s)
        step = cells | {
            "JobIDRaw": f"{number}.0",
            "JobID": f"{cells['JobID']}.0",
            "JobName": "python",
            "User": "",
            "Partition": "",
            "TimelimitRaw": "",
            "ReqTRES": "",
            "TRESUsageInTot": f"cpu={cpu},gres/gpumem=4096M,gres/gpuutil={util},mem=8G",
        }
        rows.append("|".join(step.get(name, "") for name in FIELDS))
    return rows


def _stamp(seconds: float) -> str:
    return str(START + np.timedelta64(round(seconds), "s"))


def _clock(seconds: float) -> str:
    whole = round(seconds)
    days, hours = divmod(whole // 3600, 24)
    return f"{days}-{hours:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
