"""Figures by name: every one in every kind of file, size and style."""

from __future__ import annotations

import re
import struct
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from report_toys import Row, record

from rota.errors import InputError, WorldError
from rota.model.record import Record
from rota.model.units import parse_length_in
from rota.reports.layout import text_width
from rota.reports.palette import DARK, LIGHT, STYLES
from rota.reports.shown import ALSO, DRAWINGS, Figure, figure
from rota.reports.window import parse_window

SVG = "{http://www.w3.org/2000/svg}"
DAY_S = 86400.0
POLICIES = ("fifo", "srtf", "multifactor:age=0.3,fairshare=0.7,size=0.2,qos=1,partition=heavy")


def run_of(policy: str, seed: int = 0, **facts: object) -> Record:
    """Forty jobs over four days, one of which changes its size, all promised, on nodes that come and go."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    intervals: list[Row] = []
    for job in range(40):
        submit_s = 0.1 * DAY_S * job
        start_s = submit_s + float(rng.lognormal(7, 2))
        finish_s = start_s + float(rng.lognormal(9, 1))
        rows.append(
            {"submit_s": submit_s, "start_s": start_s, "finish_s": finish_s, "waiting_s": start_s - submit_s}
            | {"gpus": 1, "resizes": int(job == 7), "promised_s": finish_s + float(rng.normal(600, 4000))}
            | {"duration_s": finish_s - start_s, "run_s": finish_s - start_s}
        )
        intervals.append(
            {"job": job, "start_s": start_s, "end_s": finish_s, "devices": [job % 8], "work": 1.0}
        )
    made = record(rows, intervals, policy=policy, provenance={"seed": seed}, **facts)  # type: ignore[arg-type]
    return replace(made, cluster={**made.cluster, "paid_nodes": [[0.0, 1.0], [DAY_S, 3.0], [3 * DAY_S, 2.0]]})


@pytest.fixture(scope="module")
def runs() -> list[Record]:
    return [run_of(policy, seed) for seed, policy in enumerate(POLICIES)]


def texts_of(svg: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(svg).findall(f".//{SVG}text")


def size_of(path: Path) -> tuple[float, float]:
    """Width and height of a picture in its own unit: inches of an SVG, pixels of a PNG, points of a PDF."""
    data = path.read_bytes()
    match path.suffix:
        case ".svg":
            root = ElementTree.fromstring(data)
            return float(root.attrib["width"].removesuffix("in")), float(
                root.attrib["height"].removesuffix("in")
            )
        case ".png":
            assert data.startswith(b"\x89PNG\r\n\x1a\n")
            return struct.unpack(">II", data[16:24])
    assert data.startswith(b"%PDF-")
    box = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)", data)
    assert box is not None
    return float(box[1]), float(box[2])


UNITS_OF_AN_INCH = {".svg": 1.0, ".png": 100.0, ".pdf": 72.0}


@pytest.mark.parametrize("ending", UNITS_OF_AN_INCH)
@pytest.mark.parametrize("name", [*DRAWINGS, *ALSO])
def test_every_figure_in_every_format(runs: list[Record], name: str, ending: str, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    shown = figure(name, runs)
    path = shown.write(tmp_path / f"{name}{ending}", width=3.3, height="63.5mm", dpi=100)
    unit = UNITS_OF_AN_INCH[ending]
    assert size_of(path) == pytest.approx((3.3 * unit, 2.5 * unit), abs=0.02 * unit)
    assert shown._repr_html_().startswith("<img")
    assert shown.chart.x.label
    assert shown.chart.y.label


@pytest.mark.parametrize("style", [None, *STYLES])
@pytest.mark.parametrize("width", [2.5, 3.3, None, 12.0])
@pytest.mark.parametrize("name", DRAWINGS)
def test_texts_stand_inside_and_apart(
    runs: list[Record], name: str, width: float | None, style: str | None, tmp_path: Path
) -> None:
    """Nothing is cut off at an edge, no two labels of an axis touch, and both axes have their titles."""
    svg = figure(name, runs).write(tmp_path / "a.svg", width=width, style=style).read_text()
    root = ElementTree.fromstring(svg)
    across, down = (float(side) for side in root.attrib["viewBox"].split()[2:])
    letter = float(re.search(r"font:([\d.]+)px", svg)[1])  # type: ignore[index]
    boxes = []
    for text in texts_of(svg):
        x, y, words = float(text.attrib["x"]), float(text.attrib["y"]), text.text or ""
        if "transform" in text.attrib:
            assert letter <= x <= across
            assert text_width(words, letter) / 2 <= min(y, down - y), words
            continue
        size = 1.25 * letter if text.get("class") == "title" else letter
        wide = text_width(words, size, bold=text.get("class") == "title")
        left = x - {"middle": 0.5, "end": 1.0}.get(text.get("text-anchor", ""), 0.0) * wide
        assert left >= 0, words
        assert left + wide <= across + 0.5, words
        assert 0 < y < down, words
        boxes.append((left, left + wide, y - 0.7 * letter, y, words))
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
            assert apart, f"{one[4]!r} stands over {other[4]!r}"
    said = " ".join(text.text or "" for text in texts_of(svg))
    chart = figure(name, runs).chart
    assert chart.x.label in said
    assert chart.y.label in said


@pytest.mark.parametrize("name", DRAWINGS)
def test_marks_stand_at_both_ends_of_what_is_drawn(runs: list[Record], name: str) -> None:
    """The axis of time ended at the last end of a job and its marks at the last submission."""
    svg = figure(name, runs).svg
    flat = re.search(r'class="grid" d="M([\d.]+) [\d.]+h([\d.]+)"', svg)
    assert flat is not None
    left, width = float(flat[1]), float(flat[2])
    marks = [float(x) for x in re.findall(r'class="grid" d="M([\d.]+) [\d.]+v', svg)]
    assert (min(marks), max(marks)) == pytest.approx((left, left + width), abs=0.2)
    curves = re.findall(r'class="curve c\d"[^>]* d="M([^"h]*)"', svg)
    drawn = [float(point.split()[0]) for curve in curves for point in curve.split("L")]
    assert left - 0.1 <= min(drawn)
    assert max(drawn) <= left + width + 0.1


def test_styles_have_the_colours_of_the_report(runs: list[Record], tmp_path: Path) -> None:
    shown = figure("completion", runs)
    drawn = {style: shown.write(tmp_path / "a.svg", style=style).read_text() for style in (None, *STYLES)}
    assert LIGHT[0] in drawn["light"]
    assert DARK[0] not in drawn["light"]
    assert DARK[0] in drawn["dark"]
    assert LIGHT[0] not in drawn["dark"]
    assert "prefers-color-scheme:dark" in drawn[None]
    assert all("prefers-color-scheme" not in drawn[style] for style in STYLES)
    assert "Job completion time" not in [text.text for text in texts_of(drawn["print"])]
    dashes = re.findall(r'class="curve c\d"(?: stroke-dasharray="([^"]*)")? d="[^"]*L', drawn["print"])
    assert len(set(dashes)) == len(runs), "apart without colour"


def test_what_was_not_measured_is_shaded(runs: list[Record]) -> None:
    window = parse_window("25%:75%")
    assert figure("queue", runs, window).svg.count('class="unmeasured"') == 2
    assert 'class="unmeasured"' not in figure("queue", runs).svg


def test_one_curve_for_each_policy_of_several_seeds() -> None:
    shown = figure("waiting", [run_of("fifo", seed) for seed in range(3)])
    assert [curve.name for curve in shown.chart.curves] == ["fifo"]


NOTHING = {
    "hours": "all jobs were submitted within a day",
    "slack": "no deadline was promised",
    "work": "no job is known to have changed its size",
    "kept": "no deadline was promised",
    "nodes": "all nodes were there all the time",
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_runs_without_anything_to_draw(name: str) -> None:
    """`nodes` of a cluster that stays as it is was a traceback."""
    plain = [record([{"submit_s": 0.0, "start_s": 5.0, "finish_s": 9.0, "gpus": 1, "duration_s": 4.0}])]
    if name not in NOTHING:
        assert isinstance(figure(name, plain), Figure)
        return
    with pytest.raises(InputError, match=f"nothing to draw for the figure '{name}': {NOTHING[name]}"):
        figure(name, plain)


def test_an_unknown_name_lists_those_there_are(runs: list[Record]) -> None:
    with pytest.raises(InputError, match=f"no figure 'waits'; expected one of {', '.join(DRAWINGS)}"):
        figure("waits", runs)


@pytest.mark.parametrize(
    ("path", "asked", "told"),
    [
        (
            "a.jpg",
            {},
            r"a.jpg: a figure cannot be written so; expected a name that ends in one of .svg, .png, .pdf",
        ),
        ("a", {}, "expected a name that ends in one of .svg"),
        ("a.b/c", {}, "expected a name that ends in one of .svg"),
        (
            "a.svg",
            {"style": "neon"},
            "argument 'style': 'neon' is no style; expected one of light, dark",
        ),
        ("a.svg", {"style": 3}, "argument 'style': 3 is no text"),
        ("a.svg", {"width": 760}, "argument 'width': 760 in is no size of a figure; expected 1 to 40 in"),
        ("a.svg", {"width": float("nan")}, "argument 'width': nan in is no size"),
        (
            "a.svg",
            {"height": "3 yards"},
            "argument 'height': '3 yards' is not a length; expected inches",
        ),
        (
            "a.svg",
            {"width": 1.0},
            r"argument 'width': 1 in is too small for this figure; expected [\d.]+ in",
        ),
        (
            "a.svg",
            {"height": 1.0},
            r"argument 'height': 1 in is too small for this figure; expected [\d.]+ in",
        ),
        ("a.svg", {"width": [3]}, r"argument 'width': \[3\] is no length"),
        ("a.png", {"dpi": 0}, "argument 'dpi': 0 is too few or too many; expected 30 to 2400"),
        (
            "a.png",
            {"width": 40, "dpi": 600},
            "argument 'dpi': 600 would make 24,000 pixels a side; expected",
        ),
    ],
)
def test_what_cannot_be_written(
    runs: list[Record], path: str, asked: dict[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=told):
        figure("completion", runs).write(tmp_path / path, **asked)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_size_that_is_named_is_enough(runs: list[Record], tmp_path: Path) -> None:
    shown = figure("work", runs)
    for side in ("width", "height"):
        with pytest.raises(InputError) as refused:
            shown.write(tmp_path / "a.svg", **{side: 1.0})  # type: ignore[arg-type]
        least = re.search(r"expected ([\d.]+) in", str(refused.value))
        assert least is not None
        shown.write(tmp_path / "a.svg", **{side: float(least[1])})  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", [".png", ".pdf"])
def test_without_the_extra_one_sentence_says_what_to_install(
    runs: list[Record], ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(WorldError, match=r"vl-convert, which is missing; `pip install '.\[figures\]'`"):
        figure("completion", runs).write(tmp_path / f"a{ending}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "inches"), [("3.3", 3.3), ("25.4mm", 1.0), ("5.08 cm", 2.0), ("36pt", 0.5), (".5in", 0.5)]
)
def test_lengths(text: str, inches: float) -> None:
    assert parse_length_in(text) == pytest.approx(inches)
