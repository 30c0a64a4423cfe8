"""Jobs of one fixed size as jobs that can run on fewer or more GPUs.

Most traces give one size for each job. `1:64` gives every such job the range from 1 to 64 GPUs, `1:64:pow2`
the powers of two in it. The range always includes what a job asked for: if that is above the range it becomes
the job's maximum, if below the minimum. Jobs without GPUs, with a part of one, with uneven parts or with a
range of their own stay as they are. `1:64,ncf=1:1` sets a separate range for a workload.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from rota.errors import InputError
from rota.model.columns import Bools, read_only
from rota.model.job_columns import AllowedCounts
from rota.model.trace import Trace


@dataclass(frozen=True)
class ElasticSizes:
    """Range of GPUs that jobs should be able to run on."""

    least: int
    most: int
    counts: AllowedCounts = AllowedCounts.ANY
    apart: tuple[tuple[str, ElasticSizes], ...] = ()
    """Separate ranges for some workloads."""

    def __str__(self) -> str:
        own = f"{self.least}:{self.most}" + (":pow2" if self.counts else "")
        return ",".join([own, *(f"{workload}={sizes}" for workload, sizes in self.apart)])


def parse_sizes(text: str) -> ElasticSizes:
    """Read `1:64` or `1:64:pow2`, also with other ranges for some workloads: `1:64,ncf=1:1`."""
    first, *others = text.split(",")
    pairs = (part.partition("=") for part in others)
    apart = tuple((workload.strip(), _parse_range(sizes)) for workload, _, sizes in pairs)
    return replace(_parse_range(first), apart=apart)


def _parse_range(text: str) -> ElasticSizes:
    match = re.fullmatch(r"(\d+):(\d+)(:pow2)?", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError.at(
            f"{text!r} is no range of GPUs", field="--elastic", expected="FEWEST:MOST[:pow2], such as 1:64"
        )
    counts = AllowedCounts.POWERS_OF_TWO if match[3] else AllowedCounts.ANY
    return ElasticSizes(int(match[1]), int(match[2]), counts)


def make_elastic(trace: Trace, sizes: ElasticSizes) -> Trace:
    """`trace` with these ranges for its jobs of one size; its source records this."""
    jobs, rigid = trace.jobs, _rigid(trace)
    workloads = np.array([jobs.name_of("workload", row) for row in range(len(jobs))], dtype=object)
    for workload, own in sizes.apart:
        of_it = workloads == workload
        if not of_it.any():
            raise InputError.at(f"no job runs {workload!r}", field="--elastic", expected="a workload")
        trace, rigid = _with(trace, own, rigid & of_it), rigid & ~of_it
    return replace(_with(trace, sizes, rigid), source=f"{trace.source} (elastic {sizes})")


def _rigid(trace: Trace) -> Bools:
    """Jobs of one size that may get a range."""
    jobs = trace.jobs
    rigid: Bools = (jobs.gpus_min == jobs.gpus_max) & (jobs.gpus > 0) & (jobs.gpu_share == 1.0)
    rigid[list(jobs.parts)] = False
    return rigid


def _with(trace: Trace, sizes: ElasticSizes, rigid: Bools) -> Trace:
    """`trace` with `sizes` for the jobs marked in `rigid`."""
    jobs = trace.jobs
    changed = replace(
        jobs,
        gpus_min=read_only(np.where(rigid, np.minimum(jobs.gpus, sizes.least), jobs.gpus_min)),
        gpus_max=read_only(np.where(rigid, np.maximum(jobs.gpus, sizes.most), jobs.gpus_max)),
        counts=read_only(np.where(rigid, int(sizes.counts), jobs.counts).astype(np.int8)),
    )
    return replace(trace, jobs=changed)
