"""The authors' allocations, recomputation by recomputation."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster import parse_cluster
from rota.solvers.division import DemandRows, Objective, Tie, best, single
from rota.traces import read
from shared_data import needs_shared, reference

pytestmark = [needs_shared, pytest.mark.shared]


@pytest.mark.parametrize(("name", "aware"), [("max_min_fairness_perf", True), ("max_min_fairness", False)])
def test_the_inner_point_is_the_authors_allocation(name, aware):
    """Among many optima the point inside is theirs, to 2e-4; the least share is the simplex method's."""
    folder = reference("gavel-pollux-sia")
    trace = read(folder / "inputs/gavel_physical_las.csv.gz")
    cluster = parse_cluster("8x1:v100,16x1:p100,24x1:k80")
    table = read_throughputs(folder / "inputs/gavel_simulation_throughputs.csv.gz")
    rates = table.of_jobs(trace.jobs, cluster) if aware else np.ones((len(trace), 3))
    capacity = np.array([8.0, 16.0, 24.0])
    row_of = {job: row for row, job in enumerate(trace.jobs.ids)}
    packed = (folder / f"rounds/gavel_phys_las_{name}.alloc.jsonl.gz").read_bytes()
    solved = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    for _, theirs in solved:
        rows = np.array(sorted(row_of[job] for job in theirs))
        gpus = trace.jobs.gpus[rows].astype(float)
        equal = rates[rows] @ (capacity / capacity.sum())
        division = single(gpus, gpus[:, None] * rates[rows] / equal[:, None], capacity)
        demands = DemandRows(division.gains, np.zeros(len(rows)), np.ones(len(rows)))
        objective = Objective(np.zeros(division.size), 1.0)
        ours = best(division, objective, demands, Tie.INTERIOR)
        x = np.array([[theirs[trace.jobs.ids[r]].get(t, 0.0) for t in cluster.type_names] for r in rows])
        x = np.where(division.able, x, 0.0)  # they give time on types that a job does not run on, too
        assert division.fractions(ours.columns) == pytest.approx(x, abs=2e-4)
        assert best(division, objective, demands, Tie.VERTEX).value == pytest.approx(ours.value, rel=1e-6)
    assert len(solved) in (31, 34)
