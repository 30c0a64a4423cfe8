"""Themis beside naive twins written from its card: leases on one machine, auctions by trying everything."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass

import pytest

from play import finishes, play, trace_of
from rota.solvers.auction import Bid, auction
from tiers import first

LEASE_S = 1200.0
NOTHING = 1e-6
SCENES = first(1, [20, 400])


@dataclass
class App:
    """A single job, whose gang is all it can use."""

    key: int
    start_s: float
    gpus: int
    work_s: float
    left_s: float = 0.0
    until_s: float = -math.inf
    runs: bool = False
    crowd_s: float = 0.0
    """Apps times seconds since it came."""
    end_s: float = math.inf


class Machine:
    """GPUs that are all alike, and apps that lease them: no placement, nothing at random (f = 0)."""

    def __init__(self, gpus: int, apps: list[App], has_auction: bool) -> None:
        self.gpus, self.apps, self.has_auction = gpus, apps, has_auction
        self.now = 0.0
        for app in apps:
            app.left_s = app.work_s

    def live(self) -> list[App]:
        return [app for app in self.apps if app.start_s <= self.now and app.end_s == math.inf]

    def run(self) -> dict[int, float]:
        while any(app.end_s == math.inf for app in self.apps):
            self.advance(self.next_s())
            self.hand_out()
        return {app.key: app.end_s for app in self.apps}

    def next_s(self) -> float:
        comes = [app.start_s for app in self.apps if app.start_s > self.now]
        comes += [self.now + app.left_s for app in self.live() if app.runs]
        comes += [app.until_s for app in self.live() if app.runs]
        if not self.live() and self.now == 0.0 and any(app.start_s == 0.0 for app in self.apps):
            return 0.0
        return min(comes)

    def advance(self, until_s: float) -> None:
        live = self.live()
        for app in live:
            app.crowd_s += len(live) * (until_s - self.now)
            if app.runs:
                app.left_s -= until_s - self.now
        self.now = until_s
        for app in live:
            if app.runs and app.left_s <= 1e-6:
                app.end_s, app.runs = self.now, False

    def rho(self, app: App) -> float:
        """With its gang: (passed + left) / (alone on the cluster x N)."""
        passed = self.now - app.start_s
        crowd = app.crowd_s / passed if passed > 0.0 else len(self.live())
        return (passed + app.left_s) / (app.work_s * crowd)

    def hand_out(self) -> None:
        held = [app for app in self.live() if app.runs and app.until_s > self.now + 1e-9]
        free = self.gpus - sum(app.gpus for app in held)
        want = [app for app in self.live() if app not in held]
        want.sort(key=lambda app: (-self.rho(app), app.start_s, app.key))
        if self.has_auction:
            won = self.winners(sorted(want, key=lambda app: app.key), free)
        else:
            won = []
        for app in want:  # what nobody has won, the worst first
            if app not in won and app.gpus <= free - sum(other.gpus for other in won):
                won.append(app)
        for app in want:
            app.runs = False
        until_s = min(self.now + LEASE_S, self.together(want, won, held, free))
        for app in won:
            app.runs, app.until_s = True, until_s

    def winners(self, want: list[App], free: int) -> list[App]:
        """The product of 1 / rho is largest; of equal ones fewest GPUs, then the first apps."""
        best, chosen = None, []
        for takes in itertools.product((1, 0), repeat=len(want)):
            own = [app for app, take in zip(want, takes, strict=True) if take]
            gpus = sum(app.gpus for app in own)
            if gpus > free:
                continue
            worth = sum(math.log(1 / self.rho(app)) if app in own else math.log(NOTHING) for app in want)
            rank = (-round(worth, 9), gpus)
            if best is None or rank < best:
                best, chosen = rank, own
        return chosen

    def together(self, want: list[App], won: list[App], held: list[App], free: int) -> float:
        """When leases in force will have made room for the worst app that got nothing."""
        worst = next((app for app in want if app not in won), None)
        if worst is None or free >= worst.gpus:
            return math.inf
        room = free
        for app in sorted(held, key=lambda app: app.until_s):
            room += app.gpus
            if room >= worst.gpus:
                return app.until_s
        return math.inf


@pytest.mark.parametrize("scenes", SCENES)
@pytest.mark.parametrize("policy", ["themis:fairness=0", "themis:auction=no"])
def test_leases_go_to_the_same_apps(policy: str, scenes: int) -> None:
    """Up to four single jobs on up to eight GPUs: all end when the twin's do."""
    for seed in range(scenes):
        rng = random.Random(seed)
        gpus = rng.choice([1, 2, 4, 8])
        rows = [
            (rng.randint(1, gpus), round(rng.uniform(50, 6000), 2), round(rng.uniform(0, 3000), 2))
            for _ in range(rng.randint(1, 4))
        ]
        rows.sort(key=lambda row: row[2])
        text = " ".join(f"j{key} {size}x{run}@{at}" for key, (size, run, at) in enumerate(rows))
        ours = finishes(play(policy, trace_of(text), f"1x{gpus}"))
        apps = [App(key, at, size, run) for key, (size, run, at) in enumerate(rows)]
        twin = Machine(gpus, apps, policy.endswith("fairness=0")).run()
        assert ours == pytest.approx({f"j{key}": end_s for key, end_s in twin.items()}, abs=0.01), (
            seed,
            text,
        )


@pytest.mark.parametrize("scenes", SCENES)
def test_winners_and_payments_are_those_of_trying_everything(scenes: int) -> None:
    """Random tables of up to three bidders for up to six GPUs on one or two machines."""
    for seed in range(scenes):
        rng = random.Random(seed)
        supply = tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 2)))
        bundles = list(itertools.product(*(range(count + 1) for count in supply)))
        tables = [
            {
                b: rng.uniform(0.1, 3.0) * sum(b) if sum(b) else 0.0
                for b in bundles
                if not sum(b) or rng.random() < 0.8
            }
            for _ in range(rng.randint(1, 3))
        ]
        outcome = auction([Bid(table) for table in tables], supply)
        fair, worth = tried(tables, supply)
        assert outcome.fair == fair, seed
        for i in range(len(tables)):
            others = tables[:i] + tables[i + 1 :]
            beside = math.prod(worth_of(t, b) for t, b in zip(others, fair[:i] + fair[i + 1 :], strict=True))
            c = min(beside / tried(others, supply)[1], 1.0)
            assert outcome.fractions[i] == pytest.approx(c), seed
            assert outcome.kept[i] == min(math.floor(c * sum(fair[i]) + 1e-6), sum(fair[i])), seed
        assert worth == pytest.approx(
            math.prod(worth_of(t, b) for t, b in zip(tables, outcome.fair, strict=True))
        )


def worth_of(table: dict[tuple[int, ...], float], bundle: tuple[int, ...]) -> float:
    return max(table[bundle], NOTHING)


def tried(
    tables: list[dict[tuple[int, ...], float]], supply: tuple[int, ...]
) -> tuple[list[tuple[int, ...]], float]:
    """The bundles with the largest product, and the product."""
    best, chosen = 0.0, []
    for bundles in itertools.product(*tables):
        if all(sum(b[kind] for b in bundles) <= count for kind, count in enumerate(supply)):
            worth = math.prod(worth_of(t, b) for t, b in zip(tables, bundles, strict=True))
            if worth > best:
                best, chosen = worth, list(bundles)
    return chosen, best if tables else 1.0
