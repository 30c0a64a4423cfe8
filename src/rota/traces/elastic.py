"""Jobs of one fixed size as jobs that can run on fewer or more GPUs.

Most traces know one size only.  `1:64` gives every such job the range from 1 to 64 GPUs, `1:64:pow2` the
powers of two in it.  What a job asked for stays in its range: one that asked for more than the most keeps
that as its most, one that asked for less than the fewest as its fewest.  Jobs without GPUs, with a part of
one, with uneven parts or with a range of their own stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from rota.errors import InputError
from rota.model.columns import read_only
from rota.model.job_columns import AllowedCounts
from rota.model.trace import Trace


@dataclass(frozen=True)
class Sizes:
    """The GPUs that jobs shall be able to run on."""

    least: int
    most: int
    counts: AllowedCounts = AllowedCounts.ANY

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" + (":pow2" if self.counts else "")


def parse_sizes(text: str) -> Sizes:
    """`1:64` or `1:64:pow2`."""
    match = re.fullmatch(r"(\d+):(\d+)(:pow2)?", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError.at(
            f"{text!r} is no range of GPUs", field="--elastic", expected="FEWEST:MOST[:pow2], such as 1:64"
        )
    counts = AllowedCounts.POWERS_OF_TWO if match[3] else AllowedCounts.ANY
    return Sizes(int(match[1]), int(match[2]), counts)


def make_elastic(trace: Trace, sizes: Sizes) -> Trace:
    """`trace` with these sizes for its jobs of one size; its source says so."""
    jobs = trace.jobs
    rigid = (jobs.gpus_min == jobs.gpus_max) & (jobs.gpus > 0) & (jobs.gpu_share == 1.0)
    rigid[list(jobs.parts)] = False
    changed = replace(
        jobs,
        gpus_min=read_only(np.where(rigid, np.minimum(jobs.gpus, sizes.least), jobs.gpus_min)),
        gpus_max=read_only(np.where(rigid, np.maximum(jobs.gpus, sizes.most), jobs.gpus_max)),
        counts=read_only(np.where(rigid, int(sizes.counts), jobs.counts).astype(np.int8)),
    )
    return replace(trace, jobs=changed, source=f"{trace.source} (elastic {sizes})")
