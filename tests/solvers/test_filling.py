"""Progressive filling: the divisible examples of the card of DRF, and the properties of the paper."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rota.solvers.dominant_share import DominantShare
from rota.solvers.filling import fluid, nash

PAPER = (9.0, 18.0)  # CPUs and GB of the paper's example
A, B = (1.0, 4.0), (3.0, 1.0)


@pytest.mark.parametrize(
    ("capacity", "demands", "options", "tasks", "why"),
    [
        (PAPER, (A, B), {}, (3, 2), "a3: both dominant shares are 2/3"),
        (PAPER, (A, B), {"combine": np.sum}, (2.52, 2.16), "a3: asset fairness"),
        (PAPER, (A, (4, 1)), {}, (3, 1.5), "a5: B lies and runs 1.5 true tasks instead of 2"),
        ((2, 2), ((1, 0), (2, 1), (0, 1)), {}, (1, 0.5, 1.5), "a6: C needs no CPU and goes on"),
        ((2, 2), ((2, 1), (0, 1)), {}, (2 / 3, 4 / 3), "a6: A has left, and C loses"),
        (PAPER, (A, B), {"most": (1, np.inf)}, (1, 8 / 3), "a8: A has one task only"),
        (PAPER, (A, B), {"weights": (2, 1)}, (54 / 13, 18 / 13), "x = 3 y, memory full"),
        (
            PAPER,
            (A, B),
            {"weights": ((2, 2), (1, 1))},
            (54 / 13, 18 / 13),
            "a weight per resource",
        ),
        ((12,), ((1,), (2,), (3,)), {}, (4, 2, 4 / 3), "one resource: max-min"),
    ],
)
def test_fluid(
    capacity: tuple[float, ...],
    demands: object,
    options: dict[str, object],
    tasks: tuple[float, ...],
    why: str,
) -> None:
    """Divisible allocations computed by hand."""
    assert fluid(capacity, demands, **options) == pytest.approx(tasks), why  # type: ignore[arg-type]


def test_nash() -> None:
    """Example a3: A 45/11 tasks and B 18/11; a resource nobody fills has no price."""
    assert nash(PAPER, (A, B)) == pytest.approx((45 / 11, 18 / 11), rel=1e-6)
    assert nash((10, 100), ((1, 1), (2, 1))) == pytest.approx((5, 2.5), rel=1e-6)


def test_who_needs_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="need nothing"):
        fluid((1, 1), ((1, 0), (0, 0)))
    with pytest.raises(ValueError, match="above 0"):
        DominantShare((4, 0))
    with pytest.raises(ValueError, match="above 0"):
        DominantShare((4,), {"a": Fraction(0)})


def test_shares_are_exact() -> None:
    """2/9 of one resource ties with 4/18 of the other; 0.1 three times is 0.3."""
    shares = DominantShare((9, 18))
    shares.charge("a", (2, 0))
    shares.charge("b", (0, 4))
    assert shares.key("a") == shares.key("b")
    assert shares.share("a") == Fraction(2, 9)
    shares.refund("a", (1, 0))
    assert shares.share("a") == Fraction(1, 9)
    assert shares.key("a", (1, 0)) == shares.key("b"), "what it would be"
    assert shares.key("b", (0, -4)) == 0, "and what it would be with less"
    assert shares.share("b") == Fraction(2, 9)
    shares.clear()
    assert shares.share("b") == 0


def test_weights_divide_before_the_maximum() -> None:
    """With a weight per resource another resource may dominate."""
    shares = DominantShare((10, 10), {"a": (Fraction(4), Fraction(1, 2)), "b": Fraction(2)})
    shares.charge("a", (8, 2))
    shares.charge("b", (8, 2))
    shares.charge("c", (8, 2))
    assert [shares.share(user) for user in "abc"] == [Fraction(2, 5), Fraction(2, 5), Fraction(4, 5)]


# -- properties of the paper ----------------------------------------------------------------------


def _cases() -> list[tuple[np.ndarray, np.ndarray]]:
    """Random clusters of equal capacity 1 and users with positive demands."""
    rng = np.random.default_rng(4)
    cases = []
    for _ in range(300):
        users, resources = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        cases.append((np.ones(resources), rng.uniform(0.01, 1.0, (users, resources))))
    return cases


def test_sharing_incentive_and_pareto_efficiency() -> None:
    """Nobody does better with its own part of the cluster; everybody is stopped by a full resource."""
    for room, need in _cases():
        tasks = fluid(room, need)
        used = tasks @ need
        assert (used <= room + 1e-9).all()
        assert (tasks >= (room / len(need) / need).min(axis=1) - 1e-9).all()
        assert ((need > 0) & (used >= room - 1e-9)).any(axis=1).all()


def test_envy_freeness() -> None:
    """Nobody could run more tasks on what another one holds."""
    for room, need in _cases():
        tasks = fluid(room, need)
        for mine in range(len(need)):
            for other in range(len(need)):
                assert (tasks[other] * need[other] / need[mine]).min() <= tasks[mine] + 1e-9


def test_strategy_proofness() -> None:
    """Nobody runs more of its true tasks by stating other needs."""
    rng = np.random.default_rng(5)
    for room, need in _cases():
        honest = fluid(room, need)
        liar = int(rng.integers(len(need)))
        told = need.copy()
        told[liar] *= rng.uniform(0.3, 3.0, need.shape[1])
        held = fluid(room, told)[liar] * told[liar]
        assert (held / need[liar]).min() <= honest[liar] + 1e-9


def test_population_monotonicity_with_positive_demands() -> None:
    """When a user leaves nobody else loses."""
    for room, need in _cases():
        if len(need) > 1:
            assert (fluid(room, need[1:]) >= fluid(room, need)[1:] - 1e-9).all()
