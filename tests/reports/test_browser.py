"""The report in a real browser: headless Chromium reads it from a file, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_toys import Row, queue_by_count, toy_trace

from browser import PALE, faults_of, needs_axe
from rota.reports.report import Notes, write_report
from tiers import first

pytestmark = pytest.mark.slow

NODES = (4,) * 6
TYPES = ["V100"] * 4 + ["P100"] * 2
TENANTS = ("lab/ann", "lab/bob", "ops/cron", "solo")
WIDTHS = (390, 820, 1440)


def written(path: Path, tenants: tuple[str, ...]) -> Path:
    """Two policies over a day and a half of jobs, on nodes of two types, with dates and accounts."""
    trace: list[Row] = toy_trace(120, 7, 130_000.0, 9000.0, tenants)
    facts = {"provenance": {"trace": "toy", "epoch": "2024-02-28 18:30:00", "time_zone": "CET"}}
    runs = [
        queue_by_count(trace, NODES, policy="fifo", **facts),
        queue_by_count(
            trace, NODES, policy="sjf", key=lambda row: trace[row]["duration_s"], backfill=True, **facts
        ),
    ]
    runs = [replace(run, cluster={**run.cluster, "node_types": TYPES}) for run in runs]
    write_report(runs, path, notes=Notes(title="Two policies", remarks=["A remark."]))
    return path


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report") / "report.html", TENANTS)


@pytest.fixture
def open_page(chromium: Any, report: Path) -> Iterator[Any]:
    """Opens the report; afterwards nothing may have gone wrong in it, and nothing been asked of a network."""
    wrong: list[str] = []
    contexts = []

    def opened(width: int = 1440, scheme: str = "light", **options: Any) -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: said.type in ("error", "warning") and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: one.url.startswith(("file:", "data:")) or wrong.append(one.url))
        page.goto(report.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_selector("#nodes.drawn")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def view(page: Any) -> list[float]:
    """The part of time shown, as fractions."""
    shown: list[float] = page.evaluate("rota.view")
    return shown


def names(page: Any, table: str) -> list[str]:
    """First column of the rows that can be seen."""
    rows: list[str] = page.locator(f"{table} tbody tr:visible th").all_inner_texts()
    return [text.split("\n")[0].strip() for text in rows]


@pytest.mark.parametrize("scheme", first(1, ["light", "dark"]))
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_or_fades(open_page: Any, width: int, scheme: str) -> None:
    """No width scrolls sideways, and every text stands out from what is behind it (WCAG AA: 4.5, large 3)."""
    page = open_page(width, scheme)
    for menu in page.locator("details").all():
        menu.evaluate("menu => { menu.open = true; }")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(PALE) == []


def test_the_name_of_a_node_is_not_cut_off_below(open_page: Any) -> None:
    """A g that loses its descender reads as a q."""
    name = open_page().locator(".gantt .yticks span").first
    height, size = name.evaluate(
        "span => ['height', 'fontSize'].map((one) => parseFloat(getComputedStyle(span)[one]))"
    )
    assert height >= 1.3 * size


ORDER = "[...document.querySelector('table.headline').tBodies[0].rows].map(r => +r.cells[1].dataset.value)"


def test_sizes_sort_by_size(open_page: Any) -> None:
    """A size is a number and not a text: `>8 GPUs` comes last."""
    page = open_page()
    sizes = names(page, "#h-sizes ~ .groups table")
    head = page.locator("#h-sizes ~ .groups thead:visible button").first
    head.click()
    assert names(page, "#h-sizes ~ .groups table") == sizes
    head.click()
    assert names(page, "#h-sizes ~ .groups table") == sizes[::-1]


UNPAINTED = "figure => figure.querySelector('canvas') && !figure.classList.contains('painted')"
HIDDEN = "figure => getComputedStyle(figure.querySelector('image')).visibility === 'hidden'"


def test_nodes_show_a_picture_before_anybody_scrolls_there(open_page: Any) -> None:
    """The page's own picture stays until the canvas over it is drawn."""
    page = open_page(390)
    figures = page.locator("#nodes figure.gantt")
    assert figures.count() == 2
    for figure in figures.all():
        assert not (figure.evaluate(UNPAINTED) and figure.evaluate(HIDDEN))
    figures.last.scroll_into_view_if_needed()
    page.wait_for_selector("#nodes figure.gantt.painted")


def test_a_table_sorts(open_page: Any) -> None:
    """By value and not by text; the other way at the next press; accounts keep their tenants."""
    page = open_page()
    head = page.locator("table.headline").first.locator("th", has_text="mean waiting").locator("button")
    head.click()
    rising = page.evaluate(ORDER)
    head.press("Enter")
    falling = page.evaluate(ORDER)
    assert rising == sorted(rising)
    assert falling == rising[::-1]
    assert head.locator("..").get_attribute("aria-sort") == "descending"
    page.locator("#h-tenants ~ .groups .tree:visible .fold").first.click()
    page.locator("#h-tenants ~ .groups .tree:visible thead button").first.click()
    assert names(page, ".tree:visible")[:1] == ["lab"]
    open_rows = names(page, ".tree:visible")
    assert open_rows in (["lab", "lab/ann", "lab/bob", "ops/cron", "solo"], ["lab", "ops/cron", "solo"])


def test_a_table_filters(open_page: Any) -> None:
    page = open_page()
    page.locator("summary", has_text="All metrics").click()
    field = page.get_by_label("Filter the table")
    field.fill("P99_wait")
    assert names(page, "table:has(code)") == ["p99_waiting_s"]
    assert "1 of" in page.locator(".table-tools output").first.inner_text()
    field.fill("")
    assert len(names(page, "table:has(code)")) > 30


def test_values_of_several_units_have_no_order(open_page: Any) -> None:
    """Hours, shares and counts stand in one column of all metrics: only their names sort."""
    page = open_page()
    page.locator("summary", has_text="All metrics").click()
    table = page.locator("table:has(code)")
    assert table.locator("thead button").all_inner_texts() == ["Metric"]
    offered = page.locator("details:has(table code) .order option").all_text_contents()
    assert offered == ["Sort by", "Metric, A to Z", "Metric, Z to A"]
    table.locator("thead button").click()
    assert names(page, "table:has(code)") == sorted(names(page, "table:has(code)"))


def test_accounts_open_and_close(open_page: Any) -> None:
    page = open_page()
    assert set(names(page, ".tree:visible")) == {"lab", "ops/cron", "solo"}
    fold = page.locator(".tree:visible .fold").first
    fold.press("Enter")
    assert set(names(page, ".tree:visible")) == {"lab", "lab/ann", "lab/bob", "ops/cron", "solo"}
    assert fold.get_attribute("aria-expanded") == "true"
    fold.press("Enter")
    assert "lab/ann" not in names(page, ".tree:visible")


def test_one_number_of_a_group_at_a_time(open_page: Any) -> None:
    page = open_page()
    group = page.locator("#h-sizes ~ .groups")
    assert group.locator("table:visible caption").all_inner_texts() == ["Mean waiting"]
    group.locator(".tabs button", has_text="mean JCT").click()
    assert group.locator("table:visible caption").all_inner_texts() == ["Mean JCT"]


@pytest.mark.soak
def test_zoom_by_keys(open_page: Any) -> None:
    page = open_page()
    first = view(page)
    assert 0.3 < first[1] < 1, "to the last submission"
    area = page.locator("#utilisation .area")
    area.focus()
    area.press("+")
    closer = view(page)
    assert closer[1] - closer[0] == pytest.approx((first[1] - first[0]) / 2)
    widths = page.evaluate("[...document.querySelectorAll('.timed .plot')].map(p => p.viewBox.baseVal.width)")
    assert len(widths) >= 5
    assert widths == pytest.approx([1000 * (closer[1] - closer[0])] * len(widths)), "all figures follow"
    area.press("Shift+ArrowRight")
    assert view(page)[0] > closer[0]
    area.press("ArrowRight")
    tip = page.locator(".tip").inner_text()
    assert "fifo" in tip
    assert "%" in tip
    assert "Feb" in tip or "Mar" in tip
    assert "fifo" in page.locator(".unseen").inner_text(), "said aloud as well"
    area.press("Escape")
    assert page.locator(".tip").count() == 0
    area.press("0")
    assert view(page) == pytest.approx(first)
    page.get_by_role("button", name="whole run").click()
    assert view(page) == [0, 1]


def test_marks_tell_moments_apart_where_there_are_no_dates(chromium: Any, tmp_path: Path) -> None:
    """Two days into the trace every mark of a minute used to read "2d"."""
    trace: list[Row] = toy_trace(120, 7, 400_000.0, 9000.0, TENANTS)
    write_report([queue_by_count(trace, NODES, policy="fifo")], tmp_path / "report.html")
    page = chromium.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector("#nodes.drawn")
    for span_s, unit in ((60.0, "s"), (7200.0, "m")):
        page.evaluate("s => rota.zoom(190000 / rota.length, (190000 + s) / rota.length)", span_s)
        marks = page.evaluate("rota.marks(8).map(rota.mark)")
        assert len(set(marks)) == len(marks) >= 4
        assert all(mark.startswith("2d ") for mark in marks)
        assert any(mark.endswith(unit) for mark in marks)
    page.close()


def test_zoom_by_dragging(open_page: Any) -> None:
    page = open_page()
    first = view(page)
    page.locator("#queue").scroll_into_view_if_needed()
    box = page.locator("#queue .area").bounding_box()
    y = box["y"] + 50
    page.mouse.move(box["x"] + 0.25 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.75 * box["width"], y, steps=4)
    page.mouse.up()
    assert view(page) == pytest.approx([0.25 * first[1], 0.75 * first[1]], abs=0.01)
    page.mouse.dblclick(box["x"] + 10, y)
    assert view(page) == pytest.approx(first)


def test_zoom_by_touch(open_page: Any) -> None:
    """What is under each finger stays under it; one finger moves what is zoomed in."""
    page = open_page(390, has_touch=True)
    first = view(page)
    page.locator("#queue").scroll_into_view_if_needed()
    box = page.locator("#queue .area").bounding_box()
    touch = page.context.new_cdp_session(page)

    def fingers(kind: str, *across: float) -> None:
        points = [
            {"x": box["x"] + a * box["width"], "y": box["y"] + 60, "id": i} for i, a in enumerate(across)
        ]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", 0.4, 0.6)
    for step in range(1, 6):
        fingers("touchMove", 0.4 - 0.04 * step, 0.6 + 0.04 * step)
    fingers("touchEnd")
    length = first[1]
    near = [(0.5 - 0.5 / 3) * length, (0.5 + 0.5 / 3) * length]
    assert view(page) == pytest.approx(near, abs=0.02)
    fingers("touchStart", 0.8)
    for step in range(1, 6):
        fingers("touchMove", 0.8 - 0.1 * step)
    fingers("touchEnd")
    assert view(page) == pytest.approx([part + 0.5 * (near[1] - near[0]) for part in near], abs=0.03)


def test_a_bar_says_whose_it_is(open_page: Any) -> None:
    """Node, type, job, tenant, span; pressed, its job is followed under both policies."""
    page = open_page()
    page.select_option("#paint", "tenant")
    page.locator("figure.gantt").first.scroll_into_view_if_needed()
    job = page.evaluate("""async () => {
      const data = await rota.drawn(), run = data.runs[0];
      const i = run.length.indexOf(Math.max(...run.length)), lanes = data.gpus.reduce((a, b) => a + b);
      const part = ((run.start[i] + run.length[i] / 2) * data.unit) / data.length;
      return { id: data.jobs.id[run.job[i]], tenant: data.jobs.tenants[data.jobs.tenant[run.job[i]]],
        node: data.nodes[Math.floor(run.lane[i] / 4)], type: data.types[Math.floor(run.lane[i] / 4)],
        x: (part - rota.view[0]) / (rota.view[1] - rota.view[0]), y: (run.lane[i] + 0.5) / lanes };
    }""")
    page.get_by_role("button", name="whole run").click()
    whole = page.evaluate("[rota.view, document.querySelector('main').dataset.shown]")
    across = job["x"] * float(whole[1])
    area = page.locator("figure.gantt .area").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    place = {"x": across * box["width"], "y": job["y"] * box["height"]}
    area.hover(position=place)
    tip = page.locator(".tip").inner_text()
    for part in (job["id"], job["tenant"], job["node"], job["type"], " to ", "waited"):
        assert part in tip
    area.click(position=place)
    about = page.locator("#about")
    assert job["id"] in about.inner_text()
    assert about.locator("tbody tr").count() == 2


def test_where_rows_are_nodes_no_gpu_is_named(open_page: Any) -> None:
    page = open_page()
    page.locator("figure.gantt").first.scroll_into_view_if_needed()
    area = page.locator("figure.gantt .area").first
    box, nodes = area.bounding_box(), page.evaluate("rota.drawn().then((data) => data.nodes)")
    place = {"x": 0.3 * box["width"], "y": 0.75 / len(nodes) * box["height"]}
    tips = []
    for paint in ("full", "size"):
        page.select_option("#paint", paint)
        page.mouse.move(0, 0)
        area.hover(position=place)
        tips.append(page.locator(".tip").inner_text())
    full, jobs = tips
    assert full.splitlines()[1] == f"{nodes[0]} · V100"
    assert "of the GPUs held" in full
    assert jobs.splitlines()[1].startswith(f"{nodes[0]} · V100 · GPU ")


def test_a_job_is_sought(open_page: Any) -> None:
    page = open_page()
    page.fill("#job", "nobody")
    page.locator("#find button").click()
    assert "No job nobody" in page.locator("#about").inner_text()
    page.fill("#job", "j17")
    page.locator("#find button").click()
    page.locator("#about strong", has_text="j17").wait_for()
    submit, end = page.evaluate("""async () => {
      const data = await rota.drawn(), job = data.jobs.id.indexOf("j17"), submit = data.jobs.submit[job];
      const end = submit + Math.max(...data.lives.map((life) => life.end[job]));
      return [submit, end].map((at) => (at * data.unit) / data.length);
    }""")
    shown = view(page)
    assert shown[0] <= submit
    assert end <= shown[1]
    assert end - submit > 0.5 * (shown[1] - shown[0])


@pytest.mark.soak
def test_nodes_by_type(open_page: Any) -> None:
    page = open_page()
    page.select_option("#which", label="all P100")
    page.locator("figure.gantt").first.scroll_into_view_if_needed()
    labels = page.locator("figure.gantt .yticks").first
    labels.filter(has_not_text="n0").wait_for()
    assert "n4" in labels.inner_text()


def test_two_policies(open_page: Any) -> None:
    """The lists and the picture follow the choice; a job of the lists is a press away."""
    page = open_page()
    assert "wait less under sjf" in page.locator("#duel").inner_text()
    page.select_option("#from", label="sjf")
    assert "Choose two different" in page.locator("#duel").inner_text()
    page.select_option("#to", label="fifo")
    assert "wait less under fifo" in page.locator("#duel").inner_text()
    canvas = page.locator("#pairs canvas")
    canvas.scroll_into_view_if_needed()
    page.wait_for_timeout(200)
    colours = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Set();
      for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 3).join());
      return seen.size;
    }"""
    assert canvas.evaluate(colours) > 5
    first = page.locator("#duel button.job").first
    name = first.inner_text()
    first.click()
    assert name in page.locator("#about").inner_text()


def test_what_nobody_has_seen_is_printed(open_page: Any) -> None:
    """Figures are drawn when they come into sight; on paper all of them do."""
    page = open_page()
    drawn = "canvases => canvases.filter(canvas => canvas.width > 300).length"  # 300 if nobody drew
    canvases = page.locator("section:has(h2:text('Nodes over time')) canvas")
    assert canvases.evaluate_all(drawn) < canvases.count()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert canvases.evaluate_all(drawn) == canvases.count() > 0


def test_a_policy_is_hidden(open_page: Any) -> None:
    page = open_page()
    page.locator("[data-toggle='1']").click()
    assert names(page, "table.headline:has-text('mean waiting')") == ["fifo"]
    assert page.locator("#queue .curve:visible").count() == 1
    assert page.locator("#nodes figure.gantt:visible").count() == 1


def test_cards_on_a_phone(open_page: Any) -> None:
    """No column is cut off: each value stands in its policy's card, beside its name."""
    page = open_page(390)
    table = page.locator("table.headline").first
    assert table.locator("thead").is_hidden()
    columns = table.locator("tbody tr").first.locator("td")
    assert columns.count() > 5
    for cell in columns.all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        label = cell.evaluate("cell => getComputedStyle(cell, '::before').content")
        assert cell.get_attribute("data-label") in label
    menu = page.locator(".order select").first
    menu.select_option(label="mean waiting, highest first")
    assert page.evaluate(ORDER) == sorted(page.evaluate(ORDER), reverse=True)


def test_without_scripts(open_page: Any) -> None:
    """Everything is there; what only a script could serve is not."""
    page = open_page(java_script_enabled=False)
    assert page.locator("table.headline").first.is_visible()
    assert page.locator("figure.gantt image").count() == 2
    assert page.locator(".tree tbody tr:visible").count() > 3
    assert page.locator(".tools:visible, .zoom:visible, .table-tools:visible").count() == 0


@needs_axe
@pytest.mark.parametrize(("width", "scheme"), first(1, [(390, "dark"), (1440, "light")]))
def test_accessibility(open_page: Any, width: int, scheme: str) -> None:
    """What axe-core has to say of it: nothing."""
    assert faults_of(open_page(width, scheme)) == []
