"""GPU-hours by whatever jobs have in common: every one counted once, and cut at months and moments."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import faults_of, needs_axe
from play import trace_of
from rota.errors import InputError
from rota.model.jobs import Outcome, RecordedRun, Truth
from rota.model.trace import Trace
from rota.reports.usage.gpu_hours import Held, months_between, usage_of
from rota.reports.usage.of_trace import held_of
from rota.reports.usage.prices import parse_prices, prices_text
from rota.reports.usage.view import months_of, notes, render
from rota.traces import read
from rota.traces.describe import describe
from rota.wire.usage import UsageLine, UsageView
from shared_data import ROOT, needs_shared
from tiers import examples

HOUR = 3600.0


def history(**facts: object) -> Trace:
    """2 GPUs for 3 h; 1 for 10 h, 4 of which failed; 4 for an hour that failed; none."""
    trace = trace_of(
        f"A 2x{3 * HOUR} B 1x{6 * HOUR}@{HOUR} C 4x{HOUR}@{HOUR} D 0x{HOUR}@{2 * HOUR}",
        tenant=[0, 0, 1, 2],
        tenant_names=("vision/ann", "vision/bob", "nlp/eve"),
        gpu_types=[1, 2, 1, 0],
        type_names=("V100", "A100"),
    )
    truth = Truth.build(
        trace.truth.duration_s,
        outcome=[Outcome.COMPLETED, Outcome.CANCELLED, Outcome.FAILED, Outcome.COMPLETED],
        failures={1: (4 * HOUR,)},
    )
    return replace(trace, truth=truth, facts=facts)


def table(usage: UsageView) -> dict[tuple[str, ...], tuple[int, float]]:
    return {line.names: (line.jobs, round(line.gpu_hours, 9)) for line in usage.lines}


@pytest.mark.parametrize(
    ("by", "lines"),
    [
        ("tenant", {("vision",): (3, 20.0), ("nlp",): (1, 0.0)}),
        ("user", {("vision/ann",): (2, 16.0), ("vision/bob",): (1, 4.0), ("nlp/eve",): (1, 0.0)}),
        ("subtenant", {("vision/ann",): (2, 16.0), ("vision/bob",): (1, 4.0), ("nlp/eve",): (1, 0.0)}),
        ("type", {("V100",): (2, 10.0), ("A100",): (1, 10.0), ("-",): (1, 0.0)}),
        ("size", {("1 GPU",): (1, 10.0), ("2-4 GPUs",): (2, 10.0), ("CPU only",): (1, 0.0)}),
        ("outcome", {("completed",): (2, 6.0), ("cancelled",): (1, 10.0), ("failed",): (1, 4.0)}),
    ],
)
def test_by_what_they_have_in_common(by: str, lines: dict[tuple[str, ...], tuple[int, float]]) -> None:
    usage = usage_of(held_of(history()), [by])
    assert table(usage) == lines
    assert [line.gpu_hours for line in usage.lines] == sorted((h for _, h in lines.values()), reverse=True)


def test_by_node_partition_and_qos() -> None:
    """A job of two nodes holds half of its GPUs on each, and is one job of both."""
    trace = history()
    seen = RecordedRun(
        trace.jobs.submit_s,
        np.full(4, np.nan),
        nodes={0: ("n1", "n2"), 1: ("n2",)},
        qos={0: "high", 2: "low"},
    )
    trace = replace(trace, observed=seen)
    by_node = usage_of(held_of(trace, by_node=True), ["node"])
    assert table(by_node) == {("n1",): (1, 3.0), ("n2",): (2, 13.0), ("-",): (2, 4.0)}
    assert (by_node.total.jobs, by_node.total.gpu_hours) == (4, 20.0)
    assert table(usage_of(held_of(trace), ["qos"])) == {
        ("high",): (1, 6.0),
        ("low",): (1, 4.0),
        ("-",): (2, 10.0),
    }
    assert table(usage_of(held_of(trace), ["partition"])) == {("-",): (4, 20.0)}


def test_what_failed_was_cancelled_and_costs() -> None:
    usage = usage_of(held_of(history()), ["user"], prices=parse_prices("v100=2,A100=3"))
    ann, bob, eve = usage.lines
    assert (ann.failed_gpu_hours, ann.cancelled_gpu_hours) == (pytest.approx(4.0), pytest.approx(10.0))
    assert (bob.failed_gpu_hours, bob.cancelled_gpu_hours) == (pytest.approx(4.0), 0.0)
    assert [one.cost for one in (ann, bob, eve)] == pytest.approx([42.0, 8.0, 0.0])
    assert usage.total.cost == pytest.approx(50.0)
    assert usage.total.share == 1.0
    assert usage.from_submission
    assert usage.total.wait_hours is None


def test_recorded_starts_say_when_and_who_waited() -> None:
    trace = history()
    start_s = np.array([HOUR, 2 * HOUR, np.nan, 2 * HOUR])
    trace = replace(trace, observed=RecordedRun(start_s, np.full(4, np.nan), types={3: "A100"}))
    usage = usage_of(held_of(trace), ["user"])
    assert table(usage)[("vision/bob",)] == (1, 4.0), "it ran; when is not known"
    assert not usage.from_submission
    assert {line.names[0]: line.wait_hours for line in usage.lines} == {
        "vision/ann": 1.0,
        "vision/bob": None,
        "nlp/eve": 0.0,
    }
    assert ("A100",) in table(usage_of(held_of(trace), ["type"]))


def test_who_still_runs_has_no_outcome_yet() -> None:
    seen = RecordedRun(np.zeros(4), np.array([1.0, np.nan, 1.0, 1.0]) * HOUR)
    usage = usage_of(held_of(replace(history(), observed=seen)), ["outcome"])
    assert table(usage)[("running",)] == (1, 10.0)
    assert ("cancelled",) not in table(usage)


def test_a_job_of_two_months_is_cut_where_the_second_begins() -> None:
    dated = history(epoch="2026-10-31 22:00:00")
    usage = usage_of(held_of(dated), ["month", "tenant"])
    assert table(usage) == {
        ("2026-10", "vision"): (3, 4.0 + 1.0 + 4.0),
        ("2026-11", "vision"): (2, 2.0 + 9.0),
        ("2026-11", "nlp"): (1, 0.0),
    }
    assert [line.names[0] for line in usage.lines] == ["2026-10", "2026-11", "2026-11"]
    assert usage.total.jobs == 4


def test_only_what_lies_between_two_days() -> None:
    dated = history(epoch="2026-10-31 22:00:00")
    november = datetime(2026, 11, 1, tzinfo=UTC)
    assert usage_of(held_of(dated), since=november).total.gpu_hours == pytest.approx(11.0)
    assert usage_of(held_of(dated), until=november).total.gpu_hours == pytest.approx(9.0)
    assert usage_of(held_of(dated), since=november + timedelta(days=9)).lines == []


@examples(60)
@given(
    seed=st.integers(0, 2**32 - 1),
    cut=st.floats(0, 40),
    by=st.lists(st.sampled_from(["tenant", "type", "month", "size"]), min_size=1, unique=True),
)
def test_every_gpu_hour_is_counted_once(seed: int, cut: float, by: list[str]) -> None:
    """Whatever they are counted by, and on whichever side of a moment."""
    rng = np.random.default_rng(seed)
    text = " ".join(
        f"J{i} {rng.integers(0, 9)}x{rng.uniform(0, 20 * 24) * HOUR}@{rng.uniform(0, 30 * 24) * HOUR}"
        for i in range(rng.integers(1, 12))
    )
    trace = replace(trace_of(text), facts={"epoch": "2026-01-20 05:00:00"})
    whole = float((trace.truth.duration_s * trace.jobs.gpus).sum()) / HOUR
    usage = usage_of(held_of(trace), by)
    assert sum(line.gpu_hours for line in usage.lines) == pytest.approx(whole)
    assert usage.total.gpu_hours == pytest.approx(whole)
    day = datetime(2026, 1, 20, 5, tzinfo=UTC) + timedelta(days=cut)
    sides = usage_of(held_of(trace), by, until=day), usage_of(held_of(trace), by, since=day)
    assert sum(side.total.gpu_hours for side in sides) == pytest.approx(whole)


@pytest.mark.parametrize(
    ("by", "price", "sentence"),
    [
        (["user", "colour"], None, r"--by: 'colour' is nothing to count by; expected tenant, subtenant"),
        ([], None, "--by: names nothing to count by"),
        (["month"], None, "has no dates"),
        (["user"], "V100=1", "--price: GPU type 'A100' has no price; expected one for the rest"),
        (["user"], "cheap", "--price: 'cheap' is no price"),
        (["user"], "V100=", "--price: 'V100=' is no price"),
        (["user"], "-1", "--price: '-1' is no price"),
    ],
)
def test_what_cannot_be_counted(by: list[str], price: str | None, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        usage_of(held_of(history()), by, prices=None if price is None else parse_prices(price))


def test_how_busy_gpus_were_says_what_was_held_and_idle() -> None:
    """Of ann's two jobs one was measured: 2 GPUs for 3 h, busy for 1.5 of 2 (Slurm's sum: 1.5 GPUs)."""
    trace = history(usage={"A": {"gpu_utilisation": 1.5}, "C": {"gpu_utilisation": 4.0}})
    usage = usage_of(held_of(trace), ["user"])
    ann, bob, eve = usage.lines
    assert (ann.measured_gpu_hours, ann.idle_gpu_hours) == (6.0, pytest.approx(1.5))
    assert (bob.measured_gpu_hours, bob.idle_gpu_hours) == (4.0, 0.0)
    assert (eve.measured_gpu_hours, eve.idle_gpu_hours) == (0.0, None)
    assert usage.total.idle_gpu_hours == pytest.approx(1.5)
    assert "How busy GPUs were is known of 50.0% of the GPU-hours." in notes(usage)


def test_months_end_with_the_calendar() -> None:
    """Who is said to run for thirty thousand years does so in no month beyond it."""
    epoch = datetime(9998, 11, 5, tzinfo=UTC)
    begins = [epoch + timedelta(seconds=at_s) for at_s in months_between(epoch, 0.0, 1e12)]
    assert [f"{month:%Y-%m-%d}" for month in begins] == ["9998-11-01", "9998-12-01", "9999-01-01"]


def test_what_was_lost_counts_once_where_the_stretch_ends() -> None:
    """A job of two stretches in two months, the second of which lost an hour of two GPUs."""
    begin = datetime(2026, 10, 31, 20, tzinfo=UTC)
    held = Held(
        source="here",
        epoch=begin,
        job=np.array([7, 7]),
        start_s=np.array([0.0, 3 * HOUR]),
        end_s=np.array([2 * HOUR, 6 * HOUR]),
        gpus=np.array([2.0, 2.0]),
        failed=np.zeros(2),
        cancelled=np.zeros(2),
        lost_gpu_s=np.array([0.0, 2 * HOUR]),
        busy=np.array([0.5, 0.5]),
        wait_s=np.array([HOUR, HOUR]),
        is_known=np.ones(2, dtype=np.bool_),
        has_starts=True,
        names={"tenant": ["t", "t"], "type": ["V100", "V100"]},
    )
    october, november = usage_of(held, ["month"]).lines
    assert (october.gpu_hours, october.preempted_gpu_hours) == (6.0, 0.0)
    assert (november.gpu_hours, november.preempted_gpu_hours) == (4.0, 2.0)
    assert (october.jobs, november.jobs, usage_of(held).total.jobs) == (1, 1, 1)
    assert usage_of(held).total.wait_hours == 1.0


def test_jobs_of_unknown_run_time_are_told() -> None:
    trace = history()
    truth = replace(trace.truth, duration_s=np.array([np.nan, HOUR, HOUR, HOUR]))
    usage = usage_of(held_of(replace(trace, truth=truth)))
    assert usage.without_duration == 1
    assert usage.total.jobs == 4


def test_prices_of_a_cluster_file(tmp_path: Path) -> None:
    """As the file states them: the mean over the GPUs of a type; what is no file is what was typed."""
    file = tmp_path / "site.yaml"
    nodes = "nodes: [{count: 1, gpus: 4, type: V100}, {count: 3, gpus: 4, type: V100, price_class: spot}]\n"
    file.write_text(nodes + "prices: {V100: {on_demand: 3, spot: 1}}\n")
    assert prices_text(str(file)) == "V100=1.5"
    assert prices_text("V100=2,1") == "V100=2,1"
    file.write_text(nodes.replace(", price_class: spot", ""))
    with pytest.raises(InputError, match="states no prices"):
        prices_text(str(file))


@pytest.mark.slow
@needs_axe
def test_accessibility_of_its_page(chromium: Any, tmp_path: Path) -> None:
    """What axe-core has to say of the page that stands by itself: nothing."""
    file = tmp_path / "usage.html"
    file.write_text(render(usage_of(held_of(history()), ["user"])), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 390, "height": 900}, color_scheme="dark")
    page.goto(file.as_uri())
    assert faults_of(page) == []


def test_months_as_curves() -> None:
    """Months without a job are there; what is too little for a curve of its own is one together."""
    lines = [UsageLine(names=(f"t{n}", "2026-01"), jobs=1, gpu_hours=10.0 + n) for n in range(10)]
    lines += [UsageLine(names=("t9", "2025-11"), jobs=1, gpu_hours=1.0)]
    view = UsageView(source="x", by=("tenant", "month"), lines=lines, total=lines[0])
    found = months_of(view)
    assert found is not None
    assert found.months == ["2025-11", "2025-12", "2026-01"]
    assert found.times[0] == datetime(2025, 11, 1, tzinfo=UTC).timestamp()
    assert found.curves[0] == ("t9", [1.0, 0.0, 19.0])
    assert found.curves[-1] == ("others", [0.0, 0.0, 21.0])
    assert len(found.curves) == 9
    assert months_of(view.model_copy(update={"by": ("tenant", "type")})) is None
    assert "3 months from 2025-11 to 2026-01; t9 held most, " in render(view)
    one = UsageLine(names=("2026-01",), jobs=1, gpu_hours=1)
    assert "Over time" not in render(view.model_copy(update={"by": ("month",), "lines": [one]}))


def slices(**facts: object) -> Trace:
    """A slice of one part in seven for 7 h, a whole GPU for 3 h; both of one user."""
    trace = trace_of(
        f"A 1x{7 * HOUR} B 1x{3 * HOUR}",
        tenant=[0, 0],
        tenant_names=("bio/ann",),
        gpu_types=[1, 2],
        type_names=("a100_1g.5gb", "a100"),
    )
    return replace(trace, facts=facts)


# prices, and what ten device-hours cost: a slice has its own price, or its part of the price for the rest
@pytest.mark.parametrize(("price", "cost"), [("7", 7.0 + 21.0), ("a100=7,a100_1g.5gb=2", 14.0 + 21.0)])
def test_slices_count_by_their_part_of_a_gpu(price: str, cost: float) -> None:
    usage = usage_of(held_of(slices()), ["type"], prices=parse_prices(price))
    assert table(usage) == {("a100",): (1, 3.0), ("a100_1g.5gb",): (1, 1.0)}
    assert usage.total.gpu_hours == pytest.approx(4.0)
    assert usage.total.cost == pytest.approx(cost)
    assert usage.slice_hours == {"a100_1g.5gb": pytest.approx(7.0)}
    assert "7 hours of MIG slices count as 1 GPU-hours" in " ".join(notes(usage))


def test_whole_gpus_need_no_word_about_slices() -> None:
    usage = usage_of(held_of(history()))
    assert usage.slice_hours == {}
    assert not any("MIG" in note for note in notes(usage))


@needs_shared
def test_a_site_that_gives_out_slices() -> None:
    trace = read(ROOT / "inputs" / "mig.sacct")
    usage = usage_of(held_of(trace), ["type"])
    assert usage.total.gpu_hours == pytest.approx(10 / 7)
    assert describe(trace).gpu_hours == pytest.approx(10 / 7)
