"""Delay attribution: how long jobs waited, and whether for their share or for a place.

After Jeon et al. (Philly, ATC 2019): a wait is *fair-share delay* while the job would bring its virtual
cluster above its quota, otherwise *fragmentation delay*.  Part of the latter is *borrowed*: there are not
even enough free GPUs, since others hold more than theirs.

Jobs of one virtual cluster and size share the reason at any moment, but for one in a pause between two
attempts, which keeps that of the attempt before.  So the reason is noted by class, when it changes, and
computed for a job when its wait is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, TypedDict

import numpy as np

from rota.model.columns import Floats, Ints
from rota.model.grants import Code, Constraint
from rota.scheduler.decision import Memory
from rota.systems.philly.gang import Attempts, Cycle
from rota.systems.philly.quota import QuotaShares

FAIR_SHARE: Final = "fair share"
FRAGMENTATION: Final = "fragmentation"
BORROWED: Final = "borrowed"
LABELS: Final = (FAIR_SHARE, FRAGMENTATION, BORROWED)

Class = tuple[str, int]
"""Virtual cluster and GPUs of a job."""


class ReasonHistory(TypedDict):
    """Reasons of one class, in order of time; the arrays have room to grow."""

    changes: int
    at_s: Floats
    label: Ints
    """Places in `LABELS`."""


def size_bucket(gpus: int) -> str:
    """The classes of the study: 1, 2-4, 5-8 and more GPUs."""
    return "1" if gpus <= 1 else "2-4" if gpus <= 4 else "5-8" if gpus <= 8 else ">8"


def label_of(shares: QuotaShares, name: str, gpus: int, free: float) -> str:
    """Why a job of virtual cluster `name` waits while `free` GPUs are not granted to any job."""
    if not shares.is_due(name, gpus):
        return FAIR_SHARE
    return BORROWED if free < gpus else FRAGMENTATION


class Delays:
    """Reads and writes the attribution in a policy's memory, under `labels` and `delay_s`."""

    def __init__(self, memory: Memory, cycle: Cycle) -> None:
        self.labels: dict[str, dict[int, ReasonHistory]] = memory.setdefault("labels", {})
        """By virtual cluster and GPUs, for classes with waiting jobs."""
        self.delay_s: dict[str, dict[str, float]] = memory.setdefault("delay_s", {})
        """Seconds of the waits that are over, by class of size and label."""
        self.cycle = cycle

    def label(self, classes: Iterable[Class], label: Callable[[str, int], str], now: float) -> None:
        """From `now` on, jobs of `classes` wait for the reason `label`; other classes have none waiting."""
        kept: dict[str, dict[int, ReasonHistory]] = {}
        for name, gpus in classes:
            history = self.labels.get(name, {}).get(gpus) or _history()
            _note(history, LABELS.index(label(name, gpus)), now)
            kept.setdefault(name, {})[gpus] = history
        self.labels.clear()
        self.labels.update(kept)

    def begin(self, classes: Iterable[Class], label: Callable[[str, int], str], now: float) -> None:
        """Record that jobs of `classes` in which none has waited wait for reason `label`, and always have."""
        for name, gpus in classes:
            of_name = self.labels.setdefault(name, {})
            if gpus not in of_name:
                of_name[gpus] = _history()
                _note(of_name[gpus], LABELS.index(label(name, gpus)), now)

    def close(self, of: Class, attempts: Attempts, now: float) -> None:
        """Close the wait of a job of the class."""
        since = attempts["since_s"]
        if now <= since:
            return
        seconds = self.seconds(self.labels[of[0]][of[1]], since, now)
        total = self.delay_s.setdefault(size_bucket(of[1]), {})
        for label, part in zip(LABELS, seconds, strict=True):
            if part > 0.0:
                total[label] = total.get(label, 0.0) + part

    def seconds(self, history: ReasonHistory, since: float, now: float) -> list[float]:
        """Seconds of a wait from `since` to `now` by the reason they are due to, in the order of `LABELS`.

        A change in a pause counts from the next opening on: until then the reason of the attempt holds.
        """
        first, end = _last(history, since, "right"), history["changes"]
        moments_s: list[float] = history["at_s"][first + 1 : end].tolist()
        labels: list[int] = history["label"][first:end].tolist()
        timeout_s, period_s = self.cycle.timeout_s, self.cycle.period_s
        seconds, begin_s, place = [0.0] * len(LABELS), since, 0
        for moment_s in moments_s:
            phase_s = (moment_s - since) % period_s
            end_s = moment_s if phase_s < timeout_s else moment_s - phase_s + period_s
            if end_s > now:
                end_s = now
            seconds[labels[place]] += end_s - begin_s
            begin_s = end_s
            place += 1
        seconds[labels[place]] += now - begin_s
        return seconds

    def now(self, of: Class, attempts: Attempts, now: float) -> str:
        """Why a job of the class waits."""
        history, until = self.labels[of[0]][of[1]], self.cycle.until_s(attempts, now)
        place = _last(history, now, "right") if now < until else _last(history, until, "left")
        return LABELS[history["label"].item(place)]


def _history() -> ReasonHistory:
    return ReasonHistory(changes=0, at_s=np.zeros(8), label=np.zeros(8, dtype=np.int64))


def _note(history: ReasonHistory, label: int, now: float) -> None:
    """Note that `label` holds from `now` on."""
    n = history["changes"]
    if n and history["label"].item(n - 1) == label:
        return
    if n == len(history["at_s"]):
        history["at_s"] = np.append(history["at_s"], np.zeros(n))
        history["label"] = np.append(history["label"], np.zeros(n, dtype=np.int64))
    history["at_s"][n], history["label"][n] = now, label
    history["changes"] = n + 1


def _last(history: ReasonHistory, moment_s: float, side: Literal["left", "right"]) -> int:
    """Place of the label that held at the moment ("right"), or just before it ("left")."""
    at_s = history["at_s"][: history["changes"]]
    return max(0, int(at_s.searchsorted(moment_s, side=side)) - 1)


class DelayReasons(Mapping[int, Constraint]):
    """The labels of waiting jobs as constraints, made when asked for."""

    def __init__(
        self,
        delays: Delays,
        shares: QuotaShares,
        free: float,
        waits: Mapping[int, Attempts],
        class_of: Callable[[int], Class],
        now: float,
    ) -> None:
        self.delays = delays
        self.shares = shares
        self.free = free
        self.waits = waits
        self.class_of = class_of
        self.now = now

    def __iter__(self) -> Iterator[int]:
        return iter(self.waits)

    def __contains__(self, row: object) -> bool:
        return row in self.waits

    def __len__(self) -> int:
        return len(self.waits)

    def __getitem__(self, row: int) -> Constraint:
        name, gpus = self.class_of(row)
        label = self.delays.now((name, gpus), self.waits[row], self.now)
        if label == FAIR_SHARE:
            return Constraint(Code.QUOTA, self.shares.used[name] + gpus, self.shares.quota[name], name)
        if label == BORROWED:
            return Constraint(Code.RESOURCES, gpus, self.free)
        return Constraint(Code.LOCALITY, gpus, self.free, "locality is given up step by step")
