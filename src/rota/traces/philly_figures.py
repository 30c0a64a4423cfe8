"""Published figures of the Philly cluster, as data for the generator and for its calibration.

Sources
  paper     Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
            Workloads", USENIX ATC 2019: totals, outcomes and the table of failures.
  notebook  The analysis published with the trace: runtimes by size, digitised (read error up to 5 %).
  vc traces Jobs of each virtual cluster as published with Gavel (OSDI 2020), at most 2,000 each:
            GPU mix, CV of the gaps between submissions, share of gaps under a minute.
  list      The 82,247 jobs of the list published with Pollux (OSDI 2021): share of each virtual
            cluster, tails of the runtimes, rates by hour and weekday.  Measured from the file.
  runtimes  83,154 runtimes of all sizes, published with Alibaba's PAI analysis.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedVirtualCluster:
    """One team's part of the cluster."""

    name: str
    jobs: int
    """Jobs in the list; sets its share of all submissions."""
    mix: tuple[float, ...]
    """Percent of jobs that ask for each of `SIZES` (vc traces; odd sizes left out)."""
    gap_cv: float
    """Standard deviation of the gaps between submissions over their mean (vc traces)."""
    batched: float
    """Share of gaps under a minute: jobs submitted together (vc traces; list for two clusters)."""


SIZES = (1, 2, 4, 8, 16, 32)
"""GPU counts that the mixes distinguish."""

VIRTUAL_CLUSTERS = (
    PublishedVirtualCluster("0e4a51", 1435, (37, 19, 38, 6, 0, 0), 6.8, 0.919),
    PublishedVirtualCluster("103959", 1934, (51, 4, 45, 0, 0, 0), 2.9, 0.270),
    PublishedVirtualCluster("11cb48", 16091, (78, 4, 13, 1, 3.5, 0.4), 12.1, 0.410),
    PublishedVirtualCluster("2869ce", 422, (12, 1, 2, 71, 0.4, 13), 2.8, 0.318),
    PublishedVirtualCluster("6214e9", 41226, (96, 1, 2, 1, 0, 0), 9.4, 0.813),
    PublishedVirtualCluster("6c71a0", 9953, (90, 0, 2, 7.5, 0.2, 0.1), 5.5, 0.750),
    PublishedVirtualCluster("7f04ca", 723, (41, 0, 24, 32, 2.5, 0.7), 3.2, 0.435),
    PublishedVirtualCluster("b436b2", 7423, (82, 1, 7, 9, 2, 0), 5.9, 0.873),
    PublishedVirtualCluster("e13805", 374, (38, 1, 19, 39, 2, 0), 2.9, 0.045),
    PublishedVirtualCluster("ed69ec", 1137, (100, 0, 0, 0, 0, 0), 8.7, 0.712),
    PublishedVirtualCluster("ee9e8c", 1511, (49, 2, 16, 27, 5, 0.2), 4.5, 0.278),
)

BUCKETS = ("1 GPU", "2-4 GPUs", "5-8 GPUs", ">8 GPUs")
BUCKET_LIMITS = (1, 4, 8)
"""Largest GPU count of each bucket but the last."""

PERCENTS = (5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95)
RUNTIME_MIN = (
    (0.64, 0.93, 1.2, 3.6, 10, 19, 31, 44, 91, 238, 690),
    (0.22, 0.29, 0.58, 2.8, 12, 29, 199, 589, 1456, 3470, 6637),
    (0.58, 1.3, 7.4, 20, 61, 196, 430, 1213, 2731, 5783, 10000),
    (0.55, 0.81, 3.8, 15, 39, 130, 273, 653, 1171, 2924, 6242),
)
"""Minutes from first start to last end at each of `PERCENTS`, per bucket (notebook).

The 95 % of 5-8 GPUs is published only as "over 10,000".
"""

TAIL_PERCENTS = (99, 99.9, 100)
RUNTIME_TAIL_MIN = (
    (2257, 14428, 54267),
    (12455, 36187, 45845),
    (17675, 44275, 77137),
    (15377, 26875, 28511),
)
"""Minutes at each of `TAIL_PERCENTS`, per bucket (list)."""

LIST_BUCKET_SHARES = (0.9317, 0.0448, 0.0200, 0.0035)
"""Share of each bucket in the list, to weigh generated runtimes like the published ones."""

ALL_RUNTIMES_S = {
    5: 48, 10: 61, 20: 76, 30: 229, 40: 630, 50: 1186, 60: 1871, 70: 2590, 80: 4699, 90: 12859, 95: 49948,
    99: 287283,
}  # fmt: skip
"""Seconds at each percent, jobs of all sizes together (runtimes)."""

PAPER_JOBS, PAPER_DAYS = 96_260, 75.0
"""Jobs and days of the paper's window; their ratio is the generator's natural rate."""

OUTCOME_JOB_SHARES = {"passed": 0.693, "killed": 0.135, "unsuccessful": 0.172}
OUTCOME_TIME_SHARES = {"passed": 0.4453, "killed": 0.3769, "unsuccessful": 0.1776}
"""Shares of jobs and of GPU-time (paper)."""

MAX_ATTEMPTS = 4
"""One attempt and three retries; the number of retries is inferred, the paper says it is fixed."""
ATTEMPTS_MEAN = 1.87
"""Failing attempts per failing job (paper's table of failures).

Without the class of 65 jobs that ran out of host memory 12,076 times: 27,700 attempts of 14,778 jobs.
"""


@dataclass(frozen=True)
class Failure:
    """One signature of the paper's table of failures. The trials are from memory and sum to the total, which
    is from memory as well."""

    signature: str
    trials: int
    jobs: int
    minutes: tuple[float, float, float]
    """Minutes to the failure, at 50, 90 and 95 % of the trials."""


FAILURES = (
    Failure("CPU out of memory", 12076, 65, (13.5, 17.7, 34.0)),
    Failure("incorrect inputs", 9690, 4936, (1.9, 405, 2096)),
    Failure("semantic error", 2943, 2049, (2.7, 376, 1437)),
    Failure("core dump", 2912, 1784, (0.85, 72.8, 432)),
    Failure("invalid memory access", 2602, 1235, (1.0, 404, 1357)),
    Failure("model checkpoint error", 1995, 948, (182, 3729, 8196)),
    Failure("CUDA failure", 1484, 571, (1.3, 19.9, 82.2)),
    Failure("syntax error", 1132, 883, (0.58, 5.0, 12.0)),
    Failure("traceback from crash", 777, 271, (1.0, 894, 1394)),
    Failure("MPI error", 634, 166, (1.6, 3015, 5144)),
    Failure("GPU out of memory", 487, 261, (18.5, 354, 2740)),
    Failure("MPI runtime failure", 478, 420, (1389, 13779, 18091)),
    Failure("permission error", 299, 151, (1.0, 8.2, 15.9)),
    Failure("import error", 148, 148, (0.67, 4.6, 10.7)),
    Failure("job preempted", 147, 95, (559, 2683, 5892)),
    Failure("CUDA init failed", 141, 69, (1.1, 2.2, 4.6)),
    Failure("model diverged", 84, 30, (1.5, 44.4, 76.5)),
    Failure("CUDA version mismatch", 49, 49, (0.83, 1.65, 1.67)),
    Failure("GPU ECC error", 10, 10, (26.8, 672, 2035)),
    Failure("no signature", 1684, 698, (1.9, 28, 95)),
)
"""Two kinds with four trials in total are left out; the minutes of the last entry are for all three."""

HOUR_RATES = (
    1.11, 0.98, 1.04, 0.94, 0.98, 1.11, 1.32, 1.32, 1.25, 1.18, 0.98, 0.84,
    0.73, 0.77, 0.70, 0.70, 0.77, 1.04, 1.04, 1.01, 0.91, 1.04, 1.04, 1.18,
)  # fmt: skip
"""Submissions by hour of the log's day over their mean; medians over days (list)."""

WEEKEND_RATE = 0.48
"""Submissions of a Saturday or Sunday over those of a working day (list)."""
