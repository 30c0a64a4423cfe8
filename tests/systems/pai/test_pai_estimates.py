"""PAI by the authors' own columns of estimates, against their simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rota.model.cluster import parse_cluster
from rota.traces import read
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.semantics import semantics
from shared_data import needs_shared, reference
from tiers import first

FOLDER = "tiresias-elasticflow-lucid"


@needs_shared
@pytest.mark.shared
@pytest.mark.soak
@pytest.mark.parametrize(
    ("run_of", "left_out"),
    first(1, [("SJU", ["group_gpu_dur", "group_dur"]), ("SJG", ["group_gpu_dur"]), ("SJGG", [])]),
)
def test_every_job_ends_when_it_does_in_the_authors_simulator(
    run_of: str, left_out: list[str], tmp_path: Path
) -> None:
    """The estimates that the policy goes by are the last that the file has; 1,000 jobs come every minute."""
    whole = pl.read_csv(reference(f"{FOLDER}/workloads/pai_itp5k.csv.gz"), infer_schema_length=0)
    whole.drop(left_out).write_csv(tmp_path / "jobs.csv")
    trace = read(tmp_path / "jobs.csv").by_submission()
    coming = np.arange(len(trace)) // 1000 * 60.0
    trace = replace(trace, jobs=replace(trace.jobs, submit_s=coming))
    setting = Setting(semantics=semantics("pai"), knowledge={"duration": "user"})
    record = run("pai:estimate=known", trace, parse_cluster("1x3000"), setting)
    ours = dict(record.jobs.select("job_id", pl.col("finish_s") - pl.col("submit_s")).iter_rows())
    theirs = pl.read_csv(reference(f"{FOLDER}/jobs/pai__itp5k__3000g__{run_of}.csv.gz"))
    assert ours == {str(job): jct for job, jct in theirs.select("job", "jct").iter_rows()}
