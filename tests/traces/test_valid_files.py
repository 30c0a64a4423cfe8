"""Random valid files of every published format say what was written into them, field by field."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from valid_files import NONE, WRITERS, Job, wrapped

from rota.model.trace import Trace
from rota.traces import formats, read, write
from tiers import each_seed

ELSEWHERE = {"plain", "pbs", "sacct"}
"""Formats whose texts are compared in test_writing.py, test_pbs.py and test_sacct_site.py."""


def test_every_published_format_has_a_writer() -> None:
    assert set(WRITERS) | ELSEWHERE == {format.name for format in formats()}


@each_seed(4, 24, 60, at_once=4)
@pytest.mark.parametrize("format", sorted(WRITERS))
def test_a_file_is_read_as_it_was_written(tmp_path: Path, format: str, seed: int) -> None:
    """In its own format and, converted, in Rota's: the same jobs, in order of submission."""
    rng = Random(f"{format} {seed}")
    text, said = WRITERS[format](rng, rng.choice([1, 2, 20]))
    file = tmp_path / "jobs"
    file.write_bytes(wrapped(rng, text))
    trace = read(file)
    assert trace.format == format
    converted = tmp_path / f"converted{rng.choice(['.csv', '.parquet', '.csv.gz'])}"
    write(trace, converted)
    expected = in_order(said)
    for each in (trace, read(converted)):
        assert list(each.jobs.ids) == [job["id"] for job in expected]
        for row, job in enumerate(expected):
            for name, value in job.items():
                assert value_of(each, row, name) == pytest.approx(value, nan_ok=True), (job["id"], name)


def in_order(said: list[Job]) -> list[Job]:
    """Sorted by submission; stamps as seconds since the first one."""
    epoch = min((job["at"] for job in said if "at" in job), default=datetime(1970, 1, 1))
    jobs = []
    for job in said:
        jobs.append({name: value for name, value in job.items() if name not in ("at", "started")})
        if "at" in job:
            jobs[-1]["submit_s"] = (job["at"] - epoch).total_seconds()
        if "started" in job:
            jobs[-1]["start_s"] = (job["started"] - epoch).total_seconds() if job["started"] else NONE
    return sorted(jobs, key=lambda job: float(job["submit_s"]))


def value_of(trace: Trace, row: int, name: str) -> Any:
    """What the trace says of a job under the `name` that a writer has for it."""
    jobs, truth = trace.jobs, trace.truth
    if name == "id":
        return jobs.ids[row]
    if name in ("tenant", "workload", "group"):
        return jobs.name_of(name, row)
    if name in ("duration_s", "iterations", "outcome"):
        return getattr(truth, name)[row]
    if name == "failures":
        return list(truth.failures.get(row, ()))
    if name == "start_s":
        assert trace.observed is not None
        return trace.observed.start_s[row]
    if name == "types":
        return "|".join(sorted(jobs.types_in(int(jobs.gpu_types[row]))))
    if name == "deadlines":
        return [number for each in jobs.deadlines.get(row, ()) for number in each]
    if name == "mode":
        return dict(trace.facts["mode"])[jobs.ids[row]]  # type: ignore[call-overload]
    if name == "slo":
        return dict(trace.facts.get("slo_factor", {})).get(jobs.ids[row])  # type: ignore[call-overload]
    return getattr(jobs, name)[row]
