"""Each sample of an epoch once, whatever happens to the workers; learning-rate rules; gradient noise."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.training import learning_rate
from rota.training.page import Page
from rota.training.protocol import Directive, command, prepare, read_directive
from rota.training.sampler import Sampler, permutation, window
from rota.training.statistics import GradientNoise


@given(
    samples=st.integers(0, 60),
    plan=st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 4), st.integers(0, 3)), min_size=1
    ),
)
def test_every_sample_once(samples: int, plan: list[tuple[int, int, int, int]]) -> None:
    """Workers, batch, steps before the change, batches drawn ahead: any sequence of them."""
    used: list[int] = []
    state = Sampler(samples, 1, seed=3, rank=0, workers=1).state_dict()
    for workers, batch, steps, ahead in [*plan, (1, 7, 100, 0)]:
        gang = [Sampler(samples, batch, rank=rank, workers=workers) for rank in range(workers)]
        for one in gang:
            one.load_state_dict(state)
        batches = [iter(one) for one in gang]
        drawn: list[list[list[int]]] = [[] for _ in gang]
        for _ in range(steps):
            for mine, iterator in zip(drawn, batches, strict=True):
                while len(mine) <= ahead and (found := next(iterator, None)) is not None:
                    mine.append(found)
            if not all(drawn):
                assert not any(drawn), "one worker has a batch, another has none: DDP would hang"
                break
            step = [mine.pop(0) for mine in drawn]
            assert all(step)
            together = {sample for part in step for sample in part}
            copied = len(together) < workers
            assert sum(map(len, step)) == len(together) * (workers if copied else 1)
            used.extend(together)
            assert {one.done() for one in gang} == {len(together)}
        assert len({one.consumed for one in gang}) == 1
        state = gang[0].state_dict()
    assert Counter(used) == Counter(range(samples))


def test_serial_loading_by_hand() -> None:
    """12 samples in steps of 4: two workers do one step, four continue; nothing repeated or lost."""
    two = [Sampler(12, 4, shuffle=False, rank=rank, workers=2) for rank in range(2)]
    assert [next(iter(one)) for one in two] == [[0, 2], [1, 3]]
    two[0].done()
    four = [Sampler(12, 4, shuffle=False, rank=rank, workers=4) for rank in range(4)]
    for one in four:
        one.load_state_dict(two[0].state_dict())
    assert [next(iter(one)) for one in four] == [[4], [5], [6], [7]]


def test_orders_differ_by_epoch_and_seed_and_stay() -> None:
    """The order is part of the checkpoint's meaning: it must never change."""
    assert list(permutation(8, 0, 0)) == [4, 1, 5, 2, 0, 3, 7, 6]
    assert list(permutation(50, 0, 1)) != list(permutation(50, 0, 0)) != list(permutation(50, 1, 0))
    assert list(permutation(50, 4, 2)) == list(permutation(50, 4, 2))


def test_ramp() -> None:
    """Elan's worked example 2: a rate of 0.1 that is to be four times as large over 100 iterations."""
    rates = [0.1 * learning_rate.ramp(4.0, step) for step in (0, 25, 50, 100, 150)]
    assert rates == pytest.approx([0.1, 0.175, 0.25, 0.4, 0.4])
    with pytest.raises(ValueError, match="over 0 steps"):
        learning_rate.ramp(4.0, 1, over=0)


def test_lengths_and_epochs() -> None:
    sampler = Sampler(10, 4, rank=0, workers=1)
    assert (len(sampler), [len(batch) for batch in sampler]) == (3, [4, 4, 2])
    sampler.set_epoch(1)
    assert (sampler.consumed, len(sampler)) == (0, 3)
    dropping = Sampler(10, 4, drop_last=True, rank=0, workers=1)
    assert (len(dropping), [len(batch) for batch in dropping]) == (2, [4, 4])
    assert Sampler(10, 5, rank=0, workers=2).local_batch_size == 3
    assert list(window(8, 4, 10, 2, 3)) == [8, 9]


def test_a_new_batch_size_holds_from_the_next_batch() -> None:
    sampler = Sampler(20, 4, shuffle=False, rank=0, workers=1)
    batches = iter(sampler)
    next(batches)
    sampler.batch_size = 6
    assert next(batches) == [4, 5, 6, 7, 8, 9]
    assert [sampler.done(), sampler.done(), sampler.done()] == [4, 6, 0]


@pytest.mark.parametrize(
    ("rule", "old", "new", "factor"),
    [
        ("keep", 32, 64, 1.0),
        ("linear", 32, 64, 2.0),
        ("linear", 64, 16, 0.25),
        ("sqrt", 16, 64, 2.0),
        (lambda old, new: new - old, 3, 8, 5.0),
    ],
)
def test_learning_rate(rule: learning_rate.Rule, old: float, new: float, factor: float) -> None:
    assert learning_rate.factor(rule, old, new) == factor


@pytest.mark.parametrize(
    ("rule", "old", "new", "message"),
    [
        ("cubic", 1, 2, "unknown learning-rate rule 'cubic'; known are keep, linear, sqrt"),
        ("linear", 0, 2, "both must be positive"),
        (lambda old, new: -1, 1, 2, "the learning-rate function gave -1.0"),
    ],
)
def test_learning_rate_errors(rule: learning_rate.Rule, old: float, new: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learning_rate.factor(rule, old, new)


@pytest.mark.soak
def test_scale_reaches_optimizers_and_schedulers() -> None:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    learning_rate.scale([optimizer, scheduler, {}], 4.0)
    assert (optimizer.param_groups[0]["lr"], scheduler.base_lrs) == (2.0, [2.0])
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.2)


def test_gradient_noise_by_hand() -> None:
    """Signal 4 and noise 96 in samples: |g|^2 = 4 + 96/8 at b = 8, |G|^2 = 4 + 96/32 at B = 32."""
    noise = GradientNoise(8, world_size=4)
    assert noise.scale is None
    for _ in range(10):
        noise.add(16.0, 7.0)
    assert noise.scale == pytest.approx(24.0)
    alone = GradientNoise(8, world_size=1)  # two steps in a row: |G|^2 = 4 + 96/16
    alone.begin_with(7.0)
    assert alone.scale == 7.0
    alone.add(16.0, 10.0)
    assert alone.scale == pytest.approx(24.0)


def test_gradient_noise_of_one_rank() -> None:
    """Gradients whose noise scale is 32 samples; pairs across a change of the batch do not count."""
    torch = pytest.importorskip("torch")
    draw = torch.Generator().manual_seed(1)
    weight = torch.nn.Parameter(torch.zeros(64))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    noise = GradientNoise(16, world_size=1)
    noise.watch_alone(optimizer)
    for step in range(400):
        batch = 16 if step < 200 else 64
        noise.resize(batch)
        samples = 1 / 8 + torch.randn(batch, 64, generator=draw) * (32 / 64) ** 0.5
        weight.grad = samples.mean(dim=0)
        optimizer.step()
    assert noise.scale == pytest.approx(32.0, rel=0.2)


def test_half_an_agreement_is_none(tmp_path: object) -> None:
    """Words 1 and 2 count only with their check word."""
    prepare(str(tmp_path))
    page = Page(str(tmp_path))
    assert page.agreed() is None
    page.agree(3, 0)
    assert page.agreed() == (3, 0)
    page.words[1] = 9
    assert page.agreed() is None
    page.close()


def test_unknown_directives(tmp_path: object) -> None:
    with pytest.raises(ValueError, match="unknown directive 'dance'"):
        command(str(tmp_path), Directive("dance"))
    assert read_directive(str(tmp_path)) is None


def test_another_dataset_is_refused() -> None:
    """A position in one dataset means nothing in another."""
    with pytest.raises(ValueError, match="the checkpoint's epoch has 80 samples, this dataset 48"):
        Sampler(48, 4, rank=0, workers=1).load_state_dict(Sampler(80, 4, rank=0, workers=1).state_dict())


@pytest.mark.parametrize(
    ("samples", "batch", "rank", "workers", "message"),
    [(10, 0, 0, 1, "batch_size=0 for 10 samples"), (10, 2, 3, 3, "rank 3 of 3 workers")],
)
def test_sampler_errors(samples: int, batch: int, rank: int, workers: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampler(samples, batch, rank=rank, workers=workers)
