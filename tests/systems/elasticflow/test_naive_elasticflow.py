"""ElasticFlow written once more from its description, slot by slot, and compared with the policy."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np

from play import play, trace_of
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import Truth
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_table import ScalingSpeed
from tiers import each_seed

SLOT_S = 60.0
SPEEDS = {
    "card": {1: 1.0, 2: 1.5, 4: 2.0},
    "good": {1: 1.0, 2: 2.0, 4: 3.6},
    "flat": {1: 1.0, 2: 1.1, 4: 1.15},
}
CURVES = ScalingCurves.build(SPEEDS, clean=False)


class Wish:
    """One job: how fast it is on how many GPUs, what it has to do, until which slot (a fraction)."""

    def __init__(self, name: str, speeds: dict[int, float], work: float, due: float, number: int) -> None:
        self.name, self.speeds, self.work, self.due, self.number = name, speeds, work, due, number
        self.share: list[int] = []
        self.now = 0

    def fill(self, free: list[int], first: int | None = None) -> list[int] | None:
        """The share of the smallest level that is done in time: in each slot as much of it as is free."""
        for level in self.speeds:
            left, share = self.work, []
            for slot, spare in enumerate(free):
                most = min(level, spare)
                gpus = max((one for one in self.speeds if one <= most), default=0)
                if first is not None and slot == 0:
                    gpus = first
                length = min(1.0, max(0.0, self.due - slot)) * SLOT_S
                share.append(gpus)
                left -= length * self.speeds.get(gpus, 0.0)
                if left <= 1e-9 * self.work:
                    return share
                if length <= 0.0:
                    break
        return None

    def gpu_time(self, share: list[int]) -> float:
        """GPU-seconds to the end of its work."""
        left, used = self.work, 0.0
        for gpus in share:
            speed = self.speeds.get(gpus, 0.0)
            length = min(SLOT_S, left / speed) if speed else SLOT_S
            left -= length * speed
            used += gpus * length
        return used


def without(free: list[int], share: list[int]) -> list[int]:
    return [spare - (share[slot] if slot < len(share) else 0) for slot, spare in enumerate(free)]


def naive(wishes: list[Wish], gpus: int) -> tuple[dict[str, int], set[str]]:
    """GPUs of each in the first slot, and who is refused."""
    free, refused = [gpus] * 200, set()
    promised = []
    for wish in sorted((one for one in wishes if one.due < math.inf), key=lambda one: (one.due, one.number)):
        share = wish.fill(free)
        if share is None:
            refused.add(wish.name)
            continue
        wish.share, wish.now = share, share[0]
        free = without(free, share)
        promised.append(wish)
    others = [one for one in wishes if one.due == math.inf]
    left = gpus - sum(one.now for one in promised)
    while True:
        best = None
        for wish in [*promised, *others]:
            more = min((one for one in wish.speeds if one > wish.now), default=0)
            if not more or more - wish.now > left:
                continue
            raised = None
            if wish.due < math.inf:
                raised = wish.fill(without(free, [-one for one in wish.share]), more)
                if raised is None:
                    continue
                gain = (wish.gpu_time(wish.share) - wish.gpu_time(raised)) / (more - wish.now)
            else:
                used = wish.now * wish.work / wish.speeds.get(wish.now, math.inf)
                gain = (used - more * wish.work / wish.speeds[more]) / (more - wish.now)
            gain = math.inf if not wish.now else round(gain, 6)
            key = (-gain, wish.due, wish.number)
            if best is None or key < best[0]:
                best = key, wish, more, raised
        if best is None:
            return {one.name: one.now for one in [*promised, *others]}, refused
        _, wish, more, raised = best
        left -= more - wish.now
        if raised is not None:
            free = without(without(free, [-one for one in wish.share]), raised)
            wish.share = raised
        wish.now = more


@each_seed(60, 300, 1500)
def test_who_is_admitted_and_what_each_gets_first(seed: int) -> None:
    draw = random.Random(seed)
    gpus, count = draw.choice([2, 4, 8]), draw.randint(1, 6)
    models = [draw.choice([*SPEEDS]) for _ in range(count)]
    work = [float(draw.randint(20, 600)) for _ in range(count)]
    dues = [draw.choice([math.nan, float(draw.randint(40, 700))]) for _ in range(count)]
    names = "ABCDEF"[:count]
    text = " ".join(f"{name} 1x1" for name in names)
    columns = {"gpus_min": 1, "gpus_max": 4, "counts": int(AllowedCounts.POWERS_OF_TWO)}
    codes = [[*SPEEDS].index(model) for model in models]
    trace = trace_of(text, deadline_s=np.array(dues), workload=codes, workload_names=tuple(SPEEDS), **columns)
    trace = replace(trace, truth=Truth.build(np.full(count, np.nan), iterations=np.array(work)))
    where = parse_cluster(f"1x{gpus}")
    policy = "elasticflow:slot_s=60,margin_slots=0,restart_s=0,offer_s=0"
    record = play(policy, trace, where, Setting(speed=ScalingSpeed(trace, where, CURVES)))
    began = record.intervals.sort("start_s")
    got = {row["job_id"]: row["gpus"] for row in began.iter_rows(named=True) if row["start_s"] == 0.0}
    states = dict(zip(record.jobs["job_id"], record.jobs["state"], strict=True))
    wishes = [
        Wish(name, SPEEDS[model], done, math.inf if math.isnan(due) else due / SLOT_S, place)
        for place, (name, model, done, due) in enumerate(zip(names, models, work, dues, strict=True))
    ]
    shares, refused = naive(wishes, gpus)
    assert {name for name, state in states.items() if state == "REJECTED"} == refused
    assert got == {name: share for name, share in shares.items() if share}
