"""Synergy's optimistic profile: the memory axis is computed, the cores are sampled."""

from __future__ import annotations

import pytest

from rota.errors import InputError
from rota.knowledge.host_profile import CacheModel, sample_cores

MODEL = CacheModel(data_gb=140, disk_mb_s=500, memory_gb_s=10, compute_s={1: 600, 3: 200, 6: 110})


@pytest.mark.parametrize(
    ("cached", "epoch_s", "disk_mb_s"),
    [(1.0, 200, 0), (0.5, 200, 371.4), (0.3, 204.9, 500), (0.2, 232.2, 500)],
)
def test_the_memory_model(cached: float, epoch_s: float, disk_mb_s: float) -> None:
    """Worked example 1."""
    assert MODEL.epoch_s(3, cached) == pytest.approx(epoch_s, abs=0.05)
    assert MODEL.disk_wanted_mb_s(3, cached) == pytest.approx(disk_mb_s, abs=0.05)


def test_speeds_are_relative_to_the_share() -> None:
    speeds = MODEL.speeds((3, 70))
    assert speeds.speed(3, 70) == 1.0
    assert speeds.speed(6, 140) == pytest.approx(200 / 110)
    assert speeds.best() == (6, pytest.approx(98)), "with 70 % cached storage keeps up with six cores"
    assert speeds.disk_at(3, 70) == pytest.approx(371.4, abs=0.05)


@pytest.mark.parametrize(
    ("epochs", "measured", "why"),
    [
        ({24: 100, 12: 105, 6: 190, 5: 230, 4: 290, 3: 380, 2: 500, 1: 900}, 8, "6 is slower: one by one"),
        ({24: 100, 12: 100, 6: 100, 3: 100, 1: 100}, 5, "flat: halved to the end"),
    ],
)
def test_few_numbers_of_cores_are_measured(epochs: dict[int, float], measured: int, why: str) -> None:
    assert sample_cores(lambda cores: epochs[int(cores)], 24) == dict(sorted(epochs.items())), why
    assert len(epochs) == measured


def test_cores_are_counted_for_each_gpu() -> None:
    assert list(sample_cores(lambda cores: 10.0, 8, gpus=2)) == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CacheModel(140, 0, 10, {1: 2}), "above 0"),
        (lambda: MODEL.speeds((2, 62.5)), "no epoch was measured with 2 cores"),
        (lambda: sample_cores(lambda _: 1.0, 1, gpus=2), "1 cores are fewer than 2 GPUs"),
    ],
)
def test_nonsense_is_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
