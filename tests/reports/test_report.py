"""The report: whole, offline, escaped, and small."""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from report_toys import Row, four_policies, queue_by_count, record, toy_trace

from rota.model.record import Record
from rota.model.trace import OddRows
from rota.reports.figures import common_span, utilisation_chart
from rota.reports.gantt import data_uri
from rota.reports.likeness import Calibration
from rota.reports.report import Notes, render, write_report
from rota.reports.shown import figure
from rota.reports.window import parse_window
from tiers import first

VOID = {"meta", "br", "wbr", "img", "link", "input", "hr"}
EVIL = "<script>alert('x')</script>"


class Page(HTMLParser):
    """Checks that tags nest; collects tags with attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


@pytest.fixture(scope="module")
def small() -> list[Record]:
    return four_policies(150, (8,) * 4, span_s=86_400.0, mean_s=7200.0)


def test_the_page_is_whole_and_names_every_policy(small: list[Record]) -> None:
    text = render(small, window=parse_window("10%:90%"), notes=Notes(title="Last month"))
    page = Page(text)
    shown = " ".join(page.texts)
    assert all(run.policy in shown for run in small)
    assert "Last month" in shown
    assert page.count("figure") == 6 + len(small), "four charts, two of bars, and a Gantt chart per policy"
    assert "engine_seconds" in shown, "definitions stand at the end"


def test_nothing_is_fetched(small: list[Record]) -> None:
    packed = r'(id="drawn">|base64,)[^<"]+'  # letters and digits of any kind
    text = re.sub(packed, r"\1", render(small))
    assert not re.search(r"(?:https?:)?//[a-z]", text.replace("// ", "")), "no address of anything outside"
    for tag, attributes in Page(text).tags:
        assert tag not in ("link", "iframe", "object", "embed")
        for name in ("src", "href", "action", "data"):
            assert (attributes.get(name) or "data:").startswith("data:")


def test_every_figure_has_words(small: list[Record]) -> None:
    plots = [attributes for tag, attributes in Page(render(small)).tags if attributes.get("class") == "plot"]
    assert len(plots) == 8
    assert all(
        attributes["role"] == "img" and len(attributes["aria-label"] or "") > 40 for attributes in plots
    )


def test_names_are_escaped_everywhere() -> None:
    trace = toy_trace(60, 3, 20_000.0, 3000.0, (EVIL, '"><b>', "plain"))
    run = queue_by_count(trace, (8, 8), policy=f"fifo:{EVIL}", provenance={"trace": EVIL, EVIL: 1})
    run = replace(
        run, jobs=run.jobs.with_columns(job_id=pl.lit(EVIL)), cluster={**run.cluster, "describe": EVIL}
    )
    notes = Notes(
        title=EVIL, odd=[OddRows(EVIL, EVIL, 3, (EVIL,))], calibration=Calibration(EVIL), remarks=[EVIL]
    )
    text = render([run], notes=notes)
    assert EVIL not in text
    assert text.count("<script>") == 1, "the other one is data"
    assert Page(text).count("b") == 0
    assert EVIL not in figure("completion", [run]).svg


def test_every_policy_has_a_picture_without_scripts(small: list[Record]) -> None:
    assert Page(render(small)).count("image") == len(small)


def test_nodes_that_came_and_went_have_a_figure(small: list[Record]) -> None:
    """It was made and stood nowhere, and its id was that of the section of nodes."""
    paid = [replace(run, cluster={**run.cluster, "paid_nodes": [[0.0, 1], [3600.0, 2]]}) for run in small]
    ids = [a["id"] for _, a in Page(render(paid)).tags if "id" in a]
    assert "paid" in ids
    assert len(ids) == len(set(ids))
    assert "paid" not in [a.get("id") for _, a in Page(render(small)).tags]


def test_the_pictures_of_nodes_keep_their_times(small: list[Record]) -> None:
    """The axis ends at a round moment, and the picture where the run does."""
    page = Page(render(small))
    axis_s = next(float(a["data-length"] or 0) for tag, a in page.tags if tag == "main")
    run_s = common_span(small).length_s
    assert axis_s > run_s
    widths = [float(a["width"] or 0) for tag, a in page.tags if tag == "image"]
    assert widths == [pytest.approx(1000 * run_s / axis_s, abs=0.001)] * len(small)


def test_what_is_the_same_for_all_has_no_column(small: list[Record]) -> None:
    heads = [a["data-label"] for tag, a in Page(render(small)).tags if tag == "td" and "data-label" in a]
    assert "mean waiting" in heads
    assert "rejected" not in heads
    assert "The same for all: " in render(small)
    assert "rejected 0" in render(small)
    assert "The same for all" not in render(small[:1]), "of one policy everything has its place"


def test_the_axes_end_at_the_last_submission() -> None:
    """The tail is there to be looked at, behind the part shown first."""
    rows: list[Row] = [{"submit_s": 10.0 * i, "duration_s": 5.0, "gpus": 1} for i in range(11)]
    rows = [{**row, "start_s": row["submit_s"], "finish_s": row["submit_s"] + 5} for row in rows]
    rows[-1] |= {"finish_s": 1000.0}
    intervals = [
        {"job": i, "start_s": r["start_s"], "end_s": r["finish_s"], "devices": [i % 8]}
        for i, r in enumerate(rows)
    ]
    run = record(rows, intervals)
    chart = utilisation_chart([run])
    assert (chart.x.high, chart.x.high * chart.shown) == (1080.0, pytest.approx(100.0))
    assert chart.x.ticks[-1].at == chart.shown
    assert 'viewBox="0 0 92.593 1000"' in render([run])


def test_dates_where_the_trace_has_them(small: list[Record]) -> None:
    dated = [
        replace(run, provenance={**run.provenance, "epoch": "2024-02-28 18:30:00", "time_zone": "CET"})
        for run in small
    ]
    text = render(dated)
    assert "28 Feb 2024 to 1 Mar 2024 (CET)" in text
    assert ">29 Feb</span>" in text, "a mark at midnight"
    assert "time since the first submission" in render(small)


@pytest.mark.soak
@pytest.mark.parametrize("n", first(1, [20_000, 82_000]))
def test_a_month_of_four_policies_stays_small(n: int) -> None:
    """So many jobs on 80 nodes, drawn from columns: the file must not grow with the trace."""
    rng = np.random.default_rng(5)
    gpus = rng.choice([1, 2, 4, 8], n)
    submit = np.sort(rng.uniform(0, 75 * 86_400, n))
    start, first = submit + rng.exponential(600, n), rng.integers(0, 80, n) * 8
    run = record([], nodes=(8,) * 80)
    tenants = np.array([f"team-{i}" for i in range(300)])[rng.integers(0, 300, n)]
    facts = {
        "submit_s": submit,
        "start_s": start,
        "finish_s": start + 9000.0,
        "gpus": gpus,
        "tenant": tenants,
    }
    jobs = pl.DataFrame({"job": np.arange(n), **facts}).with_columns(state=pl.lit("COMPLETED"))
    jobs = jobs.with_columns(
        service_gpu_s=pl.col("gpus") * 9000.0, run_s=pl.lit(9000.0), job_id=pl.col("job").cast(pl.String)
    )
    nodes = [[int(f // 8)] * int(g) for f, g in zip(first, gpus, strict=True)]
    devices = [list(range(int(f), int(f + g))) for f, g in zip(first, gpus, strict=True)]
    held = jobs.select(
        "job", "job_id", "start_s", "gpus", end_s="finish_s", share=pl.lit(1.0), role=pl.lit("alone")
    )
    held = held.with_columns(nodes=pl.Series(nodes), devices=pl.Series(devices), end=pl.lit("finished"))
    run = replace(
        run,
        jobs=pl.concat([run.jobs, jobs], how="diagonal_relaxed"),
        intervals=pl.concat([run.intervals, held], how="diagonal_relaxed"),
    )
    text = render([replace(run, policy=name) for name in ("a", "b", "c", "d")])
    assert len(text.encode()) < 3_000_000


def test_a_run_in_which_nothing_happened_still_has_a_report() -> None:
    waiting = record([{"submit_s": 0.0, "gpus": 8, "state": "PENDING", "starts": 0}], nodes=(4,))
    assert "does not say which devices" in render([waiting])
    Page(render([record([], nodes=(4,))]))


def test_the_same_runs_give_the_same_bytes(small: list[Record]) -> None:
    assert render(small) == render(small)


def test_a_report_is_written_whole(small: list[Record], tmp_path: Path) -> None:
    write_report(small, tmp_path / "new" / "report.html")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]


def test_the_figure_for_a_readme_is_xml(small: list[Record]) -> None:
    root = ElementTree.fromstring(figure("completion", small).svg)
    text = " ".join(root.itertext())
    assert all(run.policy in text for run in small)
    curves = [path for path in root.iter("{http://www.w3.org/2000/svg}path") if len(path.get("d", "")) > 200]
    assert len(curves) == len(small)


def test_a_picture_keeps_its_numbers() -> None:
    data = b64decode(data_uri(np.array([[0.0, 0.5, 1.0], [1.0, 0.0, 0.25]]), (1, 2, 3)).partition(",")[2])
    assert struct.unpack(">II", data[16:24]) == (3, 2)
    size = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[size - 4 : size])
    assert zlib.decompress(data[size + 4 : size + 4 + length]) == bytes([0, 0, 32, 64, 0, 64, 0, 16])
