"""A job chooses the batch with the best goodput, from what it measures itself."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rota.knowledge.goodput import BatchLimits, GoodputProfile, Noise, StepFit, TrainingPhase
from rota.training import goodput, protocol, tuning
from rota.training.environment import Environment
from rota.training.goodput import BatchRange, OwnStepTimes, best_batch, gain
from rota.training.protocol import RankState
from rota.training.tuning import Tuning, Wishes
from training_kit import EXAMPLES, Gang, needs_torch, until

# Pollux, worked example 2: M0 64, sqr 1, var 4, so that the noise scale is 256 samples
GAINS = [(64, 1.0), (128, 1.6667), (512, 3.3333), (1024, 4.0)]


@pytest.mark.parametrize(("batch", "worth"), GAINS)
def test_gain_is_that_of_the_controller(batch: int, worth: float) -> None:
    assert gain(batch, 64, 256.0) == pytest.approx(worth, abs=5e-5)
    assert gain(batch, 64, 256.0) == pytest.approx(Noise(1.0, 4.0).gain(batch, 64))


@pytest.mark.parametrize(
    ("batch", "noise", "worth", "why"),
    [
        (128, None, 1.0, "unknown: a larger batch counts as one step"),
        (32, None, 0.5, "and a smaller one as its part of one"),
        (128, 0.0, 1.0, "no noise: a larger batch teaches nothing more"),
        (128, 1e12, 2.0, "nothing but noise: twice as much"),
    ],
)
def test_gain_at_its_ends(batch: int, noise: float | None, worth: float, why: str) -> None:
    assert gain(batch, 64, noise) == pytest.approx(worth), why


@pytest.mark.parametrize(
    ("limits", "workers", "first", "last", "why"),
    [
        (BatchRange(64, 32, 2048), 1, 64, 2048, "never below the first batch"),
        (BatchRange(64, 128, 2048), 3, 129, 2046, "equal parts for all workers"),
        (BatchRange(64, 64, 2048, 128), 2, 64, 256, "as much as a worker bears"),
        (BatchRange(64, 64, 64), 2, 64, 64, "one size"),
    ],
)
def test_choices(limits: BatchRange, workers: int, first: int, last: int, why: str) -> None:
    sizes = limits.choices(workers)
    assert (sizes[0], sizes[-1]) == (first, last), why
    assert all(size % workers == 0 for size in sizes)
    assert len(sizes) <= goodput.SIZES


def test_no_choice_is_none() -> None:
    assert BatchRange(64, 64, 2048, 16).choices(2) == []


def times_of(*measured: tuple[int, int, float, float]) -> OwnStepTimes:
    times = OwnStepTimes()
    for nodes, workers, batch, seconds in measured:
        times.add(nodes, workers, batch, seconds)
    return times


@pytest.mark.parametrize(
    ("measured", "line", "why"),
    [
        ([], None, "nothing was measured"),
        ([(1, 2, 64, 1.0)], (0.5, 0.5 / 32), "one size: half of the step grows with the batch"),
        ([(1, 2, 64, 1.0), (1, 2, 128, 1.5)], (0.5, 0.5 / 32), "two sizes"),
        ([(1, 2, 64, 1.0), (1, 1, 64, 1.0), (1, 1, 128, 1.64)], (0.68, 0.01), "as steep as elsewhere"),
        ([(1, 2, 64, 1.0), (1, 2, 128, 0.5)], (pytest.approx(0.75), 0.0), "never less for more samples"),
    ],
)
def test_lines(measured: list[tuple[int, int, float, float]], line: object, why: str) -> None:
    found = times_of(*measured).line(1, 2)
    assert found == (pytest.approx(line) if isinstance(line, tuple) else line), why


def test_what_was_measured_survives_a_checkpoint() -> None:
    times = times_of((1, 2, 64, 1.0), (2, 4, 128, 1.5))
    assert OwnStepTimes.of(times.plain()) == times


def test_the_best_batch_is_that_of_the_profile() -> None:
    """Steps of a profile without overlap are a line: job and scheduler choose the same batch."""
    fit, noise = StepFit(0.05, 0.002, 0.1, 0.01, 0.03, 0.002, 1.0), Noise(1.0, 4.0)
    limits = BatchLimits(64, 2048, 1, 2048)
    profile = GoodputProfile(limits, {"*": fit}, (TrainingPhase(float("inf"), noise),))
    best = profile.best(fit, noise, 1, 4)
    assert best is not None
    times = OwnStepTimes()
    for batch in (64, 128):
        times.add(1, 4, batch, fit.gradient_s(batch / 4) + fit.sync_s(1, 4))
    chosen = best_batch(BatchRange(64, 64, 2048), times, 1, 4, 64, 256.0)
    assert chosen == best[0].total(4)


def test_it_stays_where_little_is_to_be_gained() -> None:
    """Steps grow in proportion to the batch: a larger one only makes each sample worth less."""
    times = times_of((1, 1, 64, 0.64), (1, 1, 128, 1.28))
    assert best_batch(BatchRange(64, 64, 2048), times, 1, 1, 64, 256.0) == 64
    assert best_batch(BatchRange(64, 64, 2048), times, 1, 1, 64, None) == 64
    assert best_batch(BatchRange(64, 64, 2048), times, 1, 1, 66, 256.0) == 66, "not by 5 % better"


def tuned(noise: float | None = 256.0, **more: Any) -> tuple[Tuning, SimpleNamespace]:
    """One worker that knows the noise of its gradient."""
    optimizer = SimpleNamespace(param_groups=[{"lr": 0.1}])
    one = Tuning(Environment(**more), [optimizer], [], batch=64, rule="adascale")
    one.begin(0, Wishes(lambda: noise, (64.0, 2048.0), None, 1.0))
    return one, optimizer


def steps(one: Tuning, count: int, seconds: float, monkeypatch: pytest.MonkeyPatch, first: int = 0) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for step in range(first + 1, first + count + 1):
        clock[0] += seconds
        one.count(0)
        one.go_on(step)


def test_batch_and_rate_follow_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    one, optimizer = tuned()
    steps(one, tuning.FIRST_STEPS, 0.1, monkeypatch)
    assert one.batch is not None
    assert one.batch > 64
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * gain(one.batch, 64, 256.0))
    before = one.gained
    steps(one, 1, 0.1, monkeypatch, tuning.FIRST_STEPS)
    assert one.gained - before == pytest.approx(gain(one.batch, 64, 256.0))


def test_a_batch_that_is_named_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    one, optimizer = tuned()
    one.told(128)
    steps(one, 40, 0.1, monkeypatch)
    assert one.batch == 128
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 5.0 / 3.0)


def test_plain_loops_on_several_workers_keep_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have nothing to agree by."""
    one, _ = tuned(world_size=2)
    steps(one, 40, 0.1, monkeypatch)
    assert one.batch == 64


def test_it_continues_from_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = tuned()
    steps(one, 20, 0.1, monkeypatch)
    other, _ = tuned()
    other.restore(one.facts(), one.batch, 64)
    assert (other.batch, other.gained, other.facts()) == (one.batch, one.gained, one.facts())
    another = Tuning(Environment(), [], [], batch=128, rule="keep")
    another.restore(one.facts(), one.batch, 64)
    assert another.batch == 128, "the program asks for another one now"


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        (Wishes(lambda: 1.0, (128.0, 64.0), None, 1.0), "a batch from 128 to 64 samples is no range"),
        (Wishes(lambda: 1.0, (64.0, 128.0), 0.0, 1.0), "at most 0 samples of one worker"),
        (Wishes(False, None, None, 1.0), "learning_rate='adascale' goes by the noise of the gradient"),
    ],
)
def test_wishes_that_make_no_sense(wishes: Wishes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tuning(Environment(), [], [], batch=64, rule="adascale").begin(0, wishes)


def test_the_range_it_was_submitted_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_BATCH_RANGE", "128:4096")
    assert Environment.read().batch_range == (128.0, 4096.0)
    monkeypatch.setenv("ROTA_BATCH_RANGE", "many")
    with pytest.raises(ValueError, match="'many' in the environment is no range such as 128:4096"):
        Environment.read()


def test_what_it_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = tuned()
    steps(one, 3, 0.1, monkeypatch)
    status = RankState(step_s=0.1)
    one.tell(status)
    assert (status.batch_size, status.gradient_noise, status.gradient_s) == (64, 256.0, 0.1)


@needs_torch
@pytest.mark.soak
def test_a_gang_follows_and_one_worker_goes_on(tmp_path: Path) -> None:
    """Two ranks choose a larger batch at one step; one worker knows what they knew, and learns the rest."""
    command = [EXAMPLES / "ddp_noisy.py", "--batch-range", "32:512", "--every-s", "0.2", "--step-s", "0.01"]
    own = tmp_path / "own"
    with Gang(tmp_path / "2", [*command, "--steps", "100000"], 2, checkpoints=own) as gang:
        gang.wait_states("running", step=1)
        until(
            lambda: all(one.batch_size and one.batch_size > 32 for one in gang.states()),
            lambda: f"a larger batch; {gang.states()}",
        )
        said = gang.states()
        assert said[0].gradient_noise is not None
        assert said[0].gradient_s is not None
        number = gang.tell("batch_size", batch_size=64)
        gang.wait_states("running", sequence=number)
        assert {one.batch_size for one in gang.states()} == {64}
        gang.tell("leave")
        assert gang.wait() == [protocol.LEAVE_CODE] * 2, gang.log()
        (step,) = {one.step for one in gang.states()}
    with Gang(tmp_path / "1", [*command, "--steps", str(step + 400)], checkpoints=own) as gang:
        assert gang.wait() == [0], gang.log()
        (one,) = gang.states()
        assert one.batch_size is not None
        assert 32 < one.batch_size <= 512
        assert one.step < step + 400, "a step was worth more than one"
        assert f"{step} (epoch" in gang.log()
