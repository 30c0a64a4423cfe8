"""Moments of Slurm's accounting: offsets, starts of jobs that never ran, and clusters beside each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sacct_text import FIELDS, WAITING, dump, gpus, row

from rota.errors import InputError
from rota.model.jobs import Outcome
from rota.traces.capacity import auto_cluster

DAY = "2026-03-29T"
NOWHERE = {"ElapsedRaw": "0", "NodeList": "None assigned", "AllocTRES": ""}


def stamped(submit: str, start: str, end: str, **said: str) -> str:
    return row("1", Submit=submit, Start=start, End=end, ElapsedRaw="1800", **said)


# the night in which summer time begins in Berlin: 02:00 is followed by 03:00
@pytest.mark.parametrize("offsets", [("+0100", "+0200"), ("+01:00", "+02:00")])
def test_stamps_with_an_offset_are_moments_of_one_clock(read_text: Any, offsets: tuple[str, str]) -> None:
    winter, summer = offsets
    trace = read_text(
        dump(
            stamped(f"{DAY}01:00:00{winter}", f"{DAY}01:30:00{winter}", f"{DAY}03:00:00{summer}"),
            row("2", Submit=f"{DAY}00:59:30Z", Start=f"{DAY}01:10:00Z", End=f"{DAY}01:20:00Z",
                ElapsedRaw="600"),
            row("3", **WAITING | {"Submit": f"{DAY}03:00:00{summer}"}),
        )
    )  # fmt: skip
    assert trace.jobs.submit_s.tolist() == [0.0, 3570.0]
    assert trace.observed.start_s.tolist() == [1800.0, 4200.0]
    assert trace.observed.end_s.tolist() == [3600.0, 4800.0]
    assert trace.facts["epoch"] == "2026-03-29 00:00:00"
    assert trace.facts["time_zone"].startswith("UTC")


@pytest.mark.parametrize(
    ("zoned", "says"),
    [(2, "has no offset, other moments have"), (1, "has an offset, other moments have none")],
)
def test_moments_of_which_few_have_an_offset_or_none_are_left_out(
    read_text: Any, zoned: int, says: str
) -> None:
    """Those of the rarer kind: nobody can say on which clock they are."""
    with_offset = [f"{DAY}0{hour}:00:00+01:00" for hour in (1, 2, 3)]
    rows = [
        stamped(*with_offset).replace("1|", f"{n}|", 1) if n < zoned else row(str(n + 10)) for n in range(3)
    ]
    trace = read_text(dump(*rows))
    assert len(trace) == 2
    assert "Left out: 1 row (row " in trace.remarks[0]
    assert says in trace.remarks[0]


def test_an_offset_on_no_date_is_named_as_it_stands(read_text: Any) -> None:
    with pytest.raises(InputError, match=r"'2026-13-29T01:00:00\+01:00' is not a date and time"):
        read_text(dump(stamped(*["2026-13-29T01:00:00+01:00"] * 3)))


# state, start and end as Slurm notes them; then whether it counts as having waited in vain
@pytest.mark.parametrize(
    ("state", "start", "end", "in_vain"),
    [
        ("DEADLINE", "None", "09:30:00", True),
        ("DEADLINE", "09:30:00", "09:30:00", True),
        ("CANCELLED by 1000", "09:30:00", "09:30:00", True),
        ("CANCELLED by 1000", "1970-01-01T01:00:00", "09:30:00", True),
        ("PREEMPTED", "Unknown", "09:30:00", True),
        ("FAILED", "09:30:00", "09:30:00", False),
    ],
)
def test_who_ended_in_the_queue_never_started(
    read_text: Any, state: str, start: str, end: str, in_vain: bool
) -> None:
    trace = read_text(dump(row("1"), row("2", Start=start, End=end, State=state, **NOWHERE)))
    assert list(trace.jobs.ids) == ["1", "2"]
    assert trace.truth.duration_s[1] == 0
    assert np.isnan(trace.observed.start_s[1]) == in_vain
    assert trace.truth.outcome[1] == (Outcome.CANCELLED if in_vain else Outcome.FAILED)
    assert trace.truth.held_s[1] >= 0


def test_a_deadline_that_passed_in_the_queue_is_counted(read_text: Any) -> None:
    trace = read_text(dump(row("1"), row("2", Start="None", End="09:30:00", State="DEADLINE", **NOWHERE)))
    assert [odd.what for odd in trace.odd] == ["past its deadline while waiting"]


def test_a_deadline_that_ended_a_run_failed_it(read_text: Any) -> None:
    trace = read_text(dump(row("1", State="DEADLINE")))
    assert trace.truth.outcome.tolist() == [Outcome.FAILED]
    assert trace.truth.duration_s.tolist() == [3600.0]


def test_a_start_before_the_submission_leaves_the_job_out(read_text: Any) -> None:
    trace = read_text(dump(row("1"), row("2", Submit="09:10:00")))
    assert list(trace.jobs.ids) == ["1"]
    assert [(odd.what, odd.count) for odd in trace.odd] == [("started before its submission", 1)]


def test_what_two_clusters_call_alike_is_told_apart(read_text: Any) -> None:
    rows = [
        "Cluster|" + "|".join(FIELDS),
        "east|" + row("7", JobID="7_1"),
        "west|" + row("7", JobID="7_1", AllocTRES=gpus(4, "v100")),
        "west|" + row("8", Partition="a100,long", AllocTRES=gpus(1, "v100")),
    ]
    trace = read_text("\n".join(rows) + "\n")
    assert list(trace.jobs.ids) == ["east:7", "west:7", "west:8"]
    assert trace.jobs.node_set_names == ("east:a100", "west:a100", "west:a100|west:long")
    assert trace.observed.arrays == {0: "east:7", 1: "west:7"}
    assert not trace.odd
    cluster = auto_cluster(trace)
    assert cluster.node_names == ("east:gpu01", "west:gpu01")
    assert cluster.gpus == 1 + 8


def test_one_cluster_needs_no_name(read_text: Any) -> None:
    trace = read_text("\n".join(["Cluster|" + "|".join(FIELDS), "east|" + row("7"), ""]))
    assert (list(trace.jobs.ids), trace.observed.nodes) == (["7"], {0: ("gpu01",)})


def test_shards_are_said_to_be_uncounted(read_text: Any) -> None:
    trace = read_text(
        dump(row("1", ReqTRES="cpu=2,gres/shard=4", AllocTRES="cpu=2,gres/shard:a100=4,gres/shard=4"))
    )
    assert trace.jobs.gpus.tolist() == [0]
    assert "has shards or MPS of a GPU" in [odd.what for odd in trace.odd]


# what two jobs on one node had, when the second began, and the cluster: a node was cut in two, or renamed
@pytest.mark.parametrize(
    ("second", "nodes"),
    [
        ("09:30:00", {("gpu01", "1g.10gb", 1), ("gpu01:3g.20gb", "3g.20gb", 2)}),
        ("11:00:00", {("gpu01", "1g.10gb", 2)}),
    ],
)
def test_a_node_with_two_types_at_once(read_text: Any, second: str, nodes: set[tuple[str, str, int]]) -> None:
    small, large = gpus(1, "1g.10gb"), gpus(2, "3g.20gb")
    trace = read_text(
        dump(
            row("1", AllocTRES=small),
            row("2", Start=second, End="12:00:00", AllocTRES=large),
            row("3", Start="13:00:00", End="14:00:00", AllocTRES=small),
        )
    )
    cluster = auto_cluster(trace)
    held = np.diff(cluster.first_device).tolist()
    kinds = [cluster.type_names[code] for code in cluster.node_type]
    assert set(zip(cluster.node_names, kinds, held, strict=True)) == nodes
