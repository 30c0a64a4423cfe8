"""A site's own dump: attempts, eligibility, types, nodes, partitions, QOS and steps, as Slurm writes them."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from sacct_text import WAITING, dump, gpus, row

import rota
from rota.errors import InputError
from rota.model.jobs import Outcome
from rota.reports.usage.gpu_hours import usage_of
from rota.reports.usage.of_trace import held_of
from rota.traces import formats, read, write
from rota.traces.capacity import auto_cluster, peak_demand
from rota.traces.sacct_rows import COMMAND, FIELDS


def odd_of(trace: Any) -> dict[str, tuple[int, str]]:
    return {odd.what: (odd.count, odd.done) for odd in trace.odd}


# --- attempts

REQUEUED = row("8", End="09:12:00", State="REQUEUED", Start="09:00:10", ElapsedRaw="710")
BACK = ((710, "requeued"),)
AGAIN = row("8", Submit="09:12:00", Eligible="09:14:00", Start="09:20:00", End="09:40:00")


# rows, then: submissions, starts, ends, last run times, earlier run times, outcomes
@pytest.mark.parametrize(
    ("rows", "submit_s", "start_s", "end_s", "duration_s", "earlier", "outcome"),
    [
        ([REQUEUED, AGAIN], [0], [10], [2400], [1200], ({}, {0: BACK}), [Outcome.COMPLETED]),
        ([AGAIN, REQUEUED], [0], [10], [2400], [1200], ({}, {0: BACK}), [Outcome.COMPLETED]),
        (
            [row("8", End="09:12:00", State="SPECIAL_EXIT", ElapsedRaw="710"), AGAIN],
            *([0], [0], [2400], [1200], ({}, {0: BACK}), [Outcome.COMPLETED]),
        ),
        # failed, and waits again: it ended as it did
        (
            [row("8", State="NODE_FAIL"), row("8", **WAITING | {"Submit": "10:00:00"})],
            *([0], [0], [3600], [3600], ({}, {}), [Outcome.FAILED]),
        ),
        # had to give way, and did not come back
        ([row("8", State="PREEMPTED")], [0], [0], [3600], [3600], ({}, {}), [Outcome.PREEMPTED]),
        # the same record from two dumps, one of which was made while the job ran
        (
            [row("8", End="Unknown", ElapsedRaw="60", State="RUNNING"), row("8", End="09:30:00")],
            *([0], [0], [1800], [1800], ({}, {}), [Outcome.COMPLETED]),
        ),
        ([row("8"), row("8")], [0], [0], [3600], [3600], ({}, {}), [Outcome.COMPLETED]),
        # put back, and nothing more is known: it ran, and is not merely waiting
        ([REQUEUED], [0], [10], [720], [710], ({}, {}), [Outcome.COMPLETED]),
        (
            [REQUEUED, row("8", Submit="09:12:00", **WAITING)],
            *([0], [10], [720], [710], ({}, {}), [Outcome.COMPLETED]),
        ),
        # cancelled while it waited for its second attempt
        (
            [
                REQUEUED,
                row("8", **WAITING | {"Submit": "09:12:00", "End": "09:30:00", "State": "CANCELLED by 0"}),
            ],
            *([0], [10], [1800], [710], ({}, {}), [Outcome.CANCELLED]),
        ),
        # preempted, lost a node, failed: three attempts in order, whatever the order of the rows
        (
            [
                row("8", Submit="09:30:00", Start="09:40:00", End="09:41:00", State="FAILED"),
                row("8", Start="09:00:00", End="09:10:00", State="PREEMPTED"),
                row("8", Submit="09:10:00", Start="09:15:00", End="09:30:00", State="NODE_FAIL"),
            ],
            *([0], [0], [2460], [60], ({0: (900,)}, {0: ((600, "preempted"),)}), [Outcome.FAILED]),
        ),
    ],
)
def test_rows_of_one_job_are_its_attempts(
    read_text: Any, rows: list[str], submit_s: Any, start_s: Any, end_s: Any, duration_s: Any,
    earlier: Any, outcome: Any,
) -> None:  # fmt: skip
    trace = read_text(dump(*rows))
    assert list(trace.jobs.ids) == ["8"]
    assert trace.jobs.submit_s.tolist() == submit_s
    assert (trace.observed.start_s.tolist(), trace.observed.end_s.tolist()) == (start_s, end_s)
    assert trace.truth.duration_s.tolist() == duration_s
    assert (trace.truth.failures, trace.observed.interruptions) == earlier
    assert trace.truth.outcome.tolist() == outcome
    assert "job id used before" not in odd_of(trace)
    assert "still waiting at the time of the dump" not in odd_of(trace)


def resized(begin: str, end: str, count: int, state: str = "RESIZING", **said: str) -> str:
    """A row of a job that was given another size: submitted and started as the one before it ended."""
    return row("8", Submit=begin, Start=begin, End=end, State=state, AllocTRES=gpus(count, "a100"), **said)


@pytest.mark.parametrize("submitted", ["10:00:00", "09:00:00"])
def test_a_job_that_changed_its_size_is_one_run(read_text: Any, submitted: str) -> None:
    """It waited 10 min, ran 50 min on 2 GPUs, and 2 h on 4, whenever its second row was submitted."""
    last = row("8", Submit=submitted, Start="10:00:00", End="12:00:00", AllocTRES=gpus(4, "a100"))
    first = row(
        "8", Start="09:10:00", End="10:00:00", State="RESIZING", AllocTRES=gpus(2, "a100"), NodeList="gpu07"
    )
    trace = read_text(dump(last, first))
    assert list(trace.jobs.ids) == ["8"]
    assert (trace.truth.duration_s.tolist(), trace.truth.failures) == ([10200], {})
    assert (trace.observed.start_s.tolist(), trace.observed.end_s.tolist()) == ([600], [10800])
    assert (trace.jobs.gpus.tolist(), trace.observed.nodes) == ([4], {0: ("gpu01",)})
    assert odd_of(trace)["changed its size while it ran"][0] == 1


def test_an_attempt_of_several_sizes_that_failed(read_text: Any) -> None:
    """It ran 10 min and 5 min, lost its node, ran again, and is changing its size as the dump is made."""
    trace = read_text(
        dump(
            resized("09:00:00", "09:10:00", 2),
            resized("09:10:00", "09:15:00", 8, "NODE_FAIL"),
            resized("09:15:00", "09:45:00", 1),
        )
    )
    assert (trace.truth.duration_s.tolist(), trace.truth.failures) == ([1800], {0: (900,)})
    assert trace.truth.signatures == {0: ("node failure",)}
    assert trace.jobs.gpus.tolist() == [1]


def test_states_say_what_attempts_failed_of(read_text: Any) -> None:
    """Preempted, lost a node, failed by itself; another one ran out of memory; the last one completed."""
    trace = read_text(
        dump(
            row("8", Submit="09:30:00", Start="09:40:00", End="09:41:00", State="FAILED"),
            row("8", Start="09:00:00", End="09:10:00", State="PREEMPTED"),
            row("8", Submit="09:10:00", Start="09:15:00", End="09:30:00", State="NODE_FAIL"),
            row("9", State="OUT_OF_MEMORY"),
            row("10"),
        )
    )
    said = {trace.jobs.ids[job]: names for job, names in trace.truth.signatures.items()}
    assert said == {"8": ("node failure", "no signature"), "9": ("CPU out of memory",)}


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED by 1000"])
def test_a_number_that_ended_for_good_and_comes_again_is_two_jobs(read_text: Any, state: str) -> None:
    trace = read_text(
        dump(row("8", State=state), row("8", Submit="11:00:00", Start="11:00:00", End="11:30:00"))
    )
    assert list(trace.jobs.ids) == ["8", "8~2"]
    assert trace.truth.duration_s.tolist() == [3600, 1800]
    assert (trace.truth.failures, trace.observed.interruptions) == ({}, {})


@pytest.mark.parametrize(
    ("state", "failed", "preempted", "jobs"),
    [("PREEMPTED", 0, 2, 2), ("REQUEUED", 0, 0, 2), ("COMPLETED", 0, 0, 4), ("NODE_FAIL", 2, 0, 2)],
)
def test_gpu_hours_of_earlier_attempts_go_where_their_states_say(
    read_text: Any, state: str, failed: int, preempted: int, jobs: int
) -> None:
    """Two jobs of 2 GPU-hours, each with an earlier attempt of 1 hour under its number: 4 in all."""
    rows = [
        row(id, State=said, Submit=submit, Start=submit, End=end)
        for id in ("1", "2")
        for said, submit, end in ((state, "09:00:00", "10:00:00"), ("COMPLETED", "10:00:00", "11:00:00"))
    ]
    total = usage_of(held_of(read_text(dump(*rows)))).total
    assert (total.jobs, total.gpu_hours, total.failed_gpu_hours) == (jobs, 4, failed)
    assert (total.preempted_gpu_hours or 0) == preempted


def test_numbers_that_were_given_out_twice_are_two_jobs(read_text: Any) -> None:
    """Slurm begins anew at some number; another user's job is no attempt of this one."""
    trace = read_text(
        dump(row("8"), row("8", User="bob", Submit="11:00:00", Start="11:00:00", End="11:05:00"))
    )
    assert list(trace.jobs.ids) == ["8", "8~2"]
    assert odd_of(trace) == {"job id used before": (1, "kept under the id with ~2, ~3 ... appended")}


def test_the_observed_row_counts_every_attempt() -> None:
    """Of 40 minutes between submission and end the job waited 10 s and 8 min, and held a GPU the rest."""
    from rota.bounds.recorded import observed

    file = dump(REQUEUED, AGAIN)
    trace = _read(file)
    record = observed(trace, auto_cluster(trace))
    job = record.jobs.row(0, named=True)
    assert (job["run_s"], job["waiting_s"], job["service_gpu_s"]) == (1910, 490, 1910)


def _read(text: str) -> Any:
    from rota.traces.registry import find
    from rota.traces.source import TraceSource

    source = TraceSource("dump", text.encode())
    return find(source, None).read(source)


# --- the wait, split where the job became eligible

# Eligible, Start: seconds held
HELD = [
    ("09:00:00", "09:05:00", 0),
    ("09:04:00", "09:05:00", 240),
    ("08:59:00", "09:05:00", 0),
    ("09:30:00", "09:05:00", 300),  # changed after it had started
    ("Unknown", "09:05:00", np.nan),
]


@pytest.mark.parametrize(("eligible", "start", "held_s"), HELD)
def test_what_passed_before_it_was_eligible(read_text: Any, eligible: str, start: str, held_s: float) -> None:
    trace = read_text(dump(row("1", Eligible=eligible, Start=start)))
    assert trace.truth.held_s.tolist() == pytest.approx([held_s], nan_ok=True)


def test_a_dependency_is_no_waiting_that_a_policy_could_spare() -> None:
    """Job 2 waits an hour for job 1, on a cluster that is empty: no policy starts it earlier."""
    trace = _read(dump(row("1"), row("2", Eligible="10:00:00", Start="10:00:05", End="10:30:00")))
    results = rota.simulate(trace, cluster="1x8", policies=["fifo"])
    assert results["fifo"].jobs["start_s"].to_list() == [0, 3600]
    assert results["observed"].jobs["eligible_s"].to_list() == [0, 3600]
    assert results["observed"].jobs["waiting_s"].to_list() == [0, 3605]
    assert any(remark.startswith("No job ever waited") for remark in results.remarks)


# --- types, nodes, partitions

TWO_TYPES = dump(
    row("1", NodeList="gpu01", ReqTRES=gpus(8, "a100"), AllocTRES=gpus(8, "a100")),
    row("2", NodeList="gpu02", ReqTRES=gpus(5), AllocTRES=gpus(5, "a100")),
    row("3", NodeList="old[1-2]", Partition="v100", ReqTRES=gpus(8), AllocTRES=gpus(8, "v100")),
    # a site that does not count types: from the node, from the partition, from nothing
    row("4", Submit="10:00:00", Start="10:00:00", End="10:30:00", NodeList="old2", Partition="all",
        ReqTRES=gpus(2), AllocTRES=gpus(2)),
    row("5", Submit="10:00:00", Start="10:00:00", End="10:30:00", NodeList="old3", Partition="v100",
        ReqTRES=gpus(3), AllocTRES=gpus(3)),
    row("6", Submit="10:00:00", Start="10:00:00", End="10:30:00", NodeList="new1", Partition="all",
        ReqTRES=gpus(1), AllocTRES=gpus(1)),
    row("7", Submit="10:00:00", Start="10:00:00", End="10:30:00", NodeList="cpu1", Partition="cpu",
        ReqTRES="cpu=2", AllocTRES="cpu=2"),
)  # fmt: skip


def test_the_type_it_ran_on(read_text: Any) -> None:
    trace = read_text(TWO_TYPES)
    assert trace.observed.types == {0: "a100", 1: "a100", 2: "v100", 3: "v100", 4: "v100"}
    assert trace.jobs.type_names == ("a100",)
    assert trace.jobs.gpu_types.tolist() == [1, 0, 0, 0, 0, 0, 0]  # only what was asked for binds
    demand = peak_demand(trace)
    assert (demand.gpus_by_type, demand.gpus) == ({"a100": 13, "v100": 8}, 21)


def test_the_cluster_of_a_site(read_text: Any) -> None:
    """Nodes with as many GPUs as were held there, and the partitions of what ran there as labels."""
    cluster = auto_cluster(read_text(TWO_TYPES))
    assert cluster.node_names == ("cpu1", "gpu01", "gpu02", "new1", "old1", "old2", "old3")
    assert cluster.node_gpus.tolist() == [0, 8, 8, 1, 4, 4, 4]
    types = [cluster.type_names[code] for code in cluster.node_type]
    assert types[1:] == ["a100", "a100", "GPU", "v100", "v100", "v100"]
    named = {label: [cluster.node_names[n] for n in nodes] for label, nodes in cluster.labels.items()}
    assert named == {
        "a100": ["gpu01", "gpu02"],
        "v100": ["old1", "old2", "old3"],
        "all": ["new1", "old2"],
        "cpu": ["cpu1"],
    }


def test_a_node_of_two_types_that_one_job_held(read_text: Any) -> None:
    """Nobody recorded which is the node's: the first that the job accepts, so that it can run there."""
    both = "cpu=2,gres/gpu:a100=1,gres/gpu:v100=1,gres/gpu=2"
    trace = read_text(dump(row("1", NodeList="mix1", ReqTRES=both, AllocTRES=both)))
    cluster = auto_cluster(trace)
    assert (cluster.node_gpus.tolist(), cluster.type_names) == ([2], ("a100",))
    assert rota.simulate(trace, policies="fifo")["fifo"].jobs["state"].to_list() == ["COMPLETED"]


@pytest.mark.parametrize(("begin", "held"), [("10:29:59", 4), ("10:29:58", 8), ("10:30:00", 4)])
def test_a_second_that_two_jobs_share_is_rounding(read_text: Any, begin: str, held: int) -> None:
    """Logs round to seconds: who began a second before the other ended may have followed it."""
    first = {"Submit": "10:00:00", "Start": "10:00:00", "End": "10:30:00"}
    then = {"Submit": "10:00:00", "Start": begin, "End": "10:50:00"}
    four = {"NodeList": "gpu01", "ReqTRES": gpus(4), "AllocTRES": gpus(4, "a100")}
    trace = read_text(dump(row("1", **first, **four), row("2", **then, **four)))
    assert auto_cluster(trace).node_gpus.tolist() == [held]


def test_the_replay_keeps_to_partitions_and_warns_of_nothing(tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    file.write_text(TWO_TYPES)
    results = rota.simulate(file, policies=["srtf", "tiresias"])
    known = ("No job ever waited", "Recorded starts make this a site's own history")
    assert not [remark for remark in results.remarks if not remark.startswith(known)]
    assert results.cluster.describe() == "1x0,2x8:a100,1x1,3x4:v100 (29 GPUs in 7 nodes)"
    jobs = results["srtf"].jobs
    assert jobs["state"].to_list() == ["COMPLETED"] * 7
    nodes = {job: set(held) for job, held in results["srtf"].intervals.select("job_id", "nodes").iter_rows()}
    assert nodes["3"] <= {4, 5, 6}
    assert nodes["1"] | nodes["2"] == {1, 2}


def test_partitions_that_a_cluster_does_not_have_bind_nobody() -> None:
    results = rota.simulate(_read(TWO_TYPES), cluster="4x8:a100", policies=["fifo"])
    assert results["fifo"].jobs["state"].to_list() == ["COMPLETED"] * 7
    (remark,) = [remark for remark in results.remarks if "labelled" in remark]
    assert remark.startswith(
        "No node of this cluster is labelled a100, all, cpu, v100: jobs of these partitions"
    )


def test_nodes_types_and_partitions_survive(read_text: Any, tmp_path: Path) -> None:
    trace = read_text(TWO_TYPES)
    for name in ("t.csv", "t.parquet"):
        write(trace, tmp_path / name)
        again = read(tmp_path / name)
        assert (again.observed.nodes, again.observed.types) == (trace.observed.nodes, trace.observed.types)
        assert again.jobs.node_set_names == ("a100", "v100", "all", "cpu")


def test_a_waiting_job_names_every_partition_that_would_do(read_text: Any) -> None:
    trace = read_text(dump(row("1"), row("2", Partition="v100,a100", **WAITING | {"State": "CANCELLED"})))
    assert trace.jobs.node_set_names == ("a100", "v100|a100")


def test_memory_that_is_not_allocated_stands_in_the_request(read_text: Any) -> None:
    assert read_text(dump(row("1"))).jobs.memory_gib.tolist() == [16]


# --- QOS


@pytest.mark.parametrize(
    ("noted", "levels"),
    [
        # jobs as (QOS, priority noted), then the level of each
        ([("normal", 10), ("normal", 40), ("high", 1010), ("high", 1030), ("low", 1), ("low", 2)],
         [1, 1, 2, 2, 0, 0]),
        ([("normal", 10), ("normal", 500), ("other", 12), ("other", 480)], [0, 0, 0, 0]),
        # a held job has 0; without a weight for QOS priorities count down by one, job by job
        ([("normal", 10), ("high", 0), ("high", 50)], [0, 1, 1]),
        ([("high", 4294901758), ("normal", 4294901757)], [0, 0]),
    ],
)  # fmt: skip
def test_which_qos_comes_first(read_text: Any, noted: list[tuple[str, int]], levels: list[int]) -> None:
    rows = [row(str(i), QOS=qos, Priority=str(value)) for i, (qos, value) in enumerate(noted, 1)]
    assert read_text(dump(*rows)).jobs.priority.tolist() == levels


def test_the_sites_own_policy_serves_the_higher_qos_first() -> None:
    def asking(id: str, qos: str, priority: str, submit: str, start: str, end: str) -> str:
        return row(id, QOS=qos, Priority=priority, Submit=submit, Start=start, End=end, NodeList="gpu01",
                   ReqTRES=gpus(8), AllocTRES=gpus(8, "a100"))  # fmt: skip

    trace = _read(
        dump(
            asking("1", "normal", "100", "09:00:00", "09:00:00", "10:00:00"),
            asking("2", "normal", "110", "09:01:00", "11:00:00", "12:00:00"),
            asking("3", "high", "2000", "09:02:00", "10:00:00", "11:00:00"),
        )
    )
    results = rota.simulate(trace, policies=["fifo:backfill=easy"])
    assert results.calibration.site_policy == "fifo:backfill=easy"
    assert results["fifo:backfill=easy"].jobs["start_s"].to_list() == [0, 7200, 3600]
    assert "waits about as long as your jobs did" in results.calibration.text


def test_each_partition_has_a_queue_of_its_own() -> None:
    """A site that serves each partition first in, first out: who waits in one holds nobody up in another."""

    def on(id: str, partition: str, start: str, end: str) -> str:
        return row(id, Partition=partition, Start=start, End=end, NodeList=f"{partition}1",
                   Submit=f"08:0{id}:00", ReqTRES=gpus(4), AllocTRES=gpus(4, "a100"))  # fmt: skip

    trace = _read(
        dump(
            on("1", "old", "08:01:00", "12:00:00"),
            on("2", "old", "12:00:00", "13:00:00"),
            on("3", "new", "08:03:00", "09:00:00"),
            on("4", "new", "09:00:00", "10:00:00"),
        )
    )
    results = rota.simulate(trace, policies=["srtf"], site_policy="fifo")
    assert results["fifo"].jobs["start_s"].to_list() == results["observed"].jobs["start_s"].to_list()


# --- steps, arrays, heterogeneous jobs

USED = "cpu=00:00:10,energy=0,fs/disk=53689,gres/gpumem=20480M,gres/gpuutil=93,mem=2097152K,pages=0"


def test_steps_say_what_their_job_used(read_text: Any) -> None:
    head = "JobIDRaw|Submit|Start|End|State|AllocTRES|TRESUsageInTot"
    stamps = "2024-03-01T09:00:00|2024-03-01T09:00:00|2024-03-01T10:00:00|COMPLETED"
    steps = [f"7|{stamps}|gres/gpu=1|", f"7.batch|{stamps}||mem=1G,gres/gpuutil=20", f"7.0|{stamps}||{USED}"]
    trace = read_text("\n".join([head, *steps, f"8|{stamps}|gres/gpu=1|"]))
    used = {"memory_gib": 2, "gpu_memory_gib": 20, "gpu_utilisation": 0.93, "energy_j": 0, "cpu_s": 10}
    assert trace.facts["usage"] == {"7": used}
    assert odd_of(trace)["job step"] == (2, "their usage is that of their job, which has a line of its own")


# JobIDRaw, JobID, State; whether it is kept
@pytest.mark.parametrize(
    ("raw", "id", "waits", "kept"),
    [
        ("124", "123_1", False, True),
        ("123", "123_[5-9%2]", True, False),
        ("125", "123_4", False, True),
        ("130", "130+0", False, True),
        ("131", "130+1", False, True),
    ],
)
def test_ids_of_arrays_and_heterogeneous_jobs(
    read_text: Any, raw: str, id: str, waits: bool, kept: bool
) -> None:
    trace = read_text(dump(row("1"), row(raw, JobID=id, **(WAITING if waits else {}))))
    assert list(trace.jobs.ids) == (["1", raw] if kept else ["1"])
    assert ("part of a heterogeneous job" in odd_of(trace)) == ("+" in id)


# --- what people type first


def test_the_command_is_told() -> None:
    (sacct,) = [format for format in formats() if format.name == "sacct"]
    assert sacct.command == COMMAND
    assert "--duplicates" in COMMAND
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert COMMAND.partition(" --format")[0] in readme
    assert all(field in readme for field in FIELDS)


DEFAULT = "JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode\n1|train|a100|vision|4|COMPLETED|0:0\n"
PADDED = (
    "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
    "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
    "1                 train       a100     vision          4  COMPLETED      0:0 \n"
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DEFAULT, r"row 1: these columns of sacct do not say when jobs ran \(Submit, Start, End missing\)"),
        (PADDED, "row 1: the cells are padded with blanks, which cuts long cells"),
        (dump(row("1")).replace("|", ","), "row 1: the cells are joined by commas, which TRES hold too"),
    ],
)
def test_what_sacct_prints_by_itself_gets_the_command(read_text: Any, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read_text(text)
    assert COMMAND in str(caught.value)


@pytest.mark.parametrize("separator", ["\t", ";"])
def test_other_separators(read_text: Any, separator: str) -> None:
    assert list(read_text(dump(row("1")).replace("|", separator)).jobs.ids) == ["1"]


def test_a_bar_in_a_name_that_nothing_shows_is_refused(read_text: Any) -> None:
    """Without a state nothing shows which name the separator stands in."""
    with pytest.raises(InputError, match="row 2: the line has 6 fields; expected 5"):
        read_text("JobID|Submit|Start|End|Account\n1|2024-03-01T09:00:00|||a|b\n", "sacct")


def test_a_bar_in_a_name(read_text: Any) -> None:
    """sacct prints it as it stands."""
    trace = read_text(dump(row("1", JobName="odd|name|x")))
    assert trace.jobs.name_of("group", 0) == "odd_name_x"


def test_a_site_that_does_not_count_gpus_is_told(read_text: Any) -> None:
    trace = read_text(dump(row("1", ReqTRES="cpu=4", AllocTRES="cpu=4")))
    assert "AccountingStorageTRES=gres/gpu" in str(trace.facts["GPUs"])


@pytest.mark.parametrize("columns", [("JobIDRaw", "User", "Submit", "Start", "End", "AllocTRES"), FIELDS[:9]])
def test_a_dump_without_states_is_one_of_sacct(read_text: Any, columns: tuple[str, ...]) -> None:
    """It was taken for a table of one's own, and the columns of such a one were asked for."""
    at = [FIELDS.index(name) for name in columns]
    lines = [[line.split("|")[i] for i in at] for line in dump(row("1")).splitlines()]
    with pytest.raises(InputError, match=r"State"):
        read_text("\n".join("|".join(cells) for cells in lines))


def test_a_long_dump_costs_no_more_by_row(read_text: Any) -> None:
    """The types of jobs were looked for in all others' for each of them: a month of a site took hours."""

    def cpu_s(rows: int) -> float:
        text = dump(*(row(str(number)) for number in range(rows)))
        began = process_time()
        read_text(text)
        return process_time() - began

    cpu_s(100)  # what is imported on the way
    assert cpu_s(20_000) < 20 * cpu_s(2_000)
