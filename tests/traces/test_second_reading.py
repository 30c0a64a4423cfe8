"""Every public file that a reader claims, read a second time in a few lines of plain Python, row by row.

The second reading shares nothing with the readers: `csv`, dictionaries and the description of the format.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.errors import InputError
from rota.model.jobs import Outcome
from rota.model.trace import Trace
from rota.traces import read
from shared_data import ROOT, needs_shared

Row = dict[str, Any]
NONE = math.nan
EPOCH = datetime(1970, 1, 1)


def table(path: Path) -> list[Row]:
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def tabs(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt") as file:
        return [line.rstrip("\n").split("\t") for line in file if line.strip()]


def openb(path: Path) -> list[Row]:
    """Thousandths of a GPU and of a core; a pod that was never scheduled ran for no time."""
    rows = []
    for pod in table(path):
        gpus, times = int(pod["num_gpu"]), "creation_time" in pod
        ran = times and pod["scheduled_time"]
        seconds = float(pod["deletion_time"]) - float(pod["scheduled_time"]) if ran else 0.0
        rows.append(
            {
                "submit_s": float(pod["creation_time"]) if times else 0.0,
                "gpus": gpus,
                "gpu_share": int(pod["gpu_milli"]) / 1000 if gpus else 1.0,
                "cpus": int(pod["cpu_milli"]) / 1000,
                "duration_s": seconds if times else NONE,
            }
        )
    return rows


def itp(path: Path) -> list[Row]:
    return [
        {
            "submit_s": float(r["submission_time"]),
            "gpus": int(r["num_gpu"]),
            "duration_s": float(r["duration"]),
        }
        for r in table(path)
    ]


def elasticflow(path: Path) -> list[Row]:
    rows = []
    for r in table(path):
        due = float(r.get("deadline") or r["ddl"])
        rows.append(
            {
                "submit_s": float(r.get("submission_time") or r["submit_time"]),
                "gpus": int(r["num_gpu"]),
                "duration_s": float(r["duration"]),
                "iterations": float(r.get("num_iteration") or r["iteration"]),
                "batch_size": float(r["batch_size"]),
                "deadline_s": NONE if r.get("best_effort") == "1" else due,
            }
        )
    return rows


def gavel(path: Path) -> list[Row]:
    """Ten columns, or seven in another order; or a table with names."""
    if path.name.endswith(".csv.gz"):
        return [
            {
                "submit_s": float(r["arrival_s"]),
                "gpus": int(r["scale_factor"]),
                "iterations": float(r["total_steps"]),
                "workload": r["job_type"],
            }
            for r in table(path)
        ]
    rows = []
    for cells in tabs(path):
        steps, arrival, scale = (cells[5], cells[9], cells[6]) if len(cells) == 10 else cells[4:7]
        rows.append(
            {
                "submit_s": float(arrival),
                "gpus": int(scale),
                "iterations": float(steps),
                "workload": cells[0],
            }
        )
    return rows


def shockwave(path: Path) -> list[Row]:
    if path.name.endswith(".csv.gz"):
        cells = [
            [r[n] for n in ("job_type", "scale_factor", "total_steps", "duration_s", "arrival_s")]
            for r in table(path)
        ]
    else:
        cells = [[c[0], c[6], c[5], c[10], c[11]] for c in tabs(path)]
    return [
        {
            "submit_s": float(arrival),
            "gpus": int(scale),
            "iterations": float(steps),
            "duration_s": float(seconds),
            "workload": kind,
        }
        for kind, scale, steps, seconds, arrival in cells
    ]


def pollux(path: Path) -> list[Row]:
    return [
        {
            "submit_s": float(r["time"]),
            "gpus": int(r["num_replicas"]),
            "batch_size": float(r["batch_size"]),
            "workload": r["application"],
        }
        for r in table(path)
    ]


def tiresias(path: Path) -> list[Row]:
    return [
        {
            "submit_s": float(r["submit_time"]),
            "gpus": int(r["num_gpu"]),
            "duration_s": float(r["duration"]),
            "workload": r["model_name"],
        }
        for r in table(path)
    ]


def chronus(path: Path) -> list[Row]:
    """Minutes; the first expected time is the deadline, but for best effort."""
    return [
        {
            "submit_s": 60.0 * float(r["submit_time"]),
            "gpus": int(r["num_gpu"]),
            "duration_s": 60.0 * float(r["duration"]),
            "tenant": r["user"],
            "deadline_s": NONE
            if r["job_type"] == "best"
            else 60.0 * (float(r["submit_time"]) + float(r["expect_time_list"].split("-")[0])),
        }
        for r in table(path)
    ]


def philly_list(path: Path) -> list[Row]:
    rows = table(path)
    stamps = [(datetime.fromisoformat(r["timestamp"]) - EPOCH).total_seconds() for r in rows]
    first = min(stamps)
    return [
        {
            "submit_s": at - first,
            "gpus": int(r["num_gpus"]),
            "duration_s": float(r["duration"]),
            "tenant": r["cluster"],
        }
        for at, r in zip(stamps, rows, strict=True)
    ]


def lucid(path: Path) -> list[Row]:
    rows = [r for r in table(path) if r["jobname"] != "warm"]
    stamps = [(datetime.fromisoformat(r["submit_time"]) - EPOCH).total_seconds() for r in rows]
    first = min(stamps)
    return [
        {
            "submit_s": at - first,
            "gpus": int(r["gpu_num"]),
            "cpus": float(r["cpu_num"]),
            "duration_s": float(r["duration"]),
            "tenant": f"{r['vc']}/{r['user']}",
            "workload": "/".join(r[name] for name in ("model", "dataset", "batchsize", "amp")),
        }
        for at, r in zip(stamps, rows, strict=True)
    ]


def pai(path: Path) -> list[Row]:
    return [
        {
            "submit_s": float(r["submit_time"]),
            "gpus": math.ceil(float(r["num_gpu"])) * int(r["num_inst"]),
            "gpu_share": float(r["num_gpu"]) if 0 < float(r["num_gpu"]) < 1 else 1.0,
            "cpus": float(r["num_cpu"]) * int(r["num_inst"]),
            "duration_s": float(r["duration"]),
            "tenant": r["user"],
            "group": r["group"],
        }
        for r in table(path)
    ]


def synergy(path: Path) -> list[Row]:
    """A job list: the iterations there are, and how long one takes at the fair share."""
    return [
        {
            "submit_s": float(r["arrival_s"]),
            "gpus": int(r["gpus"]),
            "iterations": float(r["total_iterations"]),
            "duration_s": float(r["total_iterations"]) * float(r["iteration_time_s"]),
            "workload": r["model"],
        }
        for r in table(path)
    ]


AGAIN: dict[str, Callable[[Path], list[Row]]] = {
    "openb": openb,
    "itp": itp,
    "elasticflow": elasticflow,
    "gavel": gavel,
    "shockwave": shockwave,
    "pollux": pollux,
    "tiresias": tiresias,
    "chronus": chronus,
    "philly-list": philly_list,
    "lucid": lucid,
    "pai": pai,
    "synergy": synergy,
}
PUBLIC = {
    "openb": 24, "itp": 9, "elasticflow": 15, "gavel": 28, "shockwave": 5, "pollux": 89, "tiresias": 3,
    "chronus": 3, "philly-list": 1, "lucid": 1, "pai": 1,
    "synergy": 1,
}  # fmt: skip
"""How many files of each format there are; nothing else among the public files is claimed by a reader."""


def columns(trace: Trace, names: list[str]) -> list[list[Any]]:
    """Columns of a trace, codes by their names."""
    found = []
    for name in names:
        if name in ("tenant", "workload", "group"):
            known = getattr(trace.jobs, f"{name}_names")
            found.append([known[code] for code in getattr(trace.jobs, name).tolist()])
        else:
            found.append(np.asarray(getattr(trace.truth, name, getattr(trace.jobs, name, None))).tolist())
    return found


def in_order(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Sorted and comparable: none as a number that is none, and rounding in the last bits left out."""
    return sorted(
        tuple([cell if isinstance(cell, str) else -1.0 if cell != cell else round(cell, 4) for cell in row])
        for row in rows
    )


@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize("folder", [pytest.param("data", marks=pytest.mark.soak), "reference"])
def test_every_file_that_a_reader_claims(folder: str) -> None:
    """Same jobs, submissions, sizes, shares, durations, iterations, deadlines and names, in any order."""
    claimed = dict.fromkeys(AGAIN, 0)
    for path in sorted((ROOT / folder).rglob("*.gz")):
        try:
            trace = read(path)
        except InputError:
            continue
        claimed[trace.format] += 1
        expected = AGAIN[trace.format](path)
        names = sorted(expected[0])
        found = in_order(zip(*columns(trace, names), strict=True))
        wanted = in_order([[row[name] for name in names] for row in expected])
        same = found == wanted
        other = [pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]] if not same else []
        assert same, (path.name, names, other[:3])
    in_data = {
        "gavel": 21,
        "shockwave": 4,
        "tiresias": 1,
        "chronus": 2,
        "elasticflow": 11,
        "lucid": 0,
        "pai": 0,
        "synergy": 0,
    }
    counts = {name: in_data.get(name, PUBLIC[name]) for name in AGAIN}
    if folder == "reference":
        counts = {name: PUBLIC[name] - counts[name] for name in AGAIN}
    assert claimed == counts


@needs_shared
@pytest.mark.shared
def test_pods_end_as_their_phase_says() -> None:
    """Never scheduled, and failed, by the second reading."""
    path = ROOT / "data/alibaba_openb/openb_pod_list_default.csv.gz"
    pods = table(path)
    outcome = read(path).truth.outcome
    never = sum(not pod["scheduled_time"] for pod in pods)
    failed = sum(pod["pod_phase"] == "Failed" and bool(pod["scheduled_time"]) for pod in pods)
    assert int((outcome == Outcome.CANCELLED).sum()) == never
    assert int((outcome == Outcome.FAILED).sum()) == failed
