"""ElasticFlow's throughput tables: one rate for each model, batch size and number of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.scaling import ScalingCurves
from rota.knowledge.throughput import workload_codes
from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster import parse_cluster
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_table import ScalingSpeed
from shared_data import needs_shared, reference


def rate_in(table, workload, gpu_type, gpus):
    """Iterations per second in `table`; 0 if it was not measured."""
    return table.by_size((gpu_type,))[table.workloads.index(workload)][0].get(gpus, 0.0)


TABLE = """gpu_type,model,global_batch_size,gpus,iterations_per_s
A100,resnet50,64,1,4.0
A100,resnet50,64,2,6.0
A100,resnet50,256,1,2.0
A100,resnet50,256,2,3.0
T4,resnet50,64,1,nan
"""


def test_workloads_are_told_apart_by_batch_size(tmp_path: Path) -> None:
    """A model at another batch size is another workload; rates that are nan were not measured."""
    path = tmp_path / "rates.csv"
    path.write_text(TABLE)
    table = read_throughputs(path)
    assert table.workloads == ("resnet50 (batch size 64)", "resnet50 (batch size 256)")
    assert table.types == ("A100",)
    jobs = trace_of(
        "A 1x10 B 1x10 C 1x10", workload=0, workload_names=("resnet50",), batch_size=(256, 64, 32)
    ).jobs
    assert workload_codes(jobs, table.workloads).tolist() == [1, 0, -1]


def test_jobs_run_at_the_rate_of_their_batch_size(tmp_path: Path) -> None:
    """10 s of work at 1 GPU is 40 iterations at batch size 64, 20 at 256."""
    path = tmp_path / "rates.csv"
    path.write_text(TABLE)
    curves = ScalingCurves.from_table(read_throughputs(path), "A100")
    trace = trace_of("A 1x10 B 1x10", workload=0, workload_names=("resnet50",), batch_size=(256, 64))
    cluster = parse_cluster("1x2:A100")
    speed = ScalingSpeed(trace, cluster, curves)
    assert speed.total(trace).tolist() == [20.0, 40.0]
    assert finishes(play("fifo", trace, cluster, Setting(speed=speed))) == {"A": 10, "B": 10}


def test_a_batch_size_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(TABLE.replace("256,2", "many,2"))
    with pytest.raises(InputError, match=r"row 5, column 'global_batch_size': 'many' is no batch size"):
        read_throughputs(path)


@needs_shared
@pytest.mark.shared
def test_the_published_tables() -> None:
    """182 rows less 1 header and 3 nan; the sample curve of elasticflow.md."""
    table = read_throughputs(
        reference("tiresias-elasticflow-lucid/workloads/elasticflow_throughput_tables.csv.gz")
    )
    assert (len(table.workloads), table.types, table.counts) == (26, ("A100", "T4"), (1, 2, 4, 8, 16, 32, 64))
    rates = [rate_in(table, "resnet50 (batch size 256)", "A100", count) for count in table.counts]
    assert rates == pytest.approx([1.843, 3.449, 6.191, 10.379, 15.153, 17.823, 18.845], abs=5e-4)
    bert = [rate_in(table, "bert (batch size 64)", "A100", count) for count in (8, 16)]
    assert bert[0] > bert[1], "falls beyond 8 GPUs"
