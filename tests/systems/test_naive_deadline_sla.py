"""The deadline-SLA order written once more from its page: who is served when a GPU is free."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from play import finishes, play, trace_of
from tiers import each_seed


def reward(at_s: float, submit_s: float, due_s: float, grace: float) -> float:
    """1 by the deadline, down to 0 in a straight line over the grace, a part of the time there was."""
    over, grace_s = at_s - due_s, grace * (due_s - submit_s)
    if over <= 0.0:
        return 1.0
    return 0.0 if over >= grace_s else 1.0 - over / grace_s


def naive(jobs: list[tuple[float, float, float]], gpus: int, grace: float, round_s: float) -> list[float]:
    """Ends of jobs of one GPU each: (submitted, run time, deadline), NaN for none; nobody is stopped."""
    ends = [math.nan] * len(jobs)
    coming = sorted(range(len(jobs)), key=lambda job: (jobs[job][0], job))
    waiting, busy = list[int](), list[float]()
    while waiting or coming:
        moments = [jobs[coming[0]][0]] if coming else []
        if waiting and len(busy) == gpus:
            moments.append(min(busy))
        now = min(moments)
        busy = [end for end in busy if end > now]
        while coming and jobs[coming[0]][0] <= now:
            waiting.append(coming.pop(0))

        def key(job: int, now: float = now) -> tuple[float, float, int]:
            submit_s, left_s, due_s = jobs[job]
            if math.isnan(due_s):
                return 0.0, math.inf, job
            now_s, later_s = now + left_s, now + round_s + left_s
            lost = reward(now_s, submit_s, due_s, grace) - reward(later_s, submit_s, due_s, grace)
            return (-lost / left_s, 0.0, job) if lost > 1e-12 else (0.0, due_s, job)

        while waiting and len(busy) < gpus:
            job = min(waiting, key=key)
            waiting.remove(job)
            ends[job] = now + jobs[job][1]
            busy.append(ends[job])
    return ends


@each_seed(60, 300, 1000)
def test_who_is_served_when_a_gpu_is_free(seed: int) -> None:
    draw = random.Random(seed)
    gpus, grace, round_s = draw.choice([1, 2, 3]), draw.choice([0.25, 0.5, 1.0]), draw.choice([30.0, 60.0])
    jobs = []
    for _ in range(draw.randint(2, 12)):
        submit_s, run_s = float(draw.randint(0, 300)), float(draw.randint(5, 200))
        slack = draw.choice([None, draw.randint(1, 600)])
        jobs.append((submit_s, run_s, math.nan if slack is None else submit_s + run_s * 0.8 + slack))
    jobs.sort(key=lambda job: job[0])
    text = " ".join(f"j{number} 1x{run_s:g}@{submit_s:g}" for number, (submit_s, run_s, _) in enumerate(jobs))
    trace = trace_of(text, deadline_s=np.array([due_s for _, _, due_s in jobs]))
    got = finishes(play(f"deadline_sla:grace={grace},round_s={round_s:g}", trace, f"1x{gpus}"))
    expected = naive(jobs, gpus, grace, round_s)
    assert got == pytest.approx({f"j{number}": end_s for number, end_s in enumerate(expected)})
