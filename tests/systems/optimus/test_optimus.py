"""Optimus: shares by savings of time, intervals, resizes that pay, who knows how much is left."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Table
from rota.model.cluster import parse_cluster
from rota.model.record import Record
from rota.scheduler.guard.live_rules import NoPreemption
from rota.scheduler.policy import parse_policy
from rota.traces.elastic import make_elastic, parse_sizes
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting, prepare


def run(policy: str, jobs: str, cluster: str = "1x8", sizes: str = "1:8", **setting: Any) -> Record:
    """Jobs that can run on any number of GPUs, twice as fast on twice as many."""
    return play(policy, make_elastic(trace_of(jobs), parse_sizes(sizes)), cluster, Setting(**setting))


def held(record: Record) -> list[tuple[str, int]]:
    """Job and GPUs of each interval, in order of their beginning."""
    frame = record.intervals.sort("start_s", "job_id")
    return list(zip(frame["job_id"], (len(of) for of in frame["devices"]), strict=True))


def test_shares_by_savings() -> None:
    """200 and 800 GPU-seconds of work: a unit saves w / (k (k + 1)), which makes 3 and 5 of 8 GPUs.

    By speed alone each would have four.
    """
    assert held(run("optimus", "A 2x100 B 2x400")) == [("A", 3), ("B", 5)]


SCENES = [
    # policy                                jobs                      ends                              why
    ("optimus", "A 2x100 B 2x400", {"A": 200 / 3, "B": 160.0}, "nothing is decided before 600"),
    ("optimus:event_driven=yes", "A 2x100 B 2x400", {"A": 200 / 3, "B": 125.0}, "B has all when A ends"),
    (
        "optimus:event_driven=yes,restart_s=40",
        "A 2x100 B 2x400",
        {"A": 200 / 3, "B": 160.0},
        "which saves 35 s: less than it costs",
    ),
    ("optimus", "A 8x700 B 1x10@1", {"A": 600 + 100 * 8 / 7, "B": 610.0}, "B waits for the interval"),
    ("optimus:interval_s=60", "A 8x100 B 1x10@1", {"A": 60 + 320 / 7, "B": 70.0}, "a shorter one"),
]


@pytest.mark.parametrize(("policy", "jobs", "ends", "why"), SCENES, ids=[row[-1] for row in SCENES])
def test_intervals(policy: str, jobs: str, ends: dict[str, float], why: str) -> None:
    assert finishes(run(policy, jobs)) == pytest.approx(ends), why


def test_everybody_has_one_before_anybody_has_two() -> None:
    """Ten jobs on eight GPUs: the first eight run, however long the last is, and end together."""
    jobs = " ".join(f"J{n} 1x100" for n in range(9)) + " J9 1x100000"
    record = run("optimus", jobs)
    assert held(record)[:8] == [(f"J{n}", 1) for n in range(8)]
    assert finishes(record)["J8"] == 100 + 100 / 1, "the others begin an interval of their own"


LEFT = [
    # seconds left of A and B, losses heard   shares of 8   why
    ([100.0, 400.0], [99, 99], (3, 5), "as they are"),
    ([np.nan, 400.0], [0, 99], (4, 4), "nothing is known of A: it is like the others"),
    ([np.nan, np.nan], [0, 0], (4, 4), "nor of B"),
    ([0.0, 400.0], [99, 99], (1, 7), "A should have been done: it keeps the one it has"),
    ([400.0, 380.0], [99, 99], (4, 4), "B saves a little less"),
    ([400.0, 390.0], [3, 99], (4, 4), "A is young"),
]


@pytest.mark.parametrize(("left_s", "points", "shares", "why"), LEFT, ids=[row[-1] for row in LEFT])
def test_what_is_known_of_the_rest(
    left_s: list[float], points: list[int], shares: tuple[int, int], why: str
) -> None:
    known = {"left_s": np.array(left_s), "steps": np.full(2, np.nan), "points": np.array(points, dtype=float)}
    provider = Given(Knowledge.CONVERGENCE, Table(known))
    record = run("optimus", "A 1x1000 B 1x1000", providers=[provider])
    assert tuple(gpus for _, gpus in held(record)[:2]) == shares, why


@pytest.mark.parametrize(("points", "first"), [((99, 99), "A"), ((3, 99), "B")])
def test_a_young_job_counts_for_a_little_less(points: tuple[int, int], first: str) -> None:
    """Three GPUs: the third goes to A, with more left, unless its losses say little yet."""
    known = {"left_s": np.array([400.0, 390.0]), "steps": np.full(2, np.nan), "points": np.array(points)}
    record = run(
        "optimus", "A 1x1000 B 1x1000", "1x3", providers=[Given(Knowledge.CONVERGENCE, Table(known))]
    )
    assert dict(held(record)[:2])[first] == 2


def test_a_job_lies_in_equal_parts_on_few_nodes() -> None:
    """Six GPUs on two nodes of four: three and three, not four and two."""
    record = play("optimus", "A 6x10", "3x4")
    assert [tuple(of) for of in record.intervals["devices"]] == [(0, 1, 2, 4, 5, 6)]


@pytest.mark.parametrize("source", ["oracle", "predicted"])
def test_losses_predict_well_enough(source: str) -> None:
    """With a fit through noisy losses in place of the truth the mean is a little worse, not much."""
    random = Random(5)
    jobs = " ".join(
        f"J{n} {random.choice((1, 2, 4))}x{random.randint(300, 9000)}@{n * 200}" for n in range(25)
    )
    policy = "optimus:event_driven=yes"
    truth = run(policy, jobs, "2x8").jobs["finish_s"].mean()
    record = run(policy, jobs, "2x8", knowledge={"convergence": source})
    assert record.jobs["finish_s"].mean() == pytest.approx(truth, rel=0.15)
    assert record.provenance["knowledge"]["convergence"] == source


def test_better_than_sizes_that_users_chose() -> None:
    """Mean completion time at a medium load: 1.3 times better than with fixed sizes, as the paper finds."""
    random = Random(1)
    jobs = " ".join(
        f"J{n} {random.choice((1, 2, 4))}x{random.randint(300, 9000)}@{n * 700}" for n in range(40)
    )
    costs = parse_costs("start=30s,restore=30s")
    own = run("optimus:event_driven=yes", jobs, "2x8", sizes="1:16", costs=costs)
    fixed = play("fifo:skip=yes", jobs, "2x8", Setting(costs=costs))
    mean = {
        name: (of.jobs["finish_s"] - of.jobs["submit_s"]).mean() for name, of in (("own", own), ("f", fixed))
    }
    assert mean["f"] / mean["own"] > 1.3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("interval_s=0", "interval_s=0; expected 1 or more"),
        ("young_factor=1.5", "young_factor=1.5; expected 0 to 1"),
        ("restart_s=inf", "restart_s=inf; expected 0 or more"),
    ],
)
def test_wrong_parameters(options: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_policy(f"optimus:{options}")


def test_what_the_cluster_refuses_is_not_in_the_way_of_others() -> None:
    """A may not shrink from four of five GPUs: half a minute after it was refused B starts on the fifth."""
    trace = trace_of("A 1x8000 B 1x8000@10", gpus_min=1, gpus_max=4)
    loop, _ = prepare(parse_policy("optimus").make(), trace, parse_cluster("1x5"), Setting())
    loop.rules, loop.strict = NoPreemption(lambda: {0}), False
    loop.run(629.0)
    assert [len(grant.devices) for grant in loop.state.grants.values()] == [4]
    loop.run(640.0)
    assert {row: len(grant.devices) for row, grant in loop.state.grants.items()} == {0: 4, 1: 1}
