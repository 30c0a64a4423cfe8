"""Jobs that cannot have run as long as the log says are named and left out, and do not make nodes larger."""

from __future__ import annotations

from typing import Any

import pytest
from sacct_text import DAY, dump, gpus, row

from rota.traces.capacity import auto_cluster

HOURS = range(9, 19)


def of_node(node: str, count: int = 4, first: int = 100) -> list[str]:
    """One job after the other on the node."""
    return [
        row(str(first + hour), Submit=f"{hour:02}:00:00", Start=f"{hour:02}:00:00", End=f"{hour:02}:50:00",
            NodeList=node, AllocTRES=gpus(count, "a100"))
        for hour in HOURS
    ]  # fmt: skip


def lost(id: str, days: float, *, limit: str = "120", state: str = "RUNNING", count: int = 4) -> str:
    """A job that has been running since long before the others."""
    return row(
        id, Submit="2024-02-01T09:00:00", Eligible="2024-02-01T09:00:00", Start="2024-02-01T09:00:00",
        End="Unknown", ElapsedRaw=str(int(days * 86400)), TimelimitRaw=limit, State=state, NodeList="n1",
        AllocTRES=gpus(count, "a100"),
    )  # fmt: skip


def sizes(trace: Any) -> dict[str, int]:
    cluster = auto_cluster(trace)
    return dict(zip(cluster.node_names, cluster.node_gpus.tolist(), strict=True))


def test_a_job_far_beyond_its_limit_is_left_out(read_text: Any) -> None:
    trace = read_text(dump(lost("7", 760), *of_node("n1")))
    assert "7" not in trace.jobs.ids
    assert sizes(trace) == {"n1": 4}
    assert trace.remarks == (
        "Left out: 1 row (row 2 (job 7: 9,120 times its limit of 2h)): ran far beyond its time limit; when "
        "it ended is not certain.",
    )
    assert not any("still running" in odd.what for odd in trace.odd)
    assert trace.facts["epoch"] == f"{DAY[:-1]} 09:00:00"


@pytest.mark.parametrize(
    ("limit", "others", "is_lost"),
    [
        ("UNLIMITED", ("n2", "n3", "n4"), True),  # nodes of its type have 4 GPUs, and others held them
        ("UNLIMITED", (), False),  # nobody knows that this node has no more
        (str(40 * 1440), ("n2",), False),
        (str(29 * 1440), (), True),  # it is beyond its limit besides
    ],
)
def test_a_job_whose_gpus_others_held_is_left_out(
    read_text: Any, limit: str, others: tuple[str, ...], is_lost: bool
) -> None:
    rows = [line for n, node in enumerate(("n1", *others)) for line in of_node(node, first=1000 * n)]
    trace = read_text(dump(lost("7", 32, limit=limit), *rows))
    assert ("7" not in trace.jobs.ids) == is_lost
    assert sizes(trace)["n1"] == (4 if is_lost else 8)
    held = "held GPUs that other jobs held at the same time"
    assert [odd.examples for odd in trace.odd if odd.what == held] == (
        [("row 2 (job 7: 8 GPUs at once on n1, which has 4)",)] if is_lost else []
    )


def test_a_job_that_really_runs_is_kept(read_text: Any) -> None:
    """It holds half of a node of 8 GPUs, as others of its type have."""
    rows = [line for n, node in enumerate(("n2", "n3", "n4")) for line in of_node(node, 8, 1000 * n)]
    trace = read_text(dump(lost("7", 32, limit="UNLIMITED"), *of_node("n1", first=9000), *rows))
    assert "7" in trace.jobs.ids
    assert sizes(trace)["n1"] == 8


def test_where_many_jobs_outlast_their_limits_none_is_left_out(read_text: Any) -> None:
    """The site does not enforce them."""
    long = [
        row(str(n), End="2024-03-09T09:00:00", ElapsedRaw=str(8 * 86400), TimelimitRaw="60", NodeList=f"n{n}")
        for n in range(3)
    ]
    trace = read_text(dump(*long, *of_node("n9")))
    assert len(trace) == 13
    assert not trace.remarks
    assert ("ran far beyond its time limit", 3) in [(odd.what, odd.count) for odd in trace.odd]


def test_jobs_a_little_beyond_their_limit_are_kept(read_text: Any) -> None:
    late = row("8", Start="09:00:00", End="11:30:00", TimelimitRaw="120", State="TIMEOUT")
    assert not read_text(dump(late, *of_node("n2"))).remarks
