"""Traces of fixed sizes become traces of elastic jobs, and what was asked for stays possible."""

from __future__ import annotations

from typing import Any

import pytest

from play import play, trace_of
from rota.errors import InputError
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import JobPart
from rota.traces.elastic import ElasticSizes, make_elastic, parse_sizes


# sizes, columns of a job of 4 GPUs, its range then
@pytest.mark.parametrize(
    ("sizes",     "columns",                             "least", "most", "counts"),
    [
        ("1:64",      {},                                    1, 64, AllowedCounts.ANY),
        ("1:64:pow2", {},                                    1, 64, AllowedCounts.POWERS_OF_TWO),
        ("1:2",       {},                                    1,  4, AllowedCounts.ANY),
        ("8:16",      {},                                    4, 16, AllowedCounts.ANY),
        ("1:64:pow2", {"gpus_min": 2, "gpus_max": 8},        2,  8, AllowedCounts.ANY),
        ("1:64:pow2", {"parts": {0: (JobPart(1, 4),)}},      4,  4, AllowedCounts.ANY),
    ],
)  # fmt: skip
def test_ranges(sizes: str, columns: dict[str, Any], least: int, most: int, counts: AllowedCounts) -> None:
    trace = make_elastic(trace_of("A 4x10", **columns), parse_sizes(sizes))
    job = trace.jobs.job(0)
    assert (job.gpus, job.gpus_min, job.gpus_max, job.counts) == (4, least, most, counts)
    assert trace.source == f"test (elastic {sizes})"


@pytest.mark.parametrize("text", ["", "1", "0:4", "4:1", "1:4:3", "1-4", "a:b", "1:4,ncf", "1:4,ncf=0:1"])
def test_nonsense(text: str) -> None:
    with pytest.raises(InputError, match=r"--elastic: .* is no range of GPUs; expected FEWEST:MOST"):
        parse_sizes(text)


def test_workloads_apart() -> None:
    trace = trace_of("A 4x10 B 2x10", workload=[0, 1], workload_names=("bert", "ncf"))
    jobs = make_elastic(trace, parse_sizes("1:64,ncf=1:2")).jobs
    assert jobs.gpus_max.tolist() == [64, 2]
    assert jobs.gpus_min.tolist() == [1, 1]
    with pytest.raises(InputError, match="no job runs 'yolo'"):
        make_elastic(trace, parse_sizes("1:64,yolo=1:1"))


def test_a_policy_uses_the_sizes() -> None:
    trace = make_elastic(trace_of("A 1x40"), ElasticSizes(1, 4))
    assert play("afs", trace, "1x4").intervals["gpus"].to_list() == [4]
