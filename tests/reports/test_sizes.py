"""Elastic runs in a report: work done over time, and the sizes of single jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from play import play, trace_of
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.model.record import Record
from rota.reports.figures import common_span, work_chart
from rota.reports.occupancy import worked
from rota.reports.report import render
from rota.reports.series import Steps
from rota.reports.sizes import HEIGHT, STEPS, changed_most, sizes_figures
from rota.reports.window import Span
from rota.scheduler.decision import Decision, Wake
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_table import ScalingSpeed


class Grows:
    """The first job gets one GPU more every ten seconds, the second one GPU."""

    needs = frozenset()

    def decide(self, snapshot, memory):
        live = [*snapshot.running.tolist(), *snapshot.waiting.tolist()]
        sizes = {0: tuple(range(1 + int(snapshot.now // 10) % 3)), 1: (3,)}
        return Decision(memory, [Grant(row, sizes[row]) for row in live], wake=Wake(snapshot.now + 10.0))


def elastic_run(policy: object = None) -> Record:
    """A asks for 1 GPU and 48 s of work, which takes it 10 s each on 1, 2 and 3 GPUs (rates 1, 1.6, 2.2)."""
    trace = trace_of("A 1x48 B 1x30", gpus_min=1, gpus_max=4, workload=0, workload_names=("w",))
    trace = replace(trace, truth=Truth.build(np.full(2, np.nan), iterations=np.array([48.0, 30.0])))
    cluster = parse_cluster("1x4")
    curves = ScalingCurves.build({"w": {1: 1.0, 2: 1.6, 3: 2.2, 4: 2.5}}, clean=False)
    record = play(policy or Grows(), trace, cluster, Setting(speed=ScalingSpeed(trace, cluster, curves)))
    jobs = record.jobs.with_columns(pl.Series("duration_s", [48.0, 30.0]))
    return replace(record, jobs=jobs)


def test_intervals_note_their_work() -> None:
    own = elastic_run().intervals.filter(pl.col("job") == 0)
    assert own["gpus"].to_list() == [1, 2, 3]
    assert own["work"].to_list() == pytest.approx([10 / 48, 16 / 48, 22 / 48])


def test_work_over_time() -> None:
    """1 GPU's worth each, then 1.6 and 2.2 of the first; all of it is all that was to be done."""
    steps = worked(elastic_run())
    assert steps is not None
    assert steps.at(np.array([5.0, 15.0, 25.0, 35.0])) == pytest.approx([2.0, 2.6, 3.2, 0.0])
    assert steps.integral(0.0, 100.0) == pytest.approx(78.0)


def test_rigid_runs_have_neither() -> None:
    record = play("fifo", trace_of("A 1x48 B 1x30"), parse_cluster("1x4"))
    assert record.intervals["work"].null_count() == 2
    assert worked(record) is None
    assert work_chart([record]) is None
    assert sizes_figures([record], common_span([record])) == []
    assert "Sizes over time" not in render([record])


def test_lanes() -> None:
    """The band of the job that grew, corner by corner: three steps of 43 on a lane of 150."""
    records = [elastic_run(), elastic_run("fifo")]
    assert changed_most(records) == [0]
    span = common_span(records)
    grown, rigid = sizes_figures(records, span)
    assert grown is not None
    assert rigid is not None
    assert [lane.name for lane in grown.lanes] == ["A"]
    heights = [float(pair.split(" ")[1]) for pair in grown.lanes[0].path[1:].split("L")]
    assert min(heights) == pytest.approx(HEIGHT * 0.14)
    assert heights[0] == heights[-1] == HEIGHT
    assert grown.text.endswith("job A 1 to 3 GPUs.")
    assert rigid.text.endswith("job A 1 GPU.")
    assert (grown.caption, rigid.caption) == (
        "2 changes of size; a full lane is 3 GPUs.",
        "0 changes of size; a full lane is 3 GPUs.",
    )


def test_a_band_of_many_changes_is_averaged() -> None:
    """A lane costs some kilobytes at most."""
    from rota.reports.sizes import _band

    times = np.arange(10_000.0)
    path = _band(Steps(times, 1.0 + times % 2), Span(0.0, 10_000.0), 2.0, HEIGHT)
    assert path.count("L") <= 2 * STEPS + 2


def test_the_page_has_both() -> None:
    page = render([elastic_run(), elastic_run("fifo")])
    for words in ("Sizes over time", '<figure id="work"', 'class="lane b0"', "GPUs' worth"):
        assert words.replace("'", "&#39;") in page or words in page
