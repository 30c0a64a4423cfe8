"""Shares on a device never sum to more than 1.0 if claims are made only where nothing stands in the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.engines.shared.ledger import Claim, Ledger
from strategies import seconds  # noqa: F401  (loads the profile)

claims = st.builds(
    Claim,
    devices=st.sets(st.integers(0, 3), max_size=4).map(lambda found: tuple(sorted(found))),
    share=st.sampled_from([1 / 3, 0.25, 0.5, 1.0]) | st.floats(0.01, 1.0),
    opportunistic=st.booleans(),
)
moves = st.lists(st.tuples(st.integers(0, 5), st.none() | claims), max_size=40)


@given(moves)
def test_never_more_than_a_whole_device(moves: list[tuple[int, Claim | None]]) -> None:
    ledger = Ledger()
    for row, claim in moves:
        if claim is None:
            ledger.free((row, 1))
        elif not ledger.obstacles((row, 1), claim):
            ledger.hold((row, 1), claim)
        assert ledger.overbooked(range(4)) == []
        for device in range(4):
            count = sum(
                one.share for one in ledger.claims.values() if device in one.devices and not one.opportunistic
            )
            assert ledger.used(device) == pytest.approx(count)


@given(moves, claims)
def test_obstacles_are_the_others_and_only_where_it_does_not_fit(
    moves: list[tuple[int, Claim | None]], wanted: Claim
) -> None:
    ledger = Ledger({(row, 1): claim for row, claim in moves if claim is not None})
    for device, holders in ledger.obstacles((0, 1), wanted).items():
        assert device in wanted.devices
        assert holders
        assert (0, 1) not in holders
        assert ledger.used(device, [(0, 1)]) + wanted.share > 1.0


@pytest.mark.parametrize(
    ("held", "wanted", "free"),
    [
        ([Claim((0,), 0.5)], Claim((0,), 0.5), True),
        ([Claim((0,), 0.5)], Claim((0,), 0.6), False),
        ([Claim((0,), 1 / 3)] * 2, Claim((0,), 1 / 3), True),
        ([Claim((0,))], Claim((1,)), True),
        ([Claim((0,))], Claim((0, 1)), False),
        ([Claim((0,))], Claim((0,), opportunistic=True), True),
        ([Claim((0,), opportunistic=True)], Claim((0,)), True),
        ([Claim((0,))], Claim(()), True),
    ],
)
def test_fits(held: list[Claim], wanted: Claim, free: bool) -> None:
    ledger = Ledger({(row, 1): claim for row, claim in enumerate(held)})
    assert (not ledger.obstacles((9, 1), wanted)) is free


def test_what_runs_is_on_record_even_if_it_does_not_fit() -> None:
    ledger = Ledger()
    for row in (0, 1):
        ledger.hold((row, 1), Claim((0,)))
    assert ledger.overbooked([0, 1]) == [0]
    assert ledger.holders(0) == [(0, 1), (1, 1)]
