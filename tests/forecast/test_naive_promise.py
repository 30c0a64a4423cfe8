"""What can be promised, written once more from its page: chances, rewards, and which deadline is picked."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from test_forecast import moment_of
from test_promise import asked, sampled

from rota.forecast.promise import PromiseOutlook
from rota.forecast.sampling import Misjudgement
from rota.knowledge.reward import ByDeadline
from tiers import first


@pytest.mark.parametrize("seed", range(100))
def test_which_deadline_is_accepted_picked_or_offered(seed: int) -> None:
    draw = random.Random(seed)
    runs, target = draw.choice([10, 50, 200]), draw.choice([0.5, 0.8, 0.9])
    ends_s = sorted(draw.choice([float(draw.randint(1, 100)), math.inf]) for _ in range(runs))
    dues_s = sorted(float(due_s) for due_s in draw.sample(range(1, 120), 4))
    forecasts = tuple(sampled(due_s, np.array(ends_s)) for due_s in dues_s)
    outlook = PromiseOutlook(0.0, "fifo", forecasts, runs, 0.0, target=target, least=0.5)
    share = {due_s: sum(end_s <= due_s for end_s in ends_s) / runs for due_s in dues_s}
    for one in outlook.promises:
        due_s = one.agreement.deadline_s
        p, z2 = share[due_s], 1.96**2
        half = 1.96 * math.sqrt(p * (1 - p) / runs + z2 / (4 * runs * runs)) / (1 + z2 / runs)
        low = (p + z2 / (2 * runs)) / (1 + z2 / runs) - half
        assert one.chance.share == pytest.approx(p)
        assert one.chance.low == pytest.approx(max(low, 0.0), abs=1e-12)
        assert (one in outlook.accepted) == (low >= target)
        rewards = [10.0 if end <= due_s else max(10.0 - 15.0 * (end - due_s) / 50.0, -5.0) for end in ends_s]
        assert one.reward == pytest.approx(sum(rewards) / runs)
    likely = [due_s for due_s in dues_s if share[due_s] >= target]
    best = max(share.values())
    picked = likely[0] if likely else min(due_s for due_s in dues_s if share[due_s] == best)
    assert outlook.pick.agreement.deadline_s == picked
    assert outlook.is_picked_in_time == bool(likely)
    enough = ends_s[math.ceil(target * runs - 1e-9) - 1]
    assert outlook.offer_s(outlook.promises[0]) == enough


@pytest.mark.parametrize(
    ("policy", "seed"), first(0, [(policy, seed) for seed in range(4) for policy in ("fifo", "edf")])
)
def test_chances_are_those_of_drawing_by_hand(policy: str, seed: int) -> None:
    """One GPU: whoever comes before the new job, and it, each of them made wrong.

    First come, first served that is both others; by deadlines only B, which is due at 50.
    """
    draw = random.Random(seed)
    seconds = [float(draw.randint(20, 80)) for _ in range(3)]
    text = f"A 1x{seconds[0]:g} B 1x{seconds[1]:g}"
    moment = moment_of(text, "1x1", policy, deadline_s=[1000.0, 50.0])
    rows = [0, 1, 2] if policy == "fifo" else [1, 2]
    due_s = sum(seconds[row] for row in rows) * draw.choice([0.9, 1.0, 1.2])
    how = {"misjudgement": Misjudgement(0.3), "arrivals": False, "runs": 300, "seed": seed}
    (one,) = asked(moment, seconds, [ByDeadline(due_s, full=1.0, floor=0.0, grace_s=0.0)], **how).promises
    drawn = np.random.default_rng(seed + 100).normal(0.0, 0.3, (20_000, 3))
    ends_s = (np.exp(drawn) * seconds)[:, rows].sum(axis=1)
    chance = float((ends_s <= due_s).mean())
    assert one.chance.share == pytest.approx(chance, abs=4.0 * math.sqrt(0.25 / 300))
    assert one.reward == pytest.approx(one.chance.share)
