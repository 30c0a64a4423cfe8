"""Jobs that a table of speeds does not know are left out and named; the others run without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rota
from rota.errors import InputError
from shared_data import data, needs_shared

TABLE = {"v100": {"('lm', 1)": {"null": 2.0}, "('lm', 2)": {"null": 3.0}, "('gan', 1)": {"null": 1.0}}}


def simulate(folder: Path, jobs: list[tuple[str, int]]) -> rota.Results:
    lines = [f"{kind}\trun\twd\t-s\t1\t1200\t{gpus}\t1\t-1\t{n}" for n, (kind, gpus) in enumerate(jobs)]
    (folder / "jobs.trace").write_text("\n".join(lines) + "\n")
    (folder / "speeds.json").write_text(json.dumps(TABLE))
    return rota.simulate(
        folder / "jobs.trace", cluster="2x2:v100", policies="fifo", throughput=folder / "speeds.json"
    )


def test_jobs_of_an_unknown_type_or_size_are_left_out(tmp_path: Path) -> None:
    known = [("lm", 1), ("lm", 2), ("gan", 1), ("lm", 1)]
    results = simulate(tmp_path, [*known[:2], ("new", 1), *known[2:], ("lm", 8)])
    assert list(results.trace.jobs.ids) == ["0", "1", "3", "4"]
    assert results["fifo"].jobs["job_id"].to_list() == ["0", "1", "3", "4"]
    assert [remark.partition("; expected")[0] for remark in results.remarks[:2]] == [
        "Left out: 1 job (job 2): job 2 runs workload 'new', which is not measured",
        "Left out: 1 job (job 5): job 5 runs 'lm' on 8 GPUs, which is not measured",
    ]


def test_a_table_of_another_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"job 1 runs workload 'new', which is not .*; 3 of 4 jobs are"):
        simulate(tmp_path, [("lm", 1), ("new", 1), ("other", 1), ("new", 1)])


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(("name", "left_out"), [("0e4a51", True), ("11cb48", True), ("795a4c", False)])
def test_gavels_own_traces_run(name: str, left_out: bool) -> None:
    results = rota.simulate(
        data(f"gavel/traces_msr_seed0/{name}.trace.gz"),
        cluster="36x1:v100,36x1:p100,36x1:k80",
        policies="fifo:skip=yes",
        throughput=data("gavel/simulation_throughputs.json.gz"),
    )
    assert any("Left out" in remark for remark in results.remarks) == left_out
    assert results["fifo:skip=yes"].jobs["finish_s"].null_count() <= 2
