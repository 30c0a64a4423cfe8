"""Lucid job lists with and without profiles, and VC sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.errors import InputError
from rota.model.jobs import Outcome
from rota.traces import read
from rota.traces.lucid import read_vcs
from shared_data import data, needs_shared, reference

HEAD = "job_id,user,vc,jobname,gpu_num,cpu_num,state,submit_time,duration"


def test_a_list_with_profiles(read_text: Any) -> None:
    trace = read_text(
        HEAD + ",dataset,model,batchsize,amp,speed,gpu_util,gmem_util,gmem\n"
        "1,u0,vc1,warm,1,6,COMPLETED,2020-04-01 00:00:00,60,SQuAD,BERT,32,0,84.8,99.6,62.4,20480.0\n"
        "9,u1,vc2,train_a,2,12,FAILED,2020-09-01 00:00:10,600,CIFAR-10,ResNet18,64,1,9.5,50,25,2048.0\n"
    )
    job = trace.jobs.job(0)
    assert (len(trace), job.id, job.submit_s, job.gpus, job.cpus) == (1, "9", 0.0, 2, 12)
    assert (job.tenant, job.group, job.workload) == ("vc2/u1", "train_a", "ResNet18/CIFAR-10/64/1")
    assert (job.gpu_memory_gib, job.batch_size) == (2.0, 64)
    assert trace.truth.outcome.tolist() == [Outcome.FAILED]
    assert [(odd.what, odd.done) for odd in trace.odd] == [
        ("marker row", "dropped: it only marks the start of the period")
    ]


def test_a_list_without_profiles(read_text: Any) -> None:
    job = read_text(HEAD + "\n9,u1,vc2,a,2,12,CANCELLED,2020-09-01 00:00:10,600\n").jobs.job(0)
    assert (job.workload, job.gpu_memory_gib) == ("", 0.0)


def test_a_job_without_a_profile_has_no_workload(read_text: Any) -> None:
    """Beside others that have one; what part of a profile is there is kept."""
    trace = read_text(
        HEAD + ",model,dataset,batchsize,amp\n"
        "1,u1,vc2,a,2,12,COMPLETED,2020-09-01 00:00:10,600,ResNet18,CIFAR-10,64,1\n"
        "2,u1,vc2,a,2,12,COMPLETED,2020-09-01 00:00:11,600,,,,\n"
        "3,u1,vc2,a,2,12,COMPLETED,2020-09-01 00:00:12,600,BERT,,,\n"
    )
    assert [trace.jobs.job(row).workload for row in range(3)] == ["ResNet18/CIFAR-10/64/1", "", "BERT///"]


def test_vcs_become_a_level_and_quotas(tmp_path: Path) -> None:
    file = tmp_path / "vc_config.csv"
    file.write_text(",num\nvcA,2\nvcB,1\n")
    cluster = read_vcs(file, gpus_per_node=4, gpu_type="RTX3090")
    assert (cluster.nodes, cluster.gpus, cluster.type_names) == (3, 12, ("RTX3090",))
    assert cluster.node_names == ("vcA-0", "vcA-1", "vcB-0")
    assert [cluster.level_names["vc"][code] for code in cluster.levels["vc"]] == ["vcA", "vcA", "vcB"]
    assert [(t.quota_gpus, t.hard) for t in cluster.tenants.lineage("vcA/u1")] == [(8.0, True)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (",num\nvcA,none\n", "row 2, column 'num'"),
        (",num\nvcA,0\n", "row 2, column 'num': '0' is less"),
        (",num\n", "there is no virtual cluster in it; expected one line per virtual cluster"),
        (
            ",num\nvcA,1000000000000\n",
            "row 2, column 'num': '1000000000000' nodes of 8 GPUs make the cluster too",
        ),
        (",num\nvcA,2\n vcA,1\n", "row 3, column 'vc': ' vcA' stands there twice; expected each name once"),
        (",num\n ,1\n", "row 2, column 'vc': the cell is empty; expected a name"),
        (",num\na/b,1\n", "row 2, column 'vc': 'a/b' is no name; expected a name without /, | and !"),
        ("", "the file is empty; expected a node list"),
    ],
)
def test_wrong_vcs_are_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "vc_config.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=says):
        read_vcs(file)


LUCID = "tiresias-elasticflow-lucid/workloads/lucid_noncommercial/"


@needs_shared
@pytest.mark.shared
def test_the_stand_in_day() -> None:
    trace = read(reference(LUCID + "lucid_itp1day_jobs.csv.gz"))
    counts = dict(zip(*np.unique(trace.jobs.gpus, return_counts=True), strict=True))
    assert (trace.format, len(trace)) == ("lucid", 2104)
    assert counts == {1: 1805, 2: 29, 4: 83, 8: 168, 16: 10, 32: 9}
    assert trace.facts["epoch"] == "2020-09-01 00:02:33"


@needs_shared
@pytest.mark.shared
def test_the_published_vcs() -> None:
    cluster = read_vcs(reference(LUCID + "lucid_itp1day_vc_config.csv.gz"))
    assert (cluster.nodes, cluster.gpus) == (36, 288)
    venus = read_vcs(data("helios/venus_vc_config_lucid.csv.gz"))
    assert (venus.nodes, len(venus.level_names["vc"])) == (135, 15)
