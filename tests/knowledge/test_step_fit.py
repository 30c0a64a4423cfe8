"""Fits of step times: Pollux's worked example of priors, and fits of many jobs at once."""

from __future__ import annotations

import numpy as np
import pytest

from rota.knowledge.step_fit import (
    FLOOR,
    PARAMETERS,
    Samples,
    StepSample,
    fit_steps,
    gradient_and_sync,
    objective,
    pad,
    predict,
)
from rota.knowledge.step_times import MOST_SAMPLES, StepTimes
from rota.model.columns import Floats

ALONE = StepSample(nodes=1, gpus=1, local=64, passes=0, step_s=0.178)
LOCAL = [
    ALONE._replace(gradient_s=0.178),
    StepSample(1, 2, 64, 0, 0.1805, 0.178),
    StepSample(1, 4, 64, 0, 0.1812, 0.178),
]


def test_what_was_never_seen_is_perfect() -> None:
    """Pollux, worked example 5: from one observation on one GPU the model predicts perfect scaling."""
    (fit,) = fit_steps(pad([[ALONE]]))
    assert fit[:2] == pytest.approx([0.089, 0.001391], abs=1e-6)
    assert fit[2:6] == pytest.approx([FLOOR] * 4, rel=0.11)
    assert fit[6] == pytest.approx(1.001)
    sizes = [(1, 1), (1, 2), (2, 8)]
    throughputs = [gpus * 64 / float(predict(fit, nodes, gpus, 64)) for nodes, gpus in sizes]
    assert throughputs == pytest.approx([359.55, 719.10, 2876.40], rel=1e-5)


def test_local_points() -> None:
    """The same example goes on: the fit reproduces all times, and across nodes it is a tenth worse."""
    samples = pad([LOCAL])
    fit = fit_steps(samples)
    times = predict(fit, samples.nodes, samples.gpus, samples.local)[0]
    assert times == pytest.approx([0.178, 0.1805, 0.1812], rel=0.005)
    assert fit[0, 2:4] == pytest.approx(1.1 * fit[0, 4:6])
    before = fit.copy()
    before[0, 2:4] = FLOOR
    assert objective(before, samples)[0] <= 0.0105


def truths(jobs: int) -> Floats:
    """Parameters of so many jobs around plausible ones."""
    random = np.random.default_rng(7)
    fits = np.array([0.05, 0.002, 0.10, 0.01, 0.03, 0.002, 1.0]) * np.exp(random.uniform(-1, 1, (jobs, 7)))
    fits[:, 6] = random.uniform(1.0, 3.0, jobs)
    return fits


def samples_of(fit: Floats, seed: int) -> list[StepSample]:
    """What a job with this fit would measure, with and without accumulation."""
    random = np.random.default_rng(seed)
    samples = []
    for _ in range(int(random.integers(1, 20))):
        gpus, local, passes = (int(random.integers(*between)) for between in ((1, 16), (16, 128), (0, 3)))
        nodes = 1 if gpus == 1 else int(random.integers(1, min(gpus, 4) + 1))
        gradient_s = float(gradient_and_sync(fit, nodes, gpus, local)[0])
        step_s = float(predict(fit, nodes, gpus, local)) + passes * gradient_s
        samples.append(StepSample(nodes, gpus, local, passes, step_s, gradient_s))
    return samples


def test_many_jobs_at_once() -> None:
    """Nobody's fit leaves more unexplained than the truth does, and neighbours do not change it."""
    true = truths(40)
    own = [samples_of(fit, seed) for seed, fit in enumerate(true)]
    together = fit_steps(pad(own))
    left, best = objective(together, pad(own)), objective(true, pad(own))
    told = np.array([_tell_all(samples) for samples in own])
    assert told.sum() > 20
    assert (left <= best + 1e-4)[told].all()
    (alone,) = fit_steps(pad(own[5:6]))
    assert alone == pytest.approx(together[5], rel=1e-6)


def _tell_all(samples: list[StepSample]) -> bool:
    """True if they leave no parameter to a prior."""
    across, within = (
        [sample for sample in samples if sample.gpus > 1 and (sample.nodes > 1) is wide]
        for wide in (True, False)
    )
    return bool(across) and bool(within) and len({sample.local for sample in samples}) > 1


def test_a_fit_with_its_predecessor_is_no_worse() -> None:
    own = pad([samples_of(fit, seed) for seed, fit in enumerate(truths(10))])
    first = fit_steps(own)
    again = fit_steps(own, np.concatenate((first[:5], np.full((5, PARAMETERS), np.nan))))
    assert (objective(again, own) <= objective(first, own) + 1e-9).all()


def test_no_samples() -> None:
    """A job of which nothing was seen gets the start, not a wrong number."""
    none = fit_steps(pad([[], [ALONE]]))
    assert np.isfinite(none).all()
    assert none[1, 0] == pytest.approx(0.089)
    assert pad([]).step_s.shape == (0, 1)
    assert isinstance(pad([[ALONE]]), Samples)


# -- over time -------------------------------------------------------------------------------------


def test_a_fit_is_made_anew_on_news_only() -> None:
    """What the fit says already, give or take 5 %, is none."""
    times = StepTimes[str]()
    assert times.fit("a") is None
    assert times.add("a", ALONE), "the first is"
    first = times.fit("a")
    assert not times.add("a", ALONE), "the same again is none"
    assert not times.add("a", StepSample(1, 2, 64, 0, 0.1805)), "1.4 % off what is predicted"
    assert times.fit("a") is first
    assert times.add("a", StepSample(1, 4, 64, 0, 0.24)), "a third slower than perfect scaling"
    assert times.refit() == ["a"]
    second = times.fit("a")
    assert second is not None
    assert float(predict(second, 1, 4, 64)) == pytest.approx(0.24, rel=0.06)
    assert times.most_gpus("a") == 4


def test_every_sample_is_news_if_it_is_to_be() -> None:
    times = StepTimes[str](news=0.0)
    times.add("a", ALONE)
    times.refit()
    assert times.add("a", StepSample(1, 2, 64, 0, 0.1780001))


def test_a_fit_does_not_depend_on_the_order_of_fits() -> None:
    step_by_step, at_once = StepTimes[str](news=0.0), StepTimes[str](news=0.0)
    for sample in LOCAL:
        step_by_step.add("a", sample)
        step_by_step.refit()
        at_once.add("a", sample)
    assert np.array_equal(step_by_step.fits(["a", "b"]), at_once.fits(["a", "b"]), equal_nan=True)


def test_a_slower_step_comes_through_slowly() -> None:
    """The same configuration is averaged; what makes no sense is not taken."""
    times = StepTimes[str]()
    times.add("a", ALONE)
    times.add("a", ALONE._replace(step_s=0.278))
    assert times.samples("a")[0].step_s == pytest.approx(0.178 + 0.3 * 0.1)
    assert not times.add("a", ALONE._replace(step_s=float("nan")))
    assert not times.add("b", ALONE._replace(local=0.0))
    times.forget("a")
    assert times.fit("a") is None
    assert times.most_gpus("a") == 0


def test_samples_are_bounded() -> None:
    times = StepTimes[str]()
    for local in range(16, 16 + 2 * MOST_SAMPLES):
        times.add("a", ALONE._replace(local=float(local)))
    assert len(times.samples("a")) == MOST_SAMPLES
    assert times.samples("a")[0].local == 16 + MOST_SAMPLES
