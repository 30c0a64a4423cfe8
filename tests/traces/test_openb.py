"""Alibaba openb: shared GPUs, accepted models, pods that never ran, and the node list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.errors import InputError
from rota.model.jobs import Outcome
from rota.traces import read
from rota.traces.openb import read_nodes
from shared_data import data, needs_shared

HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)
PODS = (
    HEAD
    + """whole,12000,16384,1,1000,,LS,Running,0,100,5
part,6000,12288,1,460,T4|P100,BE,Failed,1,50,1
many,8000,1024,4,1000,T4,LS,Succeeded,2,20,2
cpu,500,512,0,0,,BE,Succeeded,3,9,3
pending,6000,12288,1,500,,LS,Pending,4,60,
parts,8000,1024,2,500,,LS,Succeeded,5,20,5
endless,8000,1024,1,1000,,LS,Running,6,,7
"""
)


def test_pods(read_text: Any) -> None:
    trace = read_text(PODS)
    jobs = trace.jobs
    assert list(jobs.ids) == ["whole", "part", "many", "cpu", "pending", "parts"]
    assert jobs.gpus.tolist() == [1, 1, 4, 0, 1, 2]
    assert jobs.gpu_share.tolist() == [1.0, 0.46, 1.0, 1.0, 0.5, 0.5]
    assert jobs.cpus.tolist() == [12, 6, 8, 0.5, 6, 8]
    assert jobs.memory_gib.tolist() == [16, 12, 1, 0.5, 12, 1]
    assert jobs.type_names == ("P100", "T4")
    assert jobs.gpu_types.tolist() == [0, 0b11, 0b10, 0, 0, 0]
    assert trace.truth.duration_s.tolist() == [95, 49, 18, 6, 0, 15]
    assert trace.truth.outcome.tolist() == [
        *(
            Outcome.COMPLETED,
            Outcome.FAILED,
            Outcome.COMPLETED,
            Outcome.COMPLETED,
            Outcome.CANCELLED,
            Outcome.COMPLETED,
        )
    ]
    assert jobs.name_of("group", 1) == "BE"


def test_what_is_odd_about_pods(read_text: Any) -> None:
    assert {odd.what: (odd.count, odd.done) for odd in read_text(PODS).odd} == {
        "never scheduled": (1, "kept with duration 0 as cancelled"),
        "scheduled but never deleted": (1, "dropped: how long it ran is not known"),
        "no GPU asked for": (1, "kept as CPU jobs"),
    }


def test_a_list_without_times_is_for_placement(read_text: Any) -> None:
    trace = read_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,8,1000\nb,1000,1024,1,250\n")
    assert list(trace.jobs.ids) == ["a", "b"]
    assert trace.jobs.submit_s.tolist() == [0, 0]
    assert np.isnan(trace.truth.duration_s).all()
    assert trace.observed is None
    assert "not recorded" in str(trace.facts["duration"])


def test_nodes(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text("sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,32000,131072,0,\n")
    cluster = read_nodes(file)
    assert (cluster.node_names, cluster.node_gpus.tolist()) == (("a", "b"), [2, 0])
    assert cluster.node_cpus.tolist() == [64, 32]
    assert cluster.node_memory_gib.tolist() == [256, 128]
    assert cluster.type_names[int(cluster.device_type[0])] == "P100"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("a,64000,262144,two,P100\n", "row 2, column 'gpu': 'two' is not a number"),
        ("a,1,1,2,\nb,1,1,1e8,\n", "row 3, column 'gpu': '1e8' make the cluster too large; expected at most"),
        ("a,1,1,2,\n a,1,1,2,\n", "row 3, column 'sn': ' a' stands there twice; expected each name once"),
        ("", "there is no node in it; expected one line per node"),
    ],
)
def test_a_wrong_node_is_named(tmp_path: Path, rows: str, says: str) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text("sn,cpu_milli,memory_mib,gpu,model\n" + rows)
    with pytest.raises(InputError, match=says):
        read_nodes(file)


@needs_shared
@pytest.mark.shared
def test_the_published_pods() -> None:
    trace = read(data("alibaba_openb/openb_pod_list_default.csv.gz"))
    jobs, truth = trace.jobs, trace.truth
    asked = jobs.gpus > 0
    assert (len(trace), int(asked.sum())) == (8152, 7064)
    assert np.sum(jobs.gpus * jobs.gpu_share) == pytest.approx(6086.8, abs=0.06)
    assert np.mean(jobs.gpu_share[asked] < 1) == pytest.approx(0.4357, abs=6e-5)
    assert np.mean(jobs.gpus[asked] > 1) == pytest.approx(0.0106, abs=6e-5)
    hours = np.sum(jobs.gpus * jobs.gpu_share * truth.duration_s) / 3600
    assert hours == pytest.approx(51470.7, abs=0.06)
    assert {odd.what: odd.count for odd in trace.odd}["never scheduled"] == 897
    counts = np.bincount(truth.outcome)
    assert counts.tolist() == [5193 + 192, 1870, 897]


# list  pods  GPUs asked for
@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "pods", "gpus"),
    [
        ("cpu0", 7064, 6086.8),
        ("gpushare20", 8152, 6531.5),
        ("gpushare100", 8152, 3952.7),
        ("multigpu20", 8324, 7086.8),
        ("multigpu30", 8508, 8086.8),
    ],
)
def test_the_published_variants(name: str, pods: int, gpus: float) -> None:
    trace = read(data(f"alibaba_openb/openb_pod_list_{name}.csv.gz"))
    assert len(trace) == pods
    assert np.sum(trace.jobs.gpus * trace.jobs.gpu_share) == pytest.approx(gpus, abs=0.06)


@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize(
    ("percent", "constrained"), [("05", 369), ("10", 732), ("20", 1444), ("25", 1759), ("33", 2388)]
)
def test_the_published_constraints(percent: str, constrained: int) -> None:
    trace = read(data(f"alibaba_openb/openb_pod_list_gpuspec{percent}.csv.gz"))
    assert int((trace.jobs.gpu_types > 0).sum()) == constrained


@needs_shared
@pytest.mark.shared
def test_the_published_nodes() -> None:
    cluster = read_nodes(data("alibaba_openb/openb_node_list_all_node.csv.gz"))
    assert (cluster.nodes, cluster.gpus, int((cluster.node_gpus > 0).sum())) == (1523, 6212, 1213)
    by_type = {name: cluster.gpus_of_type(code) for code, name in enumerate(cluster.type_names)}
    assert {name: n for name, n in by_type.items() if n} == {
        **{"G2": 4392, "G3": 312, "T4": 842, "P100": 265},
        **{"V100M32": 204, "V100M16": 195, "A10": 2},
    }
    assert cluster.node_cpus.sum() == pytest.approx(125514, abs=1)
    assert cluster.node_memory_gib.sum() == pytest.approx(597684, abs=1)
