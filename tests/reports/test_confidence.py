"""Intervals of what a run's numbers come to in other mixtures of the same weeks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from report_toys import four_policies

from rota.model.record import Record
from rota.reports.compare import compare
from rota.reports.comparison_table import comparison_text
from rota.reports.confidence import DRAWS, edges_of, likely, mixtures
from rota.reports.report import render
from rota.reports.summary import summarise_all


@pytest.fixture(scope="module")
def runs() -> list[Record]:
    return four_policies(400, [8, 8], span_s=40_000.0, mean_s=1200.0)


def test_an_interval_holds_its_number(runs: list[Record]) -> None:
    comparison = compare(summarise_all(runs, confidence=True))
    for line in comparison.lines:
        for key in ("mean_jct_s", "mean_waiting_s", "p99_jct_s", "utilisation"):
            cell = line.cells[key]
            assert cell.likely is not None
            assert cell.value is not None
            assert cell.likely[0] <= cell.value <= cell.likely[1]
            assert cell.likely[0] < cell.likely[1]


def test_changes_are_paired(runs: list[Record]) -> None:
    """A policy differs from itself by nothing, however much the weeks differ."""
    from dataclasses import replace

    twins = [runs[0], replace(runs[0], policy="copy")]
    first, copy = compare(summarise_all(twins, confidence=True)).lines
    assert first.cells["mean_jct_s"].likely == copy.cells["mean_jct_s"].likely
    assert copy.cells["mean_jct_s"].likely_ratio == (1.0, 1.0)


def test_only_on_request_and_not_of_few_jobs(runs: list[Record]) -> None:
    few = four_policies(40, [8, 8], span_s=4_000.0, mean_s=1200.0)
    for summaries in (summarise_all(runs), summarise_all(few, confidence=True)):
        assert all(cell.likely is None for line in compare(summaries).lines for cell in line.cells.values())


def test_shown_beside_the_numbers(runs: list[Record]) -> None:
    summaries = summarise_all(runs, confidence=True)
    text = comparison_text(compare(summaries), 150)
    assert re.search(r"\[\d+m( \d+s)?, \d+.*\]", text)
    assert "between these lie 95% of 300 mixtures" in " ".join(text.split())
    page = render(runs, summaries=summaries)
    assert compare(summaries).lines[1].cells["mean_jct_s"].margin in page
    low, high = summaries[0].to_dict()["likely"]["mean_jct_s"]  # type: ignore[index]
    assert low < summaries[0].values["mean_jct_s"] < high
    assert "likely" not in summarise_all(runs)[0].to_dict()


def test_mixtures_are_of_whole_blocks_and_repeat() -> None:
    edges = edges_of(np.arange(1000.0))
    drawn = mixtures([len(edges) + 1])
    assert len(edges) + 1 == 20
    assert len(drawn.picks) == DRAWS
    assert all(len(picked) == 20 and picked.max() < 20 for picked in drawn.picks)
    assert all((a == b).all() for a, b in zip(drawn.picks, mixtures([20]).picks, strict=True))
    assert likely(np.array([np.nan])) == (-np.inf, np.inf)
