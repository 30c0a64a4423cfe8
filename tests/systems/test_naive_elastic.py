"""Elastic systems against a second version of each, written from its card alone: slow, and plain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.knowledge.convergence import FittedConvergence
from rota.knowledge.needs import Provenance
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.scheduler.decision import Wake
from rota.solvers.hybrid_scaling import batch_for
from rota.solvers.marginal import TrainingJob, hand_out
from rota.solvers.one_by_one import fill_savings
from rota.stages.place import even
from rota.systems.pollux.scaling import closest
from rota.table.free import Free
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_table import ScalingSpeed
from scripted import Scripted, state_of
from tiers import each_seed

# -- Optimus: units one by one ---------------------------------------------------------------------


def naive_units(
    work: Sequence[float],
    speed: Sequence[Callable[[int, int], float]],
    server: Sequence[dict[str, float]],
    worker: Sequence[dict[str, float]],
    worth: Sequence[float],
    capacity: dict[str, float],
) -> list[list[int]]:
    """Servers and workers: one of each in order, then always the largest saving per dominant share."""
    units = [[0, 0] for _ in work]

    def fits(units: list[list[int]]) -> bool:
        return all(
            sum(p * server[j].get(name, 0) + w * worker[j].get(name, 0) for j, (p, w) in enumerate(units))
            <= there + 1e-9
            for name, there in capacity.items()
        )

    for job in range(len(work)):
        units[job] = [1, 1]
        if not fits(units):
            units[job] = [0, 0]
    struck: set[tuple[int, int]] = set()
    while True:
        gains = []
        for job, (p, w) in enumerate(units):
            for kind, (more, demand) in enumerate((((p + 1, w), server[job]), ((p, w + 1), worker[job]))):
                if p and (job, kind) not in struck:
                    share = max(demand.get(name, 0.0) / there for name, there in capacity.items())
                    saved = work[job] / speed[job](p, w) - work[job] / speed[job](*more)
                    gains.append((worth[job] * saved / share, -job, -kind))
        best = max(gains, default=(0.0, 0, 0))
        if best[0] <= 0.0:
            return units
        job, kind = -best[1], -best[2]
        units[job][kind] += 1
        if not fits(units):
            units[job][kind] -= 1
            struck.add((job, kind))


@each_seed(20, 100, 400)
def test_optimus_hands_out_servers_and_workers(seed: int) -> None:
    random = np.random.default_rng(seed)
    jobs = int(random.integers(1, 7))
    work, batch = random.uniform(10.0, 1e4, jobs).tolist(), random.uniform(16.0, 512.0, jobs)
    terms = random.uniform(0.0, 0.3, (jobs, 5)) * np.array([0.1, 1.0, 1.0, 0.1, 0.1]) + 1e-6

    def speed_of(job: int) -> Callable[[int, int], float]:
        t0, t1, t2, t3, t4 = terms[job].tolist()
        return lambda p, w: 1.0 / (t0 * batch[job].item() / w + t1 + t2 * w / p + t3 * w + t4 * p)

    speed = [speed_of(job) for job in range(jobs)]
    server = [{"cpu": float(random.integers(1, 5)), "gib": float(random.integers(4, 12))} for _ in speed]
    worker = [{"cpu": float(random.integers(1, 4)), "gpu": 1.0} for _ in speed]
    worth = random.choice([1.0, 0.95], jobs).tolist()
    capacity = {"cpu": float(random.integers(4, 80)), "gib": float(random.integers(20, 300)), "gpu": 9.0}
    columns = zip(work, speed, server, worker, worth, strict=True)
    ours = hand_out(
        [TrainingJob(q, f, server=s, worker=w, worth=part) for q, f, s, w, part in columns], capacity
    )
    assert ours.of == naive_units(work, speed, server, worker, worth, capacity)


def naive_savings(seconds: Sequence[Sequence[float]], work: Sequence[float], gpus: int) -> list[int]:
    """Workers alone: one each in order, then the largest saving, the first of equals."""
    shares = [1 if job < gpus else 0 for job in range(len(work))]
    while sum(shares) < gpus:
        saved = [
            (times[k] - times[k + 1]) * todo if k and k + 1 < len(times) else 0.0
            for times, todo, k in zip(seconds, work, shares, strict=True)
        ]
        if max(saved) <= 0.0:
            break
        shares[saved.index(max(saved))] += 1
    return shares


@each_seed(20, 100, 300)
def test_optimus_hands_out_gpus(seed: int) -> None:
    random = np.random.default_rng(seed)
    jobs, most, gpus = (int(random.integers(1, high)) for high in (9, 12, 30))
    seconds = [
        [math.inf, *np.round(random.uniform(0.1, 1.0, most).cumsum()[::-1], 1).tolist()] for _ in range(jobs)
    ]
    work = random.integers(1, 50, jobs).astype(float).tolist()
    counts = [range(1, most + 1)] * jobs
    assert fill_savings(seconds, work, counts, gpus) == naive_savings(seconds, work, gpus)


# -- Optimus: who is young -------------------------------------------------------------------------


@pytest.mark.parametrize("heard", [0, 9, 10, 30])
@pytest.mark.parametrize("finished", [False, True])
def test_optimus_knows_who_is_young(heard: int, finished: bool) -> None:
    """Fewer than ten losses, and no job of its workload that has finished."""
    state = state_of("A 1x100 B 1x100 C 1x100", workload=[0, 0, 1], workload_names=("w", "v"))
    known = FittedConvergence(state.jobs, Provenance.MEASURED)
    known.attach(state)
    for epoch in range(heard):
        known.hear(1, epoch + 1.0, 1.0 / (epoch + 1.0))
    if finished:
        known.ended(0, 100.0)
    points = known.known().by_row["points"]
    assert (points[1] < 10) == (heard < 10 and not finished)
    assert points[2] == 0, "none of its workload has finished"


# -- Optimus: the placement theorem ----------------------------------------------------------------


def _slowest(parts: Sequence[tuple[int, int]]) -> float:
    """Transfer of a step over the servers that hold so many PS and workers each, for parameters of size 1."""
    p, w = (sum(kind) for kind in zip(*parts, strict=True))
    return max(max(w_k * (p - p_k), p_k * (w - w_k)) / p for p_k, w_k in parts)


def _ways(total: int, servers: int) -> list[tuple[int, ...]]:
    return [parts for parts in product(range(total + 1), repeat=servers) if sum(parts) == total]


def _fastest(p: int, w: int, room: int) -> float:
    """Of all ways to lie on three equal servers that hold `room` units each."""
    ways = (
        list(zip(ps, ws, strict=True))
        for ps in _ways(p, 3)
        for ws in _ways(w, 3)
        if all(a + b <= room for a, b in zip(ps, ws, strict=True))
    )
    return min(map(_slowest, ways))


@pytest.mark.parametrize(("each", "servers"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)])
def test_fewest_servers_in_equal_parts_is_fastest(each: int, servers: int) -> None:
    """By the card's cost of a step, where the fewest servers are full."""
    units = each * servers
    assert _slowest([(each, each)] * servers) == pytest.approx(_fastest(units, units, 2 * each))


def test_where_servers_have_room_to_spare_unequal_parts_may_be_faster() -> None:
    """4 and 4 on servers of 6: all but one of each on one server.  The rule is the paper's all the same."""
    assert _slowest([(2, 2), (2, 2)]) == 1.0
    assert _fastest(4, 4, 6) == _slowest([(3, 3), (1, 1)]) == 0.75


@each_seed(20, 100, 400)
def test_optimus_places_round_robin_on_the_first_servers_that_hold_it(seed: int) -> None:
    """Servers by what is free, most first; of k = 1, 2, ... the first on which dealing in turn fits."""
    random = np.random.default_rng(seed)
    size, nodes = int(random.integers(1, 9)), int(random.integers(1, 7))
    cluster = parse_cluster(f"{nodes}x{size}")
    free = Free.of(cluster)
    left = random.integers(0, size + 1, nodes).tolist()
    for node, there in enumerate(left):
        if there < size:
            free.take(node, size - there)
    gpus = int(random.integers(1, sum(left) + 2))
    order = sorted(range(nodes), key=lambda node: (-left[node], node))
    expected = None
    for k in range(1, nodes + 1):
        dealt = [sum(unit % k == place for unit in range(gpus)) for place in range(k)]
        if all(part <= left[node] for part, node in zip(dealt, order, strict=False)):
            expected = {node: part for part, node in zip(dealt, order, strict=False) if part}
            break
    taken = even(free, gpus)
    if expected is None:
        assert (taken is None) == (gpus > sum(left))
        return
    assert taken is not None
    found = np.bincount(cluster.device_node[list(taken)], minlength=nodes)
    assert {node: int(part) for node, part in enumerate(found) if part} == expected


# -- Elan: elastic FIFO and backfill ---------------------------------------------------------------


def naive_elan(
    jobs: Sequence[tuple[float, int, int, Sequence[float], float]], gpus: int, *, backfill: bool
) -> list[float]:
    """When jobs (submitted, least, most, speed by workers, work) end; to change sizes costs nothing."""
    now, ends, sizes = 0.0, [math.inf] * len(jobs), dict[int, int]()
    left = [work for *_, work in jobs]
    while any(end == math.inf for end in ends):
        came = [job for job, one in enumerate(jobs) if one[0] <= now and ends[job] == math.inf]
        room = gpus - sum(jobs[job][1] for job in sizes)
        for job in came:
            if job in sizes:
                continue
            if jobs[job][1] <= room:
                room -= jobs[job][1]
                sizes[job] = jobs[job][1]
            elif not backfill:
                break
        sizes = {job: jobs[job][1] for job in sorted(sizes)}
        while sum(sizes.values()) < gpus:
            best, most = None, 0.0
            for job, w in sizes.items():
                speed = jobs[job][3]
                gain = (speed[w + 1] - speed[w]) / speed[w] if w < jobs[job][2] else 0.0
                if (gain >= 0.05 or gain * w >= 0.5) and gain > most:
                    best, most = job, gain
            if best is None:
                break
            sizes[best] += 1
        rates = {job: jobs[job][3][w] for job, w in sizes.items()}
        ending = min((now + left[job] / rate for job, rate in rates.items()), default=math.inf)
        after = min(ending, min((one[0] for one in jobs if one[0] > now), default=math.inf))
        for job, rate in rates.items():
            left[job] -= rate * (after - now)
        now = after
        for job in [job for job in sizes if left[job] <= 1e-9 * jobs[job][4]]:
            ends[job] = now
            del sizes[job]
    return ends


@pytest.mark.parametrize("policy", ["elan", "elan:backfill=yes"])
@each_seed(6, 46, 150, at_once=10)
def test_elan_takes_in_and_grows(seed: int, policy: str) -> None:
    random = np.random.default_rng(seed)
    gpus = int(random.integers(2, 17))
    names = ("a", "b", "c")
    gains = {name: np.sort(random.uniform(0.01, 1.0, gpus - 1))[::-1] for name in names}
    speeds = {name: [0.0, 1.0, *(1.0 + gains[name].cumsum()).tolist()] for name in names}
    many = int(random.integers(2, 9))
    kinds = random.integers(0, 3, many)
    submit = np.round(random.uniform(0.0, 300.0, many).cumsum() / 3.0, 1)
    least = random.integers(1, gpus + 1, many) // int(random.integers(1, 4)) + 1
    least = np.minimum(least, gpus)
    most = np.minimum(least + random.integers(0, gpus, many), gpus)
    work = np.round(random.uniform(10.0, 2000.0, many), 1)
    columns = zip(submit.tolist(), least.tolist(), most.tolist(), kinds.tolist(), work.tolist(), strict=True)
    expected = naive_elan(
        [(at, low, high, speeds[names[kind]], todo) for at, low, high, kind, todo in columns],
        gpus,
        backfill="yes" in policy,
    )
    text = " ".join(f"J{job} {least[job]}x1@{submit[job]}" for job in range(many))
    trace = trace_of(text, gpus_min=least, gpus_max=most, workload=kinds, workload_names=names)
    trace = replace(trace, truth=Truth.build(np.full(many, np.nan), iterations=work))
    where = parse_cluster(f"1x{gpus}")
    curves = ScalingCurves.build({name: dict(enumerate(speeds[name][1:], 1)) for name in names})
    joint = "," if ":" in policy else ":"
    setting = Setting(speed=ScalingSpeed(trace, where, curves))
    found = finishes(play(f"{policy}{joint}min_resize_s=0", trace, where, setting))
    assert [found[f"J{job}"] for job in range(many)] == pytest.approx(expected, rel=1e-6)


@each_seed(20, 100, 300)
def test_elan_grows_a_batch_as_little_as_needed(seed: int) -> None:
    """The smallest k of 1, 2, 4, ... for which no number of workers below is as fast as N' or more."""
    random = np.random.default_rng(seed)
    a, b, c, d = (random.uniform(0.0, 0.05, 4) * np.array([1.0, 0.1, 1.0, 0.5])).tolist()

    @cache
    def speed(n: int, batch: float) -> float:
        return batch / (0.005 + a + b * batch / n + (c + d * n if n > 1 else 0.0))

    batch, cap = float(2 ** random.integers(3, 10)), float(2 ** random.integers(0, 7))
    candidates = [1, 2, 4, 8, 16, 32, 64]
    for workers in candidates:
        expected = None
        for k in (1, 2, 4, 8, 16, 32, 64):
            fastest = max(speed(n, k * batch) for n in candidates)
            n_opt = next(n for n in candidates if speed(n, k * batch) >= fastest * (1 - 1e-9))
            if k <= cap and n_opt >= workers:
                expected = k * batch
                break
        assert batch_for(speed, workers, batch, candidates, cap * batch) == expected


# -- CoDDL: the switch in two phases ---------------------------------------------------------------


def naive_switches(sizes: Sequence[tuple[float, int]], work: float) -> float:
    """When a job that works as fast as it has GPUs ends, being told (moment, GPUs); the first one starts it.

    To grow it prepares for 15 s and works on, then pauses for 2 s; to shrink it only pauses.  A newer target
    cancels what is being prepared: those of its workers that go on getting ready need no more time, others
    begin anew.  A pause that has begun is no longer cancelled: what is told in it comes after it.
    """
    step_s, now, has, pause_until, ready, wanted = 0.5, 0.0, sizes[0][1], 0.0, math.inf, sizes[0][1]
    told = dict(sizes[1:])
    while work > 1e-9:
        if now >= ready:
            has, pause_until, ready = wanted, now + 2.0, math.inf
        if now in told:
            target = told[now]
            if target > has:
                is_part = ready < math.inf and target <= wanted
                ready = ready if is_part else max(now + 15.0, pause_until)
            elif ready < math.inf and target == has:
                ready = math.inf
            elif target < has:
                has, ready, pause_until = target, math.inf, max(now, pause_until) + 2.0
            wanted = target
        if now >= pause_until:
            rate = min(has, wanted)
            if work <= rate * step_s:
                return now + work / rate
            work -= rate * step_s
        now += step_s
    return now


@each_seed(20, 100, 400)
def test_coddl_switches_in_two_phases(seed: int) -> None:
    random = np.random.default_rng(seed)
    gaps = random.choice([0.5, 1.0, 3.0, 8.0, 14.5, 15.0, 16.0, 18.0, 30.0], int(random.integers(1, 7)))
    at = [0.0, *gaps.cumsum().tolist()]
    sizes = [int(random.integers(1, 9)) for _ in at]
    work = float(random.integers(1500, 2500))  # it does not end before all is told
    turns = [
        {"grants": [Grant(0, tuple(range(size)))], "wake": Wake(after)}
        for size, after in zip(sizes, [*at[1:], math.inf], strict=True)
    ]
    trace = trace_of("A 1x1", gpus_min=1, gpus_max=8, workload=0, workload_names=("lin",))
    trace = replace(trace, truth=Truth.build(np.array([np.nan]), iterations=[work]))
    where = parse_cluster("1x8")
    curves = ScalingCurves.build({"lin": {count: float(count) for count in range(1, 9)}})
    setting = Setting(speed=ScalingSpeed(trace, where, curves), costs=parse_costs("resize=coddl"))
    record = play(Scripted(*turns), trace, where, setting)
    told = list(zip(at, sizes, strict=True))
    assert finishes(record)["A"] == pytest.approx(naive_switches(told, work)), told


# -- Pollux: how many nodes ------------------------------------------------------------------------


@each_seed(20, 100, 300)
def test_pollux_wants_the_number_whose_utility_is_closest_to_the_middle(seed: int) -> None:
    """Every number tried, of utilities of jobs that gain less and less by GPUs."""
    random = np.random.default_rng(seed)
    gains = random.uniform(0.3, 1.0, int(random.integers(1, 9)))

    def best(nodes: int) -> float:
        """Equal parts of 4 x nodes GPUs, each job as fast as a power of its part."""
        return float(((4.0 * nodes / len(gains)) ** gains).sum()) / (4.0 * nodes)

    low = float(random.uniform(0.05, 0.8))
    high = float(random.uniform(low, 1.0))
    nodes, middle = int(random.integers(1, 20)), (low + high) / 2.0
    now = best(nodes)
    if low <= now <= high:
        return
    tried = range(1, nodes + 1) if now < low else range(nodes, 2 * nodes + 1)
    expected = min(abs(best(count) - middle) for count in tried)
    found = closest(best, middle, nodes, 2 * nodes, shrinks=now < low)
    assert found in tried
    assert abs(best(found) - middle) == pytest.approx(expected)
