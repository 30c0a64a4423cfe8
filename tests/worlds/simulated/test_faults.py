"""When nodes are lost and when they are back."""

from __future__ import annotations

import math

import numpy as np
import pytest

from play import finishes, play
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.worlds.simulated.faults import Fault, parse_faults, random_faults, timeline
from rota.worlds.simulated.run import Setting

LOST, BACK = False, True

TIMES = [
    # faults                                                timeline: moment, node, back?           why
    ([Fault(2, 5.0, 9.0)], [(5.0, 2, LOST), (9.0, 2, BACK)], "lost, then back"),
    (
        [Fault(1, 5.0, 9.0), Fault(0, 9.0, 12.0)],
        [(5.0, 1, LOST), (9.0, 1, BACK), (9.0, 0, LOST), (12.0, 0, BACK)],
        "returns come before losses of the same moment",
    ),
    ([Fault(0, 5.0, math.inf)], [(5.0, 0, LOST)], "lost for ever"),
    (
        [Fault(0, 5.0, 20.0), Fault(0, 8.0, 12.0), Fault(0, 20.0, 25.0)],
        [(5.0, 0, LOST), (25.0, 0, BACK)],
        "lost again while it is lost",
    ),
    (
        [Fault(0, 8.0, 9.0), Fault(0, 1.0, 2.0)],
        [(1.0, 0, LOST), (2.0, 0, BACK), (8.0, 0, LOST), (9.0, 0, BACK)],
        "in order of time, however they are given",
    ),
    ([Fault(0, 5.0, 5.0)], [(5.0, 0, LOST), (5.0, 0, BACK)], "lost for no time"),
    (
        [Fault(1, 5.0, 5.0), Fault(0, 1.0, 5.0)],
        [(1.0, 0, LOST), (5.0, 0, BACK), (5.0, 1, LOST), (5.0, 1, BACK)],
        "another one is back in that moment",
    ),
    ([], [], "none"),
]


@pytest.mark.parametrize(("faults", "expected", "why"), TIMES, ids=[row[2] for row in TIMES])
def test_timeline(faults: list[Fault], expected: list[tuple[float, int, bool]], why: str) -> None:
    assert timeline(faults) == expected, why


def test_a_node_that_is_repaired_at_once_is_there_again() -> None:
    """`--faults mtbf=10s,repair=0s`: the job is thrown back and goes on, in the same moment."""
    faults = parse_faults("mtbf=10s,repair=0s", parse_cluster("1x1"), 60.0, 1)
    assert len(faults) > 1
    record = play("fifo", "A 1x50", "1x1", Setting(faults=faults))
    assert finishes(record) == {"A": 50}
    assert record.jobs["starts"].to_list() == [1 + sum(fault.at_s < 50 for fault in faults)]


def test_random_faults_have_the_means_they_are_given() -> None:
    """400 nodes over 1,000 h, one loss in 100 h, 5 h of repair: means within 5 %."""
    cluster = parse_cluster("400x1")
    faults = random_faults(cluster, 1000.0, np.random.default_rng(1), mtbf_s=100.0, repair_s=5.0)
    assert len(faults) == pytest.approx(400 * 1000 / 105, rel=0.05)
    assert np.mean([fault.until_s - fault.at_s for fault in faults]) == pytest.approx(5.0, rel=0.05)
    by_node = [[fault for fault in faults if fault.node == node] for node in range(400)]
    assert all(a.until_s < b.at_s for of_one in by_node for a, b in zip(of_one, of_one[1:], strict=False))  # noqa: RUF007


def test_the_seed_decides() -> None:
    cluster = parse_cluster("4x1")
    first, again, other = (parse_faults("mtbf=1d,repair=1h", cluster, 1e6, seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("repair=4h", "has no mtbf"),
        ("mtbf=0s", "mtbf is 0"),
        ("mtfb=1d", "mtbf"),
        ("mtbf=1s,repair=1s", "2,000,000 losses in .*; expected at most 100,000"),
    ],
)
def test_faults_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_faults(text, parse_cluster("4x1"), 1e6, 0)
