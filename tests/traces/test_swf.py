"""Standard Workload Format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rota.model.jobs import Outcome
from rota.traces.capacity import auto_cluster

# job submit wait run procs cpu mem asked time mem status user group exe queue part before think
LOG = """; Version: 2.2
; UnixStartTime: 1500000000
;   a remark
  1   0  10  600   4 -1 -1   8 3600 1048576  1  3  1  7  1 -1 -1 -1
  2   5  -1   -1  -1 -1 -1   2   -1      -1  5  4  1 -1  1 -1  1  60
  3  10   0   60   4 -1 -1  -1   60      -1  0 -1 -1 -1  1 -1 99 -1

  4  20   0   60   4 -1 -1   4   60      -1  2  3  1 -1  1 -1 -1 -1
  5  30   5   -1   4 -1 -1   4   60      -1 -1  3  1 -1  1 -1 -1 -1
  6  40   5   20  -1 -1 -1  -1   60      -1  1  3  1 -1  1 -1 -1 -1
  7  50   5   20   1 -1 -1   1   60      -1  5  3  1  7  1 -1  3 -1
"""


JOB = "{id} 0 10 600 4 -1 -1 4 3600 -1 1 3 1 -1 {queue} {partition} -1 -1\n"


def test_a_log(read_text: Any) -> None:
    trace = read_text(LOG)
    jobs = trace.jobs
    assert list(jobs.ids) == ["1", "2", "3", "7"]
    assert jobs.gpus.tolist() == [8, 2, 4, 1]
    assert jobs.limit_s.tolist() == pytest.approx([3600, np.nan, 60, 60], nan_ok=True)
    assert jobs.memory_gib.tolist() == [8, 0, 0, 0]
    assert trace.truth.duration_s.tolist() == [600, 0, 60, 20]
    assert trace.truth.outcome.tolist() == [
        *(Outcome.COMPLETED, Outcome.CANCELLED, Outcome.FAILED, Outcome.CANCELLED),
    ]
    assert [jobs.job(row).tenant for row in range(4)] == ["g1/u3", "g1/u4", "default", "g1/u3"]
    assert jobs.job(0).group == "executable 7"
    assert jobs.after == {1: (0,), 3: (2,)}
    assert trace.observed is not None
    assert trace.observed.end_s.tolist() == pytest.approx([610, np.nan, 70, 75], nan_ok=True)


def test_comments_become_facts(read_text: Any) -> None:
    facts = read_text(LOG).facts
    assert facts["UnixStartTime"] == "1500000000"
    assert facts["processor"] == "one GPU"


@pytest.mark.parametrize(
    ("head", "epoch", "zone"),
    [
        ("; UnixStartTime: 1500000000\n", "2017-07-14 02:40:00", "UTC"),
        (
            "; UnixStartTime: 1500000000\n; TimeZoneString: Europe/Paris\n",
            "2017-07-14 04:40:00",
            "Europe/Paris",
        ),
        ("; UnixStartTime: 1500000000\n; TimeZone: -18000\n", "2017-07-13 21:40:00", "UTC-05:00"),
        ("; UnixStartTime: 1500000000\n; TimeZoneString: of the site\n", "2017-07-14 02:40:00", "UTC"),
        ("; UnixStartTime: 1500000000 (Fri Jul 14)\n", "2017-07-14 02:40:00", "UTC"),
    ],
)
def test_a_log_that_says_when_it_began_has_dates(read_text: Any, head: str, epoch: str, zone: str) -> None:
    trace = read_text(head + JOB.format(id=1, queue=1, partition=1))
    assert trace.calendar == {"epoch": epoch, "time_zone": zone}
    assert trace.jobs.submit_s.tolist() == [0]


@pytest.mark.parametrize("said", ["0", "-1", "", "1e300", "nan", "unknown"])
def test_a_log_that_does_not_has_none(read_text: Any, said: str) -> None:
    trace = read_text(f"; UnixStartTime: {said}\n" + JOB.format(id=1, queue=1, partition=1))
    assert trace.calendar == {}


def test_what_is_odd_about_it(read_text: Any) -> None:
    assert {odd.what: (odd.count, odd.examples) for odd in read_text(LOG).odd} == {
        "part of a checkpointed job": (1, ("row 8 (job 4)",)),
        "cancelled while waiting": (1, ("row 5 (job 2)",)),
        "no run time recorded": (1, ("row 9 (job 5)",)),
        "no processors recorded": (1, ("row 10 (job 6)",)),
    }


# queue and partition of two jobs, and their node sets
@pytest.mark.parametrize(
    ("one", "other", "node_sets"),
    [
        ((1, 1), (1, 2), ["partition 1", "partition 2"]),
        ((1, 1), (2, 1), ["queue 1", "queue 2"]),
        ((1, -1), (2, -1), ["queue 1", "queue 2"]),
        ((1, 1), (1, 1), ["", ""]),
        ((-1, -1), (3, -1), ["", ""]),
        ((0, 1), (1, -1), ["queue 0", "queue 1"]),
    ],
)
def test_several_partitions_or_queues_are_node_sets(
    read_text: Any, one: tuple[int, int], other: tuple[int, int], node_sets: list[str]
) -> None:
    lines = [JOB.format(id=i, queue=q, partition=p) for i, (q, p) in enumerate((one, other), 1)]
    jobs = read_text("".join(lines)).jobs
    assert [jobs.name_of("node_set", row) for row in range(2)] == node_sets


# head of the log, and the cluster that it makes
@pytest.mark.parametrize(
    ("head", "cluster"),
    [
        ("; MaxProcs: 64\n; MaxNodes: 16\n", "16x4 (64 GPUs in 16 nodes)"),
        ("; MaxProcs: 430 (of 512)\n; MaxNodes: 100\n", "53x8,1x6 (430 GPUs in 54 nodes)"),
        ("; MaxProcs: 64\n", "8x8 (64 GPUs in 8 nodes)"),
        ("; MaxProcs: -1\n", "1x8 (8 GPUs in 1 node)"),
        ("", "1x8 (8 GPUs in 1 node)"),
    ],
)
def test_the_cluster_that_a_log_states(read_text: Any, head: str, cluster: str) -> None:
    trace = read_text(head + JOB.format(id=1, queue=1, partition=1))
    assert auto_cluster(trace).describe() == cluster


def test_a_number_used_twice_means_the_job_before(read_text: Any) -> None:
    """The third follows the first 1, not the one behind it; the last follows one that comes later."""
    line = "{} {} 10 600 4 -1 -1 4 3600 -1 1 3 1 -1 1 1 {} -1\n"
    numbers = [(1, 0, -1), (2, 5, -1), (3, 5, 1), (1, 9, -1), (4, 9, 1), (5, 9, 6), (6, 9, -1)]
    trace = read_text("".join(line.format(*row) for row in numbers))
    assert trace.jobs.after == {2: (0,), 4: (3,), 5: (6,)}


def test_fields_beyond_the_18_are_named_and_passed_over(read_text: Any) -> None:
    """As the traces of Frontier have 21; a line that is cut is left out all the same."""
    line = "{} 0 10 600 4 -1 -1 4 3600 -1 1 3 1 -1 1 -1 -1 -1{}\n"
    plain = read_text("; MaxProcs: 64\n" + "".join(line.format(n, "") for n in range(1, 6)))
    wide = read_text("; MaxProcs: 64\n" + "".join(line.format(n, " 7.5 abc 9") for n in range(1, 6)))
    assert wide.format == "swf"
    assert list(wide.jobs.ids) == list(plain.jobs.ids)
    assert wide.truth.duration_s.tolist() == plain.truth.duration_s.tolist()
    assert wide.facts["fields beyond the 18"] == "19 to 21, which are the site's own, are not read"
    assert "fields beyond the 18" not in plain.facts
    cut = read_text("".join([line.format(n, " 7.5 3 9") for n in range(1, 6)] + ["6 0 10\n"]))
    assert cut.remarks[0].startswith("Left out: 1 row (row 6): the line has 3 fields; expected 21 (")
