"""What if, with others who come, written once more from its page: the same chances from drawing by hand.

Jobs of one GPU on two GPUs.  Each future is drawn and played here by other means; that the
shares agree is all that can be asked, since the draws are others.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_forecast import moment_of
from test_promise import asked

from rota.forecast.sampling import Misjudgement
from rota.knowledge.reward import ByDeadline
from rota.table.state import Phase
from tiers import first

GPUS, SIGMA, RUNS, BY_HAND = 2, 0.3, 200, 2000


@dataclass
class Naive:
    """One job: when it comes, what it is estimated to take, by when it is due, and what is really left."""

    came_s: float
    seconds: float
    due_s: float
    done_s: float = 0.0
    left_s: float = 0.0


def rank(policy: str, job: Naive) -> tuple[float, float]:
    return {"fifo": 0.0, "sjf": job.seconds, "edf": job.due_s}[policy], job.came_s


def end_of(new: Naive, jobs: list[Naive], policy: str, now: float) -> float:
    """When `new` is done: at each event those first in order run, under `sjf` and `fifo` behind who runs."""
    running = [job for job in jobs if job.done_s > 0.0]
    while True:
        there = [job for job in jobs if job.came_s <= now and job.left_s > 0.0]
        stays = [job for job in running if job.left_s > 0.0] if policy != "edf" else []
        rest = sorted((job for job in there if job not in stays), key=lambda job: rank(policy, job))
        running = [*stays, *rest][:GPUS]
        event_s = min([now + job.left_s for job in running] + [j.came_s for j in jobs if j.came_s > now])
        for job in running:
            left_s = job.left_s - (event_s - now)
            job.left_s = left_s if left_s > 1e-9 else 0.0
        now = event_s
        if not new.left_s:
            return now


def coming(past: list[Naive], now: float, until_s: float, draw: random.Random) -> list[Naive]:
    """As often as so far and like any of them; of 30 or more a stretch of the past once more."""
    span_s, ahead_s = now - past[0].came_s, until_s - now
    if len(past) < 30:
        count = int(np.random.default_rng(draw.getrandbits(32)).poisson((len(past) - 1) / span_s * ahead_s))
        pairs = [(now + ahead_s * draw.random(), draw.choice(past)) for _ in range(count)]
    else:
        begin_s = span_s * draw.random()
        after = [((job.came_s - past[0].came_s - begin_s) % span_s, job) for job in past]
        pairs = [(now + at_s + span_s * turn, job) for turn in range(20) for at_s, job in after]
    return [
        Naive(at_s, like.seconds, at_s + like.due_s - like.came_s) for at_s, like in pairs if at_s < until_s
    ]


def chance_by_hand(
    policy: str, now: float, past: list[Naive], live: list[Naive], new: Naive, until_s: float, seed: int
) -> float:
    draw = random.Random(seed)
    hits = 0
    for _ in range(BY_HAND):
        jobs = [*live, *coming(past, now, until_s, draw), new]
        for job in jobs:
            job.left_s = (job.seconds - job.done_s) * math.exp(draw.gauss(0.0, SIGMA))
        hits += end_of(new, jobs, policy, now) <= new.due_s
    return hits / BY_HAND


CASES = [(policy, count, seed) for seed in range(4) for policy in ("sjf", "edf", "fifo") for count in (8, 40)]


@pytest.mark.parametrize(("policy", "count", "seed"), first(0, CASES))
def test_chances_with_others_who_come(policy: str, count: int, seed: int) -> None:
    draw = random.Random(seed)
    gaps = [draw.randint(10, 25) for _ in range(count - 1)]
    came = [0.5 + sum(gaps[:place]) for place in range(count)]  # nothing happens at the moment itself
    past = [Naive(at_s, float(draw.randint(20, 60)), at_s + draw.randint(50, 200)) for at_s in came]
    now = math.ceil(came[-1] + draw.randint(1, 20))
    text = " ".join(f"j{place} 1x{job.seconds:g}@{job.came_s:g}" for place, job in enumerate(past))
    moment = moment_of(text, f"1x{GPUS}", policy, at_s=now, deadline_s=[job.due_s for job in past])
    state = moment.packed["state"]
    done_s = state["progress"]["base"] + state["progress"]["rate"] * (now - state["progress"]["since"])
    is_over = state["phase"] >= int(Phase.COMPLETED)
    live = [replace(job, done_s=done_s.item(at)) for at, job in enumerate(past) if not is_over[at]]
    due_s = now + draw.choice([120.0, 180.0, 240.0])
    new = Naive(now, float(draw.randint(45, 80)), due_s)
    seconds = [*(job.seconds for job in past), new.seconds]
    how = {"misjudgement": Misjudgement(SIGMA), "runs": RUNS, "seed": seed}
    (one,) = asked(moment, seconds, [ByDeadline(due_s)], **how).promises
    chance = chance_by_hand(policy, now, past, live, new, now + 3.0 * (due_s - now), seed)
    assert one.chance.share == pytest.approx(chance, abs=4.0 * math.sqrt(0.25 / RUNS))
