"""A result in a notebook: an HTML fragment that is whole, escaped and without scripts."""

from __future__ import annotations

from html.parser import HTMLParser

from report_toys import four_policies

import rota
from play import trace_of
from rota.reports.compare import compare
from rota.reports.likeness import Calibration
from rota.reports.name_breaks import breakable
from rota.reports.report import brief
from rota.reports.summary import summarise

EVIL = "<script>alert(1)</script>"


class Fragment(HTMLParser):
    """Checks that tags nest; counts them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "wbr":
            self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_policy_has_a_row() -> None:
    runs = four_policies(60, (8,) * 4, span_s=43_200.0, mean_s=7200.0)
    text = brief(compare([summarise(run) for run in runs]), Calibration(EVIL), [EVIL])
    tags = Fragment(text).tags
    assert all(f"{breakable(run.policy)}</th>" in text for run in runs)
    assert (tags.count("tr"), tags.count("script"), tags.count("style")) == (1 + len(runs), 0, 0)
    assert EVIL not in text


def test_a_result_shows_itself() -> None:
    result = rota.simulate(trace_of("A 4x100 B 8x50@10 C 2x30@20"), cluster="1x8", policies="fifo,srtf")
    text = result._repr_html_()
    assert "a job waits" in text
    assert "Uncalibrated" in text


def test_one_run_shows_itself_too() -> None:
    """In a line at a prompt, as a table in a notebook; it counts what the comparison counted."""
    trace = trace_of("A 4x100 B 8x50@10 C 2x30@20 D 1x1000@1")
    result = rota.simulate(trace, cluster="1x8", policies="fifo,srtf", measure="0%:5%")
    run = result["srtf"]
    assert repr(run) == "<Run of srtf: 4 jobs on 1x8 (8 GPUs in 1 node)>"
    text = run._repr_html_()
    Fragment(text)
    assert "srtf: a job waits" in text
    assert "fifo" not in text
    mean_jct = next(line for line in result.comparison.lines if line.policy == "srtf").cells["mean_jct_s"]
    assert f">{mean_jct.text}" in text
