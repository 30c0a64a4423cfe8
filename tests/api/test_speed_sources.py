"""What `rota simulate` can be given of speeds, company and past service, and what policies are told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rota
from play import finishes, trace_of
from rota.api.results import Results
from rota.errors import InputError
from rota.model.jobs import Truth
from rota.model.trace import Trace

CURVES = {"s": [1.0, 2.0, 3.0, 4.0], "l": [1.0, 1.6, 2.0, 2.2]}


def table(folder: Path, *, without: tuple[int, ...] = ()) -> Path:
    """Rates of `s`, which is linear, and of `l`, which is not, on 1 to 4 V100s."""
    rows = [
        f"{name},V100,{gpus},{rate}"
        for name, rates in CURVES.items()
        for gpus, rate in enumerate(rates, start=1)
        if gpus not in without
    ]
    path = folder / "rates.csv"
    path.write_text("\n".join(["workload,gpu_type,gpus,iterations_per_s", *rows]) + "\n")
    return path


def elastic(jobs: str, workloads: str, **columns: object) -> Trace:
    """Jobs of 1 to 4 GPUs that have to do so many iterations as their duration says."""
    trace = trace_of(
        jobs,
        **{"gpus_min": 1, "gpus_max": 4, **columns},
        workload=["sl".index(name) for name in workloads],
        workload_names=("s", "l"),
    )
    return replace(trace, truth=Truth.build(np.full(len(trace), np.nan), iterations=trace.truth.duration_s))


def held(results: Results, row: int) -> list[int]:
    """GPUs that a job holds, one after the other."""
    intervals = results.records[0].intervals
    return intervals.filter(pl.col("job") == row).sort("start_s")["gpus"].to_list()


def test_afs_is_told_the_curves_of_the_table(tmp_path: Path) -> None:
    """Card, example 1: 3 GPUs for the short job that gains from them, 1 for the long one; not 2 and 2."""
    trace = elastic("S 1x20 L 1x100", "sl")
    results = rota.simulate(trace, cluster="1x4:V100", policies="afs", throughput=table(tmp_path))
    assert (held(results, 0)[0], held(results, 1)[0]) == (3, 1)
    ends = list(finishes(results.records[0]).values())
    assert np.mean(ends) == pytest.approx(27.88, abs=0.01)
    assert results.records[0].provenance["knowledge"]["scaling"] == "oracle"


def test_a_number_of_gpus_that_nobody_measured_is_taken_between_its_neighbours(tmp_path: Path) -> None:
    """On 3 GPUs `s` does 3 a second, as on the line between 2 and 4; it used to hold them for ever."""
    rates = table(tmp_path, without=(3,))
    results = rota.simulate(elastic("S 1x30", "s"), cluster="1x3:V100", policies="afs", throughput=rates)
    assert finishes(results.records[0]) == {"S": 10}
    assert any("No rate of s was measured on 3 GPUs" in remark for remark in results.remarks)


def test_a_job_that_asks_for_what_nobody_measured_is_refused_with_a_sentence(tmp_path: Path) -> None:
    rates = table(tmp_path, without=(3,))
    trace = elastic("S 3x30", "s", gpus_min=3, gpus_max=3)
    with pytest.raises(InputError, match="'s' on 3 GPUs, which is not measured; expected among 1, 2, 4"):
        rota.simulate(trace, cluster="1x4:V100", policies="fifo", throughput=rates)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "gavel", "afs"])
def test_nobody_is_put_on_a_type_on_which_nobody_measured_it(policy: str, tmp_path: Path) -> None:
    """The K80s come first, and would hold the job at rate 0 for ever."""
    trace = elastic("S 1x20", "s")
    results = rota.simulate(trace, cluster="1x4:K80,1x4:V100", policies=policy, throughput=table(tmp_path))
    assert results.records[0].jobs["state"].to_list() == ["COMPLETED"]
    nodes = results.records[0].intervals["nodes"].explode().unique().to_list()
    assert nodes == [1]


def test_what_nobody_measured_is_not_called_the_truth() -> None:
    results = rota.simulate(trace_of("A 1x10"), cluster="1x4", policies=["afs", "gavel"])
    told = [record.provenance["knowledge"] for record in results.records]
    assert told == [{"duration": "oracle", "scaling": "assumed"}, {"throughput": "assumed"}]


def pairs(folder: Path, text: str) -> Path:
    path = folder / "pairs.csv"
    path.write_text("workload,other,rate,other_rate,utilisation,other_utilisation\n" + text)
    return path


def test_gandiva_packs_what_goes_well_together(tmp_path: Path) -> None:
    """Two jobs of `a` on one GPU at 0.9 each: both end at 1,111 s and not at 2,000."""
    jobs = trace_of("A 1x1000 B 1x1000 C 1x1000 D 1x1000", workload=0, workload_names=("a",))
    file = pairs(tmp_path, "a,a,0.9,0.9,0.4,0.4\n")
    packed, alone = (
        rota.simulate(jobs, cluster="1x2", policies="gandiva", pairs=given).records[0]
        for given in (file, None)
    )
    assert "packed" in packed.intervals["role"].to_list()
    assert "packed" not in alone.intervals["role"].to_list()
    assert max(finishes(packed).values()) < 0.75 * max(finishes(alone).values())
    assert packed.provenance["knowledge"]["utilisation"] == "oracle"
    assert alone.provenance["knowledge"]["utilisation"] == "assumed"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no pair in it"),
        ("a,b,x,1,,\n", "row 2, column 'rate': 'x' is none; expected 0 or more"),
        ("a,b,1,-1,,\n", "row 2, column 'other_rate': '-1' is none"),
        ("a,,,,1.5,\n", "row 2, column 'utilisation': '1.5' is none; expected above 0 and up to 1"),
        (",b,1,1,,\n", "row 2, column 'workload': is empty"),
        ("x,y,1,1,,\n", r"knows no workload that a job runs \(x, y\); expected among a"),
    ],
)
def test_wrong_pairs(text: str, problem: str, tmp_path: Path) -> None:
    jobs = trace_of("A 1x10", workload=0, workload_names=("a",))
    with pytest.raises(InputError, match=problem):
        rota.simulate(jobs, cluster="1x2", policies="gandiva", pairs=pairs(tmp_path, text))


def test_gittins_begins_with_a_file_of_past_service(tmp_path: Path) -> None:
    """A has outlasted 2 GPU-seconds and is likely to be long: B passes it.  Without the file nobody knows."""
    file = tmp_path / "past.csv"
    file.write_text("gpu_s\n2\n2\n100\n")
    jobs = trace_of("A 2x30 B 2x1@5")
    policy = "tiresias:order=gittins"
    told = rota.simulate(jobs, cluster="1x2", policies=policy, service_history=file).records[0]
    assert finishes(told) == {"A": 31, "B": 6}
    assert told.provenance["knowledge"] == {"service history": "measured"}
    untold = rota.simulate(jobs, cluster="1x2", policies=policy).records[0]
    assert finishes(untold) == {"A": 30, "B": 31}
    with pytest.raises(InputError, match="service_history': service history comes from predicted already"):
        rota.simulate(
            jobs,
            cluster="1x2",
            policies=policy,
            service_history=file,
            knowledge="service history=predicted",
        )
