"""Throughput tables: what they answer, how they are read, what is refused."""

from __future__ import annotations

import gzip

import pytest

from play import trace_of
from rota.errors import InputError
from rota.knowledge.throughput import ThroughputTable, uniform_throughput
from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster import parse_cluster
from shared_data import data, needs_shared, reference

GAVEL = """{"k80": {"('LM (batch size 5)', 2)": {"null": 3.5, "('LM (batch size 5)', 2)": [1.0, 2.0]}},
            "v100": {"('LM (batch size 5)', 2)": {"null": 9.0}}}"""
CSV = "workload,gpu_type,gpus,iterations_per_s\nLM (batch size 5),k80,2,3.5\nLM (batch size 5),v100,2,9\n"
RECODED = (
    "worker_type,job_type,scale_factor,other_job_type,other_scale_factor,steps_per_s,other_steps_per_s\n"
    "k80,LM (batch size 5),2,,,3.5,\nk80,LM (batch size 5),2,LM (batch size 5),2,1.0,2.0\n"
    "v100,LM (batch size 5),2,,,9,\n"
)


def rate_in(table, workload, gpu_type, gpus):
    """Iterations per second in `table`; 0 if it was not measured."""
    return table.by_size((gpu_type,))[table.workloads.index(workload)][0].get(gpus, 0.0)


@pytest.mark.parametrize("text", [GAVEL, CSV, RECODED], ids=["json", "csv", "recoded"])
def test_forms_read_alike(text, tmp_path):
    """Three forms of one table."""
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(text.encode()))
    table = read_throughputs(path)
    assert rate_in(table, "LM (batch size 5)", "K80", 2) == 3.5
    assert rate_in(table, "LM (batch size 5)", "v100", 2) == 9.0
    assert rate_in(table, "LM (batch size 5)", "v100", 1) == 0.0, "not measured"


@pytest.mark.parametrize("text", [GAVEL, RECODED], ids=["json", "recoded"])
def test_rates_of_pairs(text, tmp_path):
    """Rates of two workloads on the same GPUs, from either side."""
    path = tmp_path / "table"
    path.write_text(
        text.replace("('LM (batch size 5)', 2)\": [", "('A3C', 2)\": [").replace(
            "2,LM (batch size 5),2,1.0", "2,A3C,2,1.0"
        )
    )
    pairs = read_throughputs(path).pairs
    assert pairs.rate("K80", ("LM (batch size 5)", 2), ("A3C", 2)) == 1.0
    assert pairs.rate("k80", ("A3C", 2), ("LM (batch size 5)", 2)) == 2.0
    assert pairs.rate("v100", ("A3C", 2), ("LM (batch size 5)", 2)) is None, "nobody measured"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload,gpus\nx,1\n", "row 1: has other columns; expected workload, gpu_type"),
        (CSV.replace("3.5", "fast"), "row 2: 'fast' is no throughput"),
        (CSV.replace(",2,9", ",0,9"), "row 3, column 'gpus': '0' is no number of GPUs"),
        (CSV + CSV.splitlines()[1], "row 4: .* is listed twice"),
        ('{"k80": {"LM": {"null": 1}}}', "'LM' names no workload"),
        ('{"k80": {"(\'a\', 1)": {"b": [1, 2]}}}', "'b' names no workload"),
        ('{"k80": {"(\'a\', 1)": {"(\'b\', 1)": [1]}}}', "is not a throughput table"),
        (RECODED.replace("2,1.0,2.0", "x,1.0,2.0"), "row 3, column 'other_scale_factor': 'x' is no number"),
        (RECODED.replace("1.0,2.0", "1.0,x"), "row 3: 'x' is no throughput"),
        ('{"k80": 3}', "is not a throughput table"),
        ('{"k80": ', "is not a throughput table"),
        (CSV.splitlines()[0], "there is no throughput in it"),
    ],
)
def test_wrong_files(text, message, tmp_path):
    """Each is refused in a sentence that names the place."""
    path = tmp_path / "table"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_throughputs(path)


TABLE = ThroughputTable.build({("w", "v100", 1): 4.0, ("w", "k80", 1): 1.0, ("w", "v100", 4): 12.0})
CLUSTER = parse_cluster("1x4:k80,1x4:V100,1x4:h100")


def _jobs(text: str, **columns):
    return trace_of(text, **{"workload": 0, "workload_names": ("w",), **columns}).jobs


def test_rates_of_jobs():
    """Columns follow the cluster's types; unmeasured and unacceptable types are 0."""
    assert TABLE.of_jobs(_jobs("A 1x1 B 4x1"), CLUSTER).tolist() == [[1.0, 4.0, 0.0], [0.0, 12.0, 0.0]]
    choosy = _jobs("A 1x1", gpu_types=1, type_names=("k80",))
    assert TABLE.of_jobs(choosy, CLUSTER).tolist() == [[1.0, 0.0, 0.0]]
    assert uniform_throughput(choosy, CLUSTER).known().tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (_jobs("A 1x1", workload_names=("x",)), "job A runs workload 'x', which is not measured"),
        (_jobs("A 1x1", workload=-1), "job A runs workload '', which is not measured"),
        (_jobs("A 2x1"), "job A runs 'w' on 2 GPUs, which is not measured; expected among 1, 4"),
        (
            _jobs("A 4x1", gpu_types=1, type_names=("k80",)),
            r"job A \(w on 4 GPUs\) has no throughput on k80; expected a cluster with v100",
        ),
    ],
)
def test_jobs_the_table_does_not_know(jobs, message):
    with pytest.raises(InputError, match=message):
        TABLE.of_jobs(jobs, CLUSTER)


@needs_shared
@pytest.mark.shared
def test_gavels_table_and_its_recoded_form_agree():
    """The published JSON and the re-encoded CSV hold the same rates."""
    published = read_throughputs(data("gavel/simulation_throughputs.json.gz"))
    recoded = read_throughputs(reference("gavel-pollux-sia/inputs/gavel_simulation_throughputs.csv.gz"))
    assert {"v100", "p100", "k80"} <= set(published.types)
    assert published.counts == recoded.counts == (1, 2, 4, 8)
    for workload in published.workloads:
        for gpu_type in published.types:
            for count in published.counts:
                rate = rate_in(published, workload, gpu_type, count)
                assert rate_in(recoded, workload, gpu_type, count) == pytest.approx(rate)
    assert len(published.pairs.rates) > 5000
    assert published.pairs.rates.keys() == recoded.pairs.rates.keys()
    for pair, rate in published.pairs.rates.items():
        assert recoded.pairs.rate(*pair) == pytest.approx(rate)
