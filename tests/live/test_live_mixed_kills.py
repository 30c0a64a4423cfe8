"""kill -9 of anything among jobs of all kinds: short, elastic, sharing, arrays, in order, with a terminal."""

from __future__ import annotations

import random
import secrets
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from crashing import Load, Tended, check, crash, drain, persistently

from rota.server.store.rows import IntervalRow
from rota.server.store.store import Store
from tiers import first

SETTINGS: dict[str, Any] = {"back_off": 0.1, "back_off_most": 0.3, "deadline": 2.0}
KINDS = ("short", "plain", "cooperative", "elastic", "shared", "no device", "array", "after", "terminal")


class MixedLoad(Load):
    """As `Load`, with jobs of all these kinds."""

    def submit(self, kind: str = "", steps: int | None = None) -> str:
        """As `Load.submit`; an array is all of its jobs."""
        first = super().submit(kind or self.chooser.choice(KINDS), steps)
        known = {*self.ids, *self.before}
        others = [one["id"] for one in persistently(self.live, "GET", "/v1/jobs") if one["id"] not in known]
        self.ids += others
        return first

    def spec(self, kind: str, steps: int | None = None) -> dict[str, Any]:
        """What the next job asks for."""
        trains = kind in ("cooperative", "elastic")
        base = super().spec("cooperative" if trains else "plain", 1 if kind == "short" else steps)
        more: dict[str, dict[str, Any]] = {
            "short": {"gpus": 1},
            "elastic": {"gpus": 1, "gpus_min": 1, "gpus_max": 3},
            "shared": {"gpus": 1, "gpu_share": 0.5},
            "no device": {"gpus": 0},
            "array": {"gpus": 1, "array": "0-2%2"},
            "terminal": {"gpus": 1, "terminal": True},
        }
        if kind == "after" and self.ids:
            return {**base, "after": [{"job": self.chooser.choice(self.ids), "when": "any"}]}
        return {**base, **more.get(kind, {})}


def overused(intervals: Iterable[IntervalRow]) -> list[tuple[int, float, float]]:
    """Devices of which more than the whole was held, when, and how much."""
    changes: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for one in intervals:
        for device in one.devices if one.end_s > one.start_s else ():
            changes[device] += [(one.start_s, one.share), (one.end_s, -one.share)]
    wrong = []
    for device, moments in changes.items():
        held = 0.0
        for at_s, share in sorted(moments):  # who goes before who comes
            held += share
            if held > 1.0 + 1e-9:
                wrong.append((device, at_s, held))
    return wrong


def storm(folder: Path, seed: int, policy: str, kills: int) -> None:
    """So many kills; nothing lost, nothing doubled, no device used by more than fit on it."""
    print(f"seed {seed}")
    chooser = random.Random(seed)
    with Tended(folder, devices="cpu:3", policy=policy, **SETTINGS) as live:
        load = MixedLoad(live, folder / "evidence", chooser)
        done = crash(live, load, kills, chooser, jobs_at_once=8)
        drain(live, load)
        check(live, load)
    store = Store.open(None, live.home, lock_s=10.0)
    rows = [int(row.row) for row in store.jobs()]
    wrong = overused(one for row in rows for one in store.intervals(row))
    store.close()
    print(f"killed {dict(done)}, {len(load.ids)} jobs")
    assert not wrong
    assert sum(done.values()) >= kills


@pytest.mark.soak
def test_a_few_kills_among_jobs_of_every_kind(tmp_path: Path) -> None:
    storm(tmp_path, secrets.randbelow(10**6), "las:quantum=0.8", 10)


@pytest.mark.parametrize("policy", first(0, ["afs"], deep=["las:quantum=0.8", "fifo:skip=yes"]))
def test_many_kills_among_jobs_of_every_kind(tmp_path: Path, policy: str) -> None:
    storm(tmp_path, secrets.randbelow(10**6), policy, 100)
