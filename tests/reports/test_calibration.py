"""A calibration compares whole distributions, by group: its figure is 0 only if all of them are alike."""

from __future__ import annotations

import numpy as np
import pytest
from report_toys import record

from rota.model.record import Record
from rota.reports.calibration import OTHERS, calibration
from rota.reports.likeness import Calibration, misplaced_s

HOUR = 3600.0


def replayed(ours_s: np.ndarray, seen_s: np.ndarray, gpus: object = 1, tenant: object = "a") -> Calibration:
    """The calibration of a replay that waits `ours_s` against jobs that waited `seen_s`."""

    def waiting(waits: np.ndarray, policy: str) -> Record:
        n = len(waits)
        sizes, tenants = np.broadcast_to(gpus, n).tolist(), np.broadcast_to(tenant, n).tolist()
        jobs = [
            {
                "submit_s": 0.0,
                "start_s": float(wait),
                "finish_s": float(wait) + 100.0,
                "waiting_s": float(wait),
                "gpus": size,
                "tenant": name,
            }
            for wait, size, name in zip(waits, sizes, tenants, strict=True)
        ]
        return record(jobs, [], policy=policy, observed=policy == "observed")

    return calibration([waiting(np.asarray(seen_s), "observed"), waiting(np.asarray(ours_s), "fifo")], "fifo")


def test_equal_means_with_another_tail_do_not_agree() -> None:
    """Means alone said 0 %: 17 h in the tail against 41 h."""
    seen = np.full(200, 1 * HOUR)
    seen[:5] = 41 * HOUR
    ours = np.full(200, 1 * HOUR)
    ours[:5] = 17 * HOUR
    ours[5:] += 5 * 24 * HOUR / 195
    found = replayed(ours, seen)
    assert found.errors is not None
    assert found.errors["mean_waiting_s"] == pytest.approx(0.0)
    assert found.errors["p99_waiting_s"] == pytest.approx(17 / 41 - 1)
    assert found.groups[0].unlike == ("p50", "p90", "p99")
    assert found.error == pytest.approx(240 / 400)
    assert found.agrees is False
    assert "waits about as long as your jobs did on average, but not the same jobs do" in found.text
    assert "p99 17h against 1d 17h" in found.text
    assert "60% of the waiting is misplaced" in found.text


def test_equal_distributions_with_other_jobs_do_not_agree() -> None:
    """Large jobs waited 24 h and small ones 6 h; the replay has it the other way round."""
    gpus = np.repeat([1, 16], 30)
    seen, ours = np.repeat([6 * HOUR, 24 * HOUR], 30), np.repeat([24 * HOUR, 6 * HOUR], 30)
    found = replayed(ours, seen, gpus=gpus)
    assert found.groups[0].unlike == ()
    assert found.groups[0].misplaced_s == 0
    assert found.error == pytest.approx(18 / 15)
    assert found.agrees is False
    assert [group.name for group in found.unexplained()] == ["1 GPU", ">8 GPUs"]
    assert "jobs of >8 GPUs (wait 6h against 1d)" in found.text


def test_what_is_alike_agrees() -> None:
    waits = np.random.default_rng(0).exponential(HOUR, 300)
    found = replayed(waits[::-1], waits)
    assert (found.error, found.agrees, found.unexplained()) == (0.0, True, ())
    assert "0% of the waiting is misplaced" in found.text
    assert "below 1%" in replayed(waits * 1.001, waits).text


@pytest.mark.parametrize("seed", range(20))
def test_the_figure_is_zero_only_if_every_group_is_alike(seed: int) -> None:
    """And at least what it is over all jobs, whatever the groups."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 200))
    gpus, tenant = rng.choice([1, 2, 8, 16], n), rng.choice(["a", "b", "c"], n)
    seen = rng.exponential(HOUR, n)
    ours = seen.copy()
    first, other = (np.flatnonzero(gpus == size)[0] for size in (1, 16))
    ours[[first, other]] = seen[[other, first]]
    found = replayed(ours, seen, gpus=gpus, tenant=tenant)
    assert found.groups[0].misplaced_s == pytest.approx(0.0)
    assert found.error is not None
    assert found.error > 0.0
    assert found.misplaced_s >= misplaced_s(ours, seen)
    for group in found.groups[1:]:
        rows = gpus if group.kind == "size" else tenant
        names = {1: "1 GPU", 2: "2-4 GPUs", 8: "5-8 GPUs", 16: ">8 GPUs"}
        inside = np.array([names.get(one, one) == group.name for one in rows.tolist()])
        if group.name != OTHERS:
            assert group.jobs == inside.sum()
            assert group.misplaced_s == pytest.approx(misplaced_s(ours[inside], seen[inside]))


def test_small_tenants_are_one_group() -> None:
    """Single jobs decide nothing: nine of a tenant are pooled, ten are not."""
    tenant = np.repeat(["nine", "ten", "one", "many"], [9, 10, 1, 40])
    found = replayed(np.zeros(60), np.zeros(60), tenant=tenant)
    assert [(group.name, group.jobs) for group in found.groups if group.kind == "tenant"] == [
        ("many", 40),
        ("ten", 10),
        (OTHERS, 10),
    ]


def test_a_page_shows_the_tenants_with_most_misplaced_waiting() -> None:
    tenant = np.repeat([f"t{number:02}" for number in range(20)], 10)
    compared = replayed(np.repeat(np.arange(20) * HOUR, 10), np.full(200, HOUR), tenant=tenant)
    assert sum(group.kind == "tenant" for group in compared.groups) == 20
    shown = [group.name for group in compared.shown if group.kind == "tenant"]
    assert shown == [f"t{number:02}" for number in range(8, 20)]


def test_waits_of_less_than_a_minute_are_nothing() -> None:
    found = replayed(np.full(50, 30.0), np.zeros(50))
    assert found.agrees
    assert found.error is None
    assert "no job waited, 30s on average in the replay" in found.text
