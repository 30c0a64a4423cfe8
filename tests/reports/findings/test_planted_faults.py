"""Faults planted in a site's accounting dump: all of them are named, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rota.model.cluster import Cluster, NodeShape
from rota.model.trace import Trace
from rota.reports.findings.studies import Analysis, study
from rota.reports.findings.thresholds import Thresholds
from rota.traces.registry import find
from rota.traces.source import TraceSource
from sacct_site import FAULTS, Site, dump
from tiers import first

PLANTED = {
    "idle": ("idle_user", "nlp/idler"),
    "array": ("failing_array", "77000"),
    "wrong": ("wrong_partition", "bio/wendy"),
    "limits": ("over_asked_limits", "bio/greta"),
}
SMALL = Site(jobs=350, days=6)
SITES = {
    "busy": Site(jobs=800, days=5),
    "two nodes": Site(nodes=2, jobs=120, days=4),
    "processor time only": Site(jobs=350, days=6, usage=False, cpu=True),
    "a third fails": Site(jobs=350, days=6, fail_rate=0.35),
}


def trace_of(text: str) -> Trace:
    source = TraceSource("dump", text.encode())
    return find(source, None).read(source)


def named(analysis: Analysis) -> set[tuple[str, str]]:
    return {(finding.key, finding.subject) for finding in analysis.faults}


@pytest.mark.parametrize("faults", [(), *((one,) for one in FAULTS), FAULTS], ids="-".join)
@pytest.mark.parametrize("seed", first(1, range(12)))
def test_planted_faults_are_named_and_nothing_else(seed: int, faults: tuple[str, ...]) -> None:
    analysis = study(trace_of(dump(seed, faults, SMALL)))
    assert named(analysis) == {PLANTED[fault] for fault in faults}


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("seed", first(1, range(100, 108)))
def test_at_sites_of_other_shapes(seed: int, site: str) -> None:
    assert named(study(trace_of(dump(seed, FAULTS, SITES[site])))) == {PLANTED[fault] for fault in FAULTS}
    assert named(study(trace_of(dump(seed, (), SITES[site])))) == set()


def test_what_nobody_measured_is_no_fault() -> None:
    """Without utilisation and processor time the idle user is not named, and the gap is."""
    analysis = study(trace_of(dump(3, FAULTS, Site(jobs=350, days=6, usage=False))))
    assert named(analysis) == {PLANTED[fault] for fault in FAULTS if fault != "idle"}
    gap = {gap.what: gap.needs for gap in analysis.unsaid}["who holds GPUs that idle"]
    assert "gres/gpuutil" in gap
    assert "users who hold idle GPUs" not in analysis.checked


def test_a_counter_that_stands_at_zero_measures_nothing() -> None:
    lines = dump(3, ("idle",), SMALL).splitlines()
    whole = [
        line if "gpuutil" not in line else f"{line.split('gpuutil=')[0]}gpuutil=0,mem=8G" for line in lines
    ]
    (by_cpu,) = study(trace_of("\n".join(whole))).faults
    assert (by_cpu.subject, by_cpu.certainty) == ("nlp/idler", "likely"), "its CPUs did nothing"
    bare = [
        line if "|cpu=" not in line else f"{line.split('|cpu=')[0]}|gres/gpuutil=0,mem=8G" for line in whole
    ]
    analysis = study(trace_of("\n".join(bare)))
    assert named(analysis) == set()
    needs = [gap.needs for gap in analysis.unsaid if gap.what == "how busy the held GPUs were"]
    assert needs == ["gres/gpuutil is 0 for every job: it was not measured"]


def test_processor_time_that_is_low_for_everybody_names_nobody() -> None:
    """A site whose accounting sees the launcher alone."""
    lines = dump(3, ("idle",), Site(jobs=350, days=6, usage=False)).splitlines()
    at = lines[0].split("|").index("TotalCPU")
    cells = [line.split("|") for line in lines]
    text = "\n".join("|".join([*c[:at], c[at] or "00:00:07", *c[at + 1 :]]) for c in cells)
    assert named(study(trace_of(text))) == set()


def test_a_partition_that_nobody_used_is_known_if_it_is_stated() -> None:
    """Without the v100 jobs nobody knows of the other partition; with the site's file it stands empty."""
    lines = dump(3, ("wrong",), SMALL).splitlines()
    trace = trace_of("\n".join(line for line in lines if "v100" not in line))
    assert named(study(trace)) == set()
    stated = Cluster.build(
        [
            NodeShape(
                SMALL.nodes, 8, "a100", names=tuple(f"a100-{i:02d}" for i in range(1, 7)), labels=("a100",)
            ),
            NodeShape(2, 8, "v100", names=("v1", "v2"), labels=("v100",)),
        ]
    )
    assert named(study(trace, stated)) == {PLANTED["wrong"]}


def test_sums_and_means_of_utilisation_are_told_apart() -> None:
    """A site whose figure is a mean over a job's GPUs: nobody with eight busy GPUs is taken for idle."""
    lines = []
    for line in dump(3, ("idle",), SMALL).splitlines():
        if "gpuutil=" in line:
            head, _, tail = line.partition("gpuutil=")
            gpus = int(head.split("gres/gpu:")[1].split("=")[1].split(",")[0])
            line = f"{head}gpuutil={round(int(tail.split(',')[0]) / gpus)},mem=8G"
        lines.append(line)
    analysis = study(trace_of("\n".join(lines)))
    assert named(analysis) == {PLANTED["idle"]}
    (finding,) = [one for one in analysis.findings if one.key == "utilisation"]
    assert "mean over a job's GPUs" in finding.note
    assert 0.5 < finding.value < 0.75


def edited(text: str, column: str, value: Callable[[int], str], user: str) -> str:
    """The dump with `value(n)` in a column of the user's n-th job, its steps left as they are."""
    head, *rows = text.splitlines()
    at, who = head.split("|").index(column), head.split("|").index("User")
    lines, number = [head], 0
    for line in rows:
        cells = line.split("|")
        if cells[who] == user:
            cells[at] = value(number)
            number += 1
        lines.append("|".join(cells))
    return "\n".join(lines) + "\n"


def test_jobs_that_come_together_are_one_choice() -> None:
    """All of wendy's jobs came in one go: that the partition was full then is chance, and no habit."""
    text = dump(3, ("wrong",), SMALL)
    submits = text.splitlines()[0].split("|").index("Submit")
    last = max(line.split("|")[submits] for line in text.splitlines()[1:] if "|wendy|" in line)
    together = edited(text, "Submit", lambda _: last, "wendy")
    together = edited(together, "Eligible", lambda _: last, "wendy")
    starts = text.splitlines()[0].split("|").index("Start")
    late = min(line.split("|")[starts] for line in text.splitlines()[1:] if "|wendy|" in line)
    assert last < late, "they still wait"
    patient = Thresholds.parse("wrong_hours_alone=10000")
    assert named(study(trace_of(text), thresholds=patient)) == {PLANTED["wrong"]}
    assert named(study(trace_of(together), thresholds=patient)) == set()
    assert named(study(trace_of(together))) == {PLANTED["wrong"]}, "two days of waiting are too many for that"


def test_who_over_asks_stands_out_of_any_site() -> None:
    """Limits three times as long for everybody: greta still asks for many times more than they do."""
    text = dump(3, ("limits",), SMALL)
    head, *rows = text.splitlines()
    at = head.split("|").index("TimelimitRaw")
    cells = [line.split("|") for line in rows]
    lax = "\n".join(
        [head, *("|".join([*c[:at], str(3 * int(c[at])) if c[at] else "", *c[at + 1 :]]) for c in cells)]
    )
    assert named(study(trace_of(lax))) == {PLANTED["limits"]}


def test_an_array_of_which_one_in_eight_lives_is_named() -> None:
    text = dump(3, ("array",), SMALL)
    head, *rows = text.splitlines()
    names = head.split("|")
    state, code = names.index("State"), names.index("ExitCode")
    lines, number = [head], 0
    for line in rows:
        cells = line.split("|")
        if cells[names.index("JobID")].startswith("77000_") and cells[names.index("User")]:
            number += 1
            if number % 8 == 0:
                cells[state], cells[code] = "COMPLETED", "0:0"
        lines.append("|".join(cells))
    assert number >= 8
    assert named(study(trace_of("\n".join(lines)))) == {PLANTED["array"]}


def test_thresholds_decide() -> None:
    """The same dump names nobody once nothing is low, alike or long enough."""
    text = dump(3, FAULTS, SMALL)
    lax = Thresholds.parse("idle_gpu_hours=100000,array_tasks=1000,wrong_wait_min=100000,limit_jobs=1000")
    assert named(study(trace_of(text), thresholds=lax)) == set()


def test_a_fault_says_how_much_how_sure_and_of_which_jobs() -> None:
    analysis = study(trace_of(dump(3, FAULTS, SMALL)))
    for finding in analysis.faults:
        assert finding.numbers["jobs"], finding.key
        assert finding.numbers["jobs"] >= len(finding.jobs) > 0
        assert finding.bar is not None
        assert finding.certainty in ("sure", "likely")
        assert finding.evidence
        assert finding.user.split("/")[-1] in finding.sentence
        assert finding.subject.split("/")[-1] in finding.sentence
