"""Finish-time fairness: how long a job takes beside the others over how long it would on its part alone.

    ρ = (seconds since it began + seconds still to go) / (seconds that the whole takes on its equal part)

Themis' measure (NSDI 2020, section 3); Gavel makes the worst ρ as small as possible (OSDI 2020, section 4.1).
They differ in what an equal part is.  Gavel's is a fraction of each type's GPUs that changes with the number
of jobs, so that time alone adds up piece by piece (`equal_parts`, `alone_so_far_s`).  Themis' is the whole
cluster for 1/N of the time, N being the average number of others since the job began (`Crowd`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import numpy as np

from rota.model.columns import Floats, Ints
from rota.scheduler.decision import Memory

Times = float | Floats
Key = TypeVar("Key", int, str)
"""What an average belongs to: the row of a job, or a name."""

_LEAST_S = 1e-9
"""The least time to divide by, in place of zero."""


def finish_time_ratio(since_s: Times, left_s: Times, alone_s: Times) -> Floats:
    """ρ of jobs that began `since_s` ago, need `left_s` more, and would take `alone_s` in all on their part.

    Infinite where `left_s` is: the job will never be done.
    """
    ratio: Floats = (since_s + left_s) / np.maximum(alone_s, _LEAST_S)
    return ratio


def rate_for(ratio: float, since_s: Times, work_left: Times, alone_s: Times) -> Floats:
    """Work per second with which jobs end at this ρ; very large where they no longer can."""
    rate: Floats = work_left / np.maximum(ratio * np.maximum(alone_s, _LEAST_S) - since_s, _LEAST_S)
    return rate


# -- an equal part of each type's GPUs ---------------------------------------------------------------


def equal_parts(capacity: Floats, gpus: Floats) -> Floats:
    """Fractions of its time that each job has on each type if the cluster is split evenly, [job, type].

    `capacity` are the GPUs of each type, `gpus` those that each job runs on; no job has more than all its
    time.
    """
    share = capacity / (len(gpus) * gpus[:, None])
    fractions: Floats = share / np.maximum(1.0, share.sum(axis=1, keepdims=True))
    return fractions


def alone_so_far_s(memory: Memory, rows: Ints, done: Floats, rate: Floats, *, notes: bool = True) -> Floats:
    """Seconds that the work done so far would have taken on equal parts, for each of `rows`, ascending.

    The work since the last call, whose state is noted in `memory`, counts at the rates of that call; `rate`
    is work per second on an equal part now, `done` the work so far, or the negative of the work to do.  If
    work so far was lost, a proportional part of the time is lost too, at whatever rates it was done.  With
    `notes` false, work and rates are not noted, and the next call counts from the earlier ones again.
    """
    noted = memory.get("isolated")
    so_far, before, at = np.zeros(len(rows)), done.copy(), np.full(len(rows), np.inf)
    if noted is not None and len(noted["rows"]):
        place = np.minimum(np.searchsorted(noted["rows"], rows), len(noted["rows"]) - 1)
        known = noted["rows"][place] == rows
        place = place[known]
        before[known], at[known] = noted["done"][place], noted["rate"][place]
        is_lost = (done[known] >= 0.0) & (done[known] < before[known])
        kept = np.where(is_lost, done[known] / np.where(is_lost, before[known], 1.0), 1.0)
        more = np.where(is_lost, 0.0, done[known] - before[known])
        so_far[known] = noted["so_far_s"][place] * kept + more / at[known]
    if notes:
        before, at = done, rate
    memory["isolated"] = {"rows": rows, "so_far_s": so_far, "done": before, "rate": at}
    return so_far


# -- the whole cluster for an equal part of the time -------------------------------------------------


class Crowd(Generic[Key]):
    """The average number of jobs, or amount of anything, that shared the cluster since each key began.

    Memory    `at_s`    moment of the last reading
              `many`    the value of that reading
              `area`    sum of the readings times how long each lasted, since the first reading
              `since`   by key, the moment from which its average counts
              `before`  by key, the area up to there
    """

    def __init__(self, memory: Memory) -> None:
        """Reads and writes `memory`, which is `{}` at first."""
        memory.setdefault("at_s", 0.0)
        memory.setdefault("many", 0.0)
        memory.setdefault("area", 0.0)
        memory.setdefault("since", {})
        memory.setdefault("before", {})
        self.memory = memory

    def follow(self, now: float, keys: Mapping[Key, float], many: float | None = None) -> None:
        """From now on there are `keys`, whose quantity is `many`; their number if it is None.

        The value of a key is the moment at which it began.  What was before the first reading is taken to
        have been as it is then, which is the best estimate for a policy that takes over a running cluster.
        """
        since = self.memory["since"]
        gone = [key for key in since if key not in keys]
        come = {key: began_s for key, began_s in keys.items() if key not in since}
        self.change(now, gone, come, float(len(keys)) if many is None else many)

    def change(self, now: float, gone: Iterable[Key], come: Mapping[Key, float], many: float) -> None:
        """Follow a change: `gone` keys have left, `come` are new, and there are `many` now."""
        own = self.memory
        if own["since"]:
            own["area"] += own["many"] * (now - own["at_s"])
        own["at_s"], own["many"] = now, many
        since, before = own["since"], own["before"]
        for key in gone:
            del since[key], before[key]
        for key, began_s in come.items():
            since[key] = began_s
            before[key] = own["area"] - many * (now - began_s)

    def copy(self) -> Crowd[Key]:
        """A copy that later changes of this one do not affect."""
        own = self.memory
        return Crowd({**own, "since": own["since"].copy(), "before": own["before"].copy()})

    def mean(self, key: Key) -> float:
        """The average since `key` began; the present value if it has just begun."""
        own = self.memory
        passed_s = own["at_s"] - own["since"][key]
        return float((own["area"] - own["before"][key]) / passed_s) if passed_s > 0.0 else float(own["many"])
