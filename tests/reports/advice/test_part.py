"""The part of a trace that counts."""

from __future__ import annotations

import re

import pytest

from play import trace_of
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.reports.advice.part import part_of
from rota.reports.sample import Sample
from rota.worlds.simulated.run import run

TRACE = trace_of(" ".join(f"J{i} 1x10@{100 * i}" for i in range(101)))
CASES = [
    # window       most     jobs that count, of those replayed
    (None,         1000,    101, 101),
    ("2000s",      1000,    21,  25),
    ("20%:40%",    1000,    21,  25),
    (None,         10,      10,  11),
    ("0%:50%",     20,      20,  23),
    (":1000s",     1000,    11,  11),
]  # fmt: skip


@pytest.mark.parametrize(("window", "most", "counted", "replayed"), CASES)
def test_jobs_before_it_fill_the_cluster(window: str | None, most: int, counted: int, replayed: int) -> None:
    part = part_of(TRACE, window, most)
    assert len(part.trace) == replayed
    record = run("fifo", part.trace, parse_cluster("1x4"))
    assert len(Sample.of(record, part.measured)) == counted
    assert bool(part.said) == (counted < len(TRACE))


WRONG = [
    ("soon", 10, "--window: 'soon'"),
    ("0d", 10, "--window: '0d' is no stretch of time"),
    ("40%:20%", 10, "--window: '40%:20%' ends before it starts"),
    ("200000s:300000s", 10, "--window: no job was submitted in '200000s:300000s'"),
    (None, 0, "--most-jobs: 0 jobs"),
]


@pytest.mark.parametrize(("window", "most", "sentence"), WRONG)
def test_what_is_no_part(window: str | None, most: int, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        part_of(TRACE, window, most)
