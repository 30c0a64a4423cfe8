"""Rounds of a window by counts: worked examples of systems/shockwave.md, and the program with binaries."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from window_binary import solve_binary
from windows import made_up, window_of

from rota.model.columns import Ints
from rota.solvers.window import PlanningWindow, log_utility, solve_window
from rota.solvers.window_rounds import lay_out, mean_index
from tiers import examples


@pytest.mark.parametrize(
    ("progress", "utility"),
    [(0, -13.81551), (0.1, -7.71247), (0.3, -1.26286), (0.5, -0.71356), (0.9, -0.11157), (1, 0.0)],
)
def test_utility_is_the_logarithm_in_pieces(progress, utility):
    """Card example 2."""
    assert log_utility(np.array(progress)) == pytest.approx(utility, abs=1e-5)


A, B = (1, 0.5, 500.0, 250.0), (1, 0.0, 400.0, 400.0)


@pytest.mark.parametrize(
    ("weight", "counts", "value"),
    [(1e-6, [0, 3], -0.168354), (1e-3, [1, 2], -0.380090), (10, [1, 2], -2000.18)],
)
def test_the_makespan_weighs_in(weight, counts, value):
    """Card example 4: on one GPU, three rounds of 100 s."""
    window = window_of([A, B], 1, 3, weight=weight)
    found = solve_window(window)
    assert found.rounds.tolist() == counts
    assert found.value == pytest.approx(value, rel=1e-5, abs=2e-6)
    assert found.bound == pytest.approx(found.value)
    assert solve_binary(window, gap=0.0).runs.sum(axis=1).tolist() == counts


def test_progress_in_the_window_alone_is_another_utility():
    """The naive one: B's start and A's second half would count alike, and A got a round at any weight."""
    naive = [(1, 0.0, 250.0, 250.0), (1, 0.0, 400.0, 400.0)]
    assert solve_window(window_of(naive, 1, 3, weight=1e-6)).rounds.tolist() == [1, 2]


def test_what_is_demanded():
    assert solve_window(window_of([A, B], 1, 3, weight=1e-6, least=[1, 0])).rounds.tolist() == [1, 2]
    assert solve_window(window_of([A, B], 1, 3, least=[2, 2])) is None, "four rounds of three"
    assert solve_window(window_of([A, B], 2, 3, least=[4, 0])) is None, "more rounds than there are"
    assert solve_window(window_of([A, B], 1, 3, weight=0.0, least=[2, 2])) is None


def test_a_large_makespan_weight_does_not_drown_welfare():
    """The worst time left is C's whatever happens to A and B; who of them runs is decided all the same."""
    jobs = [(1, 0.9, 1e3, 1e2), (1, 0.0, 1e3, 1e3), (1, 0.1, 1e6, 9e5)]
    found = solve_window(window_of(jobs, 2, 1, weight=10.0))
    assert found.rounds.tolist() == [0, 1, 1]


def test_the_limit_of_nodes_keeps_what_was_found():
    window = made_up(5, 40, 12, 20, weight=1e-6)
    whole, cut = solve_window(window), solve_window(window, nodes=1)
    assert not whole.is_cut
    assert cut.is_cut
    assert cut.value <= whole.value <= cut.bound + 1e-12
    assert window.sizes @ cut.rounds <= window.capacity * window.rounds


def _windows(jobs: int, capacity: int, rounds: int) -> st.SearchStrategy[PlanningWindow]:
    return st.builds(
        made_up,
        st.integers(0, 10_000),
        st.integers(1, jobs),
        st.integers(1, capacity),
        st.integers(1, rounds),
        round_s=st.just(1000.0),
        weight=st.sampled_from([0.0, 1e-6, 1e-4, 1e-3, 10.0]),
    )


@given(_windows(5, 6, 4))
def test_no_counts_are_worth_more(window):
    """Against all counts within the capacity of the whole window."""
    found = solve_window(window)
    every = itertools.product(range(window.rounds + 1), repeat=len(window.sizes))
    room = window.capacity * window.rounds
    best = max(window.value(np.array(n)) for n in every if window.sizes @ np.array(n) <= room)
    assert found.value == pytest.approx(best, rel=1e-12, abs=1e-12)
    assert not found.is_cut


@examples(25)
@given(_windows(7, 8, 6))
def test_laid_out_it_is_worth_what_binaries_reach(window):
    """What the reformulation costs on small windows: nothing."""
    layout = lay_out(window, solve_window(window).rounds)
    exact = solve_binary(window, gap=0.0)
    assert window.value(layout.counts) >= exact.value - 1e-7 * max(1.0, abs(exact.value))


@pytest.mark.parametrize("seed", range(40))
def test_demands_are_laid_out_where_binaries_can(seed):
    """Some jobs demand rounds: a plan is found whenever there is one, and worth as much."""
    rng = np.random.default_rng(seed)
    jobs, capacity, rounds = (int(n) for n in rng.integers(1, (8, 9, 7)))
    window = made_up(seed, jobs, capacity, rounds, round_s=1000.0, weight=[0.0, 1e-6, 1e-3, 10.0][seed % 4])
    window = replace(window, least=rng.integers(0, rounds + 1, jobs) * (rng.random(jobs) < 0.35))
    exact, counts = solve_binary(window, gap=0.0), solve_window(window)
    if exact is None:
        assert counts is None or (lay_out(window, counts.rounds).counts < window.least).any()
        return
    layout = lay_out(window, counts.rounds)
    assert (layout.counts >= window.least).all()
    assert window.value(layout.counts) >= exact.value - 1e-7 * max(1.0, abs(exact.value))


def test_places_for_large_jobs():
    """Seven GPUs have one place for four: two jobs of four share its rounds evenly for the makespan."""
    jobs = [(4, 0.0, 1e4, 1e4), (4, 0.0, 1e4, 1e4), (1, 0.0, 1e4, 1e4)]
    window = window_of(jobs, 7, 6, weight=10.0)
    assert lay_out(window, solve_window(window).rounds).counts.tolist() == [3, 3, 6]
    assert solve_window(window_of(jobs, 7, 6, least=[4, 3, 0])) is None


def test_even_layouts_find_room_where_urgent_ones_do_not():
    """Three GPUs, six rounds; the pairs take one round each, and single jobs the GPU beside them."""
    jobs = [(size, 0.0, 1e4, 1e4) for size in (1, 2, 1, 1, 2, 2)]
    counts = np.array([1, 1, 3, 1, 2, 3])
    layout = lay_out(window_of(jobs, 3, 6, weights=[9, 1, 9, 9, 1, 1]), counts)
    assert layout.counts.tolist() == counts.tolist()
    assert not layout.is_mended


@given(_windows(20, 16, 20))
def test_layouts_keep_the_capacity_of_each_round(window):
    counts = solve_window(window).rounds
    layout = lay_out(window, counts)
    assert (window.sizes @ layout.runs <= window.capacity).all()
    if not layout.is_mended:
        assert layout.counts.tolist() == counts.tolist()
    assert window.value(layout.counts) >= _greedy(window) - 1e-9 * abs(_greedy(window))


def _greedy(window: PlanningWindow) -> float:
    """The objective if each round goes to those who gain most from it per GPU."""
    counts = np.zeros(len(window.sizes), dtype=np.int64)
    gains = np.concatenate((window.knapsack.gains, np.zeros((len(counts), 1))), axis=1)
    for _ in range(window.rounds):
        room = window.capacity
        gain = gains[np.arange(len(counts)), counts]
        for job in np.argsort(-gain / window.sizes, kind="stable").tolist():
            if window.sizes[job] <= room and gain[job] > 0.0:
                counts[job] += 1
                room -= int(window.sizes[job])
    return window.value(counts) if window.makespan_weight == 0.0 else -np.inf


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(1, 8))
def test_jobs_of_one_size_always_find_room(counts, capacity):
    """Numbers of rounds within the capacity, none above the rounds there are, are laid out as they are."""
    n = np.array(counts)
    while n.sum() > 6 * capacity:
        n[n.argmax()] -= 1
    window = window_of([(1, 0.0, 1e4, 1e4)] * len(n), capacity, 6)
    layout = lay_out(window, n)
    assert not layout.is_mended
    assert layout.counts.tolist() == n.tolist()


def test_powers_of_two_do_not_always_find_room():
    """Two GPUs, two rounds: one round of two GPUs and two rounds of one are four GPU-rounds, and too much."""
    window = window_of([(2, 0.0, 1e3, 1e3), (1, 0.0, 1e3, 1e3)], 2, 2)
    layout = lay_out(window, np.array([1, 2]))
    assert layout.is_mended
    assert (window.sizes @ layout.runs <= 2).all()
    assert window.value(layout.counts) == pytest.approx(solve_binary(window, gap=0.0).value)


def test_urgent_jobs_go_first():
    """C is the most urgent; D has no round to spare."""
    jobs = [(1, 0.1, 1e4, 9e3)] * 4
    window = window_of(jobs, 2, 4, weights=[1.0, 2.0, 9.0, 1.0])
    layout = lay_out(window, np.array([1, 1, 2, 4]))
    rows = ["".join(".#"[run] for run in row) for row in layout.runs.tolist()]
    assert rows == ["...#", "..#.", "##..", "####"]


def _least_mean_index(window: PlanningWindow, counts: Ints) -> float:
    """The second program of the authors' code: the rounds of each job as early as its weight deserves."""
    rounds = window.rounds
    costs = np.concatenate(
        [np.arange(rounds) * w / max(n, 1) for w, n in zip(window.weights, counts, strict=True)]
    )
    rows = [
        LinearConstraint(np.kron(np.eye(len(counts)), np.ones(rounds)), counts, counts),
        LinearConstraint(np.kron(window.sizes[None, :], np.eye(rounds)), -np.inf, window.capacity),
    ]
    found = milp(costs, constraints=rows, integrality=np.ones(len(costs)), bounds=Bounds(0, 1))
    return float(found.fun)


def test_the_order_of_rounds_is_near_the_second_programs():
    """Over thirty small windows the weighted mean index is within 2 % of the least on average."""
    excess = []
    for seed in range(30):
        window = made_up(seed, 3 + seed % 8, 2 + seed % 6, 2 + seed % 7, round_s=500.0)
        layout = lay_out(window, solve_window(window).rounds)
        least = _least_mean_index(window, layout.counts)
        own = mean_index(layout.runs, window.weights)
        assert own >= least - 1e-6 * max(1.0, least)
        excess.append((own - least) / max(least, 1e-9) if least > 1e-9 else own)
    assert np.mean(excess) < 0.02
