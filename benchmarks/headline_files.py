"""Files that commands of `headlines.py` need, made from the public traces in the forms that Rota reads."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path


def prepare(command: str, data: Path, folder: Path) -> None:
    """Make the files in `folder` that `command` names."""
    for name, make in MADE.items():
        if name in command:
            (folder / name).write_text(make(data))


def lucid_pairs(data: Path) -> str:
    """Lucid's measured pairs in the form of `--pairs`: the first measurement of each."""
    with gzip.open(data / "data/lucid/colocate_info.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    with gzip.open(data / "data/lucid/single_data.csv.gz", "rt") as file:
        use = {_workload(row, ""): float(row["gpu_util"]) / 100 for row in csv.DictReader(file)}
    pairs: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows:
        pairs.setdefault((_workload(row, "1"), _workload(row, "2")), (row["speed1"], row["speed2"]))
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["workload", "other", "rate", "other_rate", "utilisation", "other_utilisation"])
    for name, part in use.items():
        table.writerow([name, "", "", "", min(max(part, 0.001), 1.0), ""])
    for (one, other), (rate, other_rate) in pairs.items():
        table.writerow([one, other, rate, other_rate, "", ""])
    return out.getvalue()


def _workload(row: dict[str, str], number: str) -> str:
    return "/".join(row[name + number] for name in ("model", "dataset", "batchsize", "amp"))


def _openb(data: Path) -> list[dict[str, str]]:
    with gzip.open(data / "data/alibaba_openb/openb_node_list_all_node.csv.gz", "rt") as file:
        nodes = list(csv.DictReader(file))
    return [node for place, node in enumerate(nodes) if place % 3 == 0 and int(node["gpu"])]


def openb_nodes(data: Path) -> str:
    """Every third node of the list that has GPUs."""
    counts: dict[tuple[str, ...], int] = {}
    for node in _openb(data):
        shape = (node["gpu"], node["model"], node["cpu_milli"], node["memory_mib"])
        counts[shape] = counts.get(shape, 0) + 1
    lines = ["nodes:"]
    for (gpus, model, cpu_milli, memory_mib), count in sorted(counts.items()):
        cpus, memory_gib = int(cpu_milli) / 1000, int(memory_mib) / 1024
        lines.append(
            f"  - {{count: {count}, gpus: {gpus}, type: {model}, cpus: {cpus:g}, memory: {memory_gib:g}GiB}}"
        )
    return "\n".join(lines) + "\n"


def openb_pods(data: Path) -> str:
    """The pods that ran, in Rota's own form, with what each needs most of as its tenant."""
    nodes = _openb(data)
    whole = [sum(int(node[name]) for node in nodes) for name in ("gpu", "cpu_milli", "memory_mib")]
    with gzip.open(data / "data/alibaba_openb/openb_pod_list_default.csv.gz", "rt") as file:
        pods = [pod for pod in csv.DictReader(file) if pod["scheduled_time"] and pod["deletion_time"]]
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["job_id", "submit_s", "gpus", "gpu_share", "cpus", "memory_gib", "tenant", "duration_s"])
    for pod in pods:
        gpus, share = int(pod["num_gpu"]), int(pod["gpu_milli"]) / 1000 if int(pod["num_gpu"]) else 1.0
        needs = (gpus * share, int(pod["cpu_milli"]), int(pod["memory_mib"]))
        dominant = max(range(3), key=lambda kind: needs[kind] / whole[kind])
        duration_s = float(pod["deletion_time"]) - float(pod["scheduled_time"])
        table.writerow(
            [
                *(pod["name"], pod["creation_time"], gpus, share, needs[1] / 1000, needs[2] / 1024),
                *(("gpu", "cpu", "memory")[dominant], duration_s),
            ]
        )
    return out.getvalue()


MADE: dict[str, Callable[[Path], str]] = {
    "pairs.csv": lucid_pairs,
    "nodes.yaml": openb_nodes,
    "pods.csv": openb_pods,
}
"""Files that commands name and that are made from the data by functions here."""
