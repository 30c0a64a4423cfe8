"""The partial allocation auction: worked examples of systems/themis.md, and what it promises."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rota.solvers.auction import LEAST_VALUE, AuctionStep, Bid, auction, fractions_kept, hand_out, kept_of
from tiers import examples


def bid(elapsed_s, work, alone_s, most):
    """Values 1/rho of 0 to `most` equal GPUs."""
    return Bid({(0,): 0.0} | {(n,): alone_s / (elapsed_s + work / n) for n in range(1, most + 1)})


X, Y, Z = bid(100, 400, 200, 4), bid(0, 800, 400, 4), bid(50, 200, 100, 2)
TWIN = bid(0, 100, 100, 4)


@pytest.mark.parametrize(
    ("bids", "gpus", "fair", "fractions", "kept"),
    [
        ([X, Y], 4, [2, 2], [1 / 2, 2 / 3], [1, 1]),
        ([X, Y, Z], 8, [2, 4, 2], [1.0, 2 / 3, 2 / 3], [2, 2, 1]),
        ([TWIN, TWIN], 4, [2, 2], [0.5, 0.5], [1, 1]),
        ([TWIN], 4, [4], [1.0], [4]),
        ([bid(100, 400, 200, 8), bid(0, 800, 400, 8), Z], 8, [2, 4, 2], [2 / 3, 5 / 9, 28 / 45], [1, 2, 1]),
    ],
)
def test_worked_examples(bids, gpus, fair, fractions, kept):
    outcome = auction(bids, (gpus,))
    assert outcome.fair == [(n,) for n in fair]
    assert outcome.fractions == pytest.approx(fractions)
    assert outcome.kept == kept


def test_whole_machines_go_to_those_who_lose_by_being_split():
    """Two machines of two GPUs; V is half as fast across both, I is not."""
    split = {(2, 0): 2.0, (0, 2): 2.0, (1, 1): 1.0}
    whole = {(2, 0): 2.0, (0, 2): 2.0, (1, 1): 2.0}
    nothing = {(0, 0): 0.0}
    outcome = auction([Bid(nothing | split), Bid(nothing | whole)], (2, 2))
    assert sorted(outcome.fair) == [(0, 2), (2, 0)]


def test_ties_take_the_fewest_and_favour_the_first():
    flat = Bid({(0,): 0.0, (1,): 1.0, (2,): 1.0})
    assert auction([flat, flat, flat], (2,)).fair == [(1,), (1,), (0,)]


@pytest.mark.parametrize(
    ("number", "fraction", "groups", "kept"),
    [
        (4, 0.5, (), 2),
        (3, 1 / 3, (), 1),  # not 0 for a third that is rounded down
        (3, 0.1, (), 0),
        (8, 0.9, (2, 4, 8), 4),
        (2, 0.1, (2, 4), 2),  # the only gang is left
        (0, 1.0, (2, 4), 0),
    ],
)
def test_what_is_kept_is_of_use(number, fraction, groups, kept):
    assert kept_of(number, fraction, groups) == kept


# -- truthfulness and its kin, on small cases ------------------------------------------------------------

ELAPSED = st.floats(0.0, 500.0)
WORK = st.floats(50.0, 2000.0)
BIDDERS = st.lists(
    st.tuples(ELAPSED, WORK, st.floats(50.0, 2000.0), st.integers(1, 4)), min_size=2, max_size=3
)


def fractional(bids, gpus):
    """What each is left with if things could be cut: c times its bundle, at the value in proportion."""
    outcome = auction(bids, (gpus,))
    return [
        c * max(one.values[bundle], LEAST_VALUE)
        for one, bundle, c in zip(bids, outcome.fair, outcome.fractions, strict=True)
    ]


@examples(60)
@given(BIDDERS, st.integers(2, 6), st.floats(0.1, 10.0), st.integers(0, 1))
def test_exaggerating_changes_nothing(apps, gpus, factor, who):
    bids = [bid(*app) for app in apps]
    louder = list(bids)
    louder[who] = Bid({bundle: value * factor for bundle, value in bids[who].values.items()})
    assume(min(v for b in louder for bundle, v in b.values.items() if bundle != (0,)) > 10 * LEAST_VALUE)
    # Nothing is worth LEAST_VALUE to everybody, so that a factor tells nothing only among those served.
    truth, lie = auction(bids, (gpus,)), auction(louder, (gpus,))
    if all(bundle != (0,) for bundle in truth.fair):
        assert lie.fair == truth.fair
        assert lie.fractions == pytest.approx(truth.fractions, rel=1e-6)


@examples(150)
@given(BIDDERS, st.integers(2, 6), ELAPSED, WORK)
def test_nobody_gains_by_lying(apps, gpus, elapsed_s, work):
    """Whatever the first says of itself, what it is left with is worth no more to it by its true values."""
    bids = [bid(*app) for app in apps]
    honest = fractional(bids, gpus)[0]
    said = bid(elapsed_s, work, apps[0][2], apps[0][3])
    outcome = auction([said, *bids[1:]], (gpus,))
    truth = max(bids[0].values[outcome.fair[0]], LEAST_VALUE)
    assert outcome.fractions[0] * truth <= honest * (1 + 1e-6)


@examples(100)
@given(BIDDERS, st.integers(3, 6))
def test_each_keeps_a_fair_part(apps, gpus):
    """With things to cut, c is at least 1/e; here it is at least a bundle's worth below that."""
    outcome = auction([bid(*app) for app in apps], (gpus,))
    assert all(0.0 < c <= 1.0 for c in outcome.fractions)
    assert sum(n for (n,) in outcome.fair) <= gpus


@examples(100)
@given(BIDDERS, st.integers(2, 6))
def test_nobody_could_be_better_off_at_the_same_product(apps, gpus):
    """No other division has a larger product: all are tried."""
    bids = [bid(*app) for app in apps]
    fair = auction(bids, (gpus,)).fair

    def product(bundles):
        return math.prod(max(b.values[x], LEAST_VALUE) for b, x in zip(bids, bundles, strict=True))

    best = product(fair)
    every = [()]
    for one in bids:
        every = [(*before, x) for before in every for x in one.values]
    assert all(
        product(bundles) <= best * (1 + 1e-8) for bundles in every if sum(n for (n,) in bundles) <= gpus
    )


# -- one group after another -----------------------------------------------------------------------------


class Equal:
    """A market of equal GPUs, from tables of bids."""

    def __init__(self, bids, gpus, group=1):
        self.bids, self.gpus, self.group = bids, gpus, group
        self.reset()

    def reset(self):
        self.left, self.has = self.gpus, [0] * len(self.bids)

    def step(self, bidder):
        has, values = self.has[bidder], self.bids[bidder].values
        more = has + self.group
        if (more,) not in values:
            return None
        before, after = (max(values[(n,)], LEAST_VALUE) for n in (has, more))
        return AuctionStep(math.log(after / before), self.group, self.group <= self.left)

    def take(self, bidder):
        self.has[bidder] += self.group
        self.left -= self.group


@examples(100)
@given(BIDDERS, st.integers(2, 8))
def test_equal_gpus_one_at_a_time_are_handed_out_as_by_the_tables(apps, gpus):
    """The values of equal GPUs grow by less each time, so that the greatest gain is right."""
    bids = [bid(*app) for app in apps]
    market = Equal(bids, gpus)
    everybody = range(len(bids))
    handed = hand_out(market, everybody)
    outcome = auction(bids, (gpus,))
    best = sum(
        math.log(max(b.values[x], LEAST_VALUE) / LEAST_VALUE) for b, x in zip(bids, outcome.fair, strict=True)
    )
    assert sum(handed.gains.values()) == pytest.approx(best, abs=1e-6)
    market.reset()
    fractions = fractions_kept(market, list(everybody), lambda bidder: True, steps=99)
    if [(has,) for has in market.has] == outcome.fair:  # and no other of equal worth
        assert [fractions[i] for i in fractions] == pytest.approx([outcome.fractions[i] for i in fractions])


@examples(100)
@given(BIDDERS, st.integers(2, 8), st.integers(1, 2))
def test_the_gap_is_a_bound(apps, gpus, group):
    bids = [bid(*app) for app in apps]
    handed = hand_out(Equal(bids, gpus, group), range(len(bids)))
    useful = [Bid({b: v for b, v in one.values.items() if b[0] % group == 0}) for one in bids]
    fair = auction(useful, (gpus,)).fair
    best = sum(
        math.log(max(b.values[x], LEAST_VALUE) / LEAST_VALUE) for b, x in zip(useful, fair, strict=True)
    )
    assert sum(handed.gains.values()) <= best + 1e-6
    assert best <= sum(handed.gains.values()) + handed.gap + 1e-6


def test_many_winners_pay_by_the_price_of_the_last_gpu():
    bids = [X, Y, Z]
    exact = fractions_kept(Equal(bids, 6), [0, 1, 2], lambda bidder: True, steps=99)
    bounded = fractions_kept(Equal(bids, 6), [0, 1, 2], lambda bidder: True, steps=2)
    assert exact.keys() == bounded.keys()
    assert all(bounded[bidder] <= exact[bidder] + 1e-9 for bidder in exact)
