"""Shockwave where a round brings a job nothing: its turns grow until they do, whatever the plan says."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from play import play
from rota.worlds.simulated import headway
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import WATCH_EVERY, Setting

SETTINGS = {
    "bears nothing": Setting(can=parse_can("nothing")),
    "long starts": Setting(costs=parse_costs("restore=6m")),
    "dear stops": Setting(costs=parse_costs("preempt=120s")),
    "long first starts": Setting(costs=parse_costs("start=5m,restore=5m")),
}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headway, "MOST_WITHOUT", 2 * WATCH_EVERY)


def scenes() -> Iterator[tuple[str, str]]:
    """Jobs that all need several rounds of two minutes, more than there is room for at once."""
    yield "A 1x1800 B 1x1800", "1x1"
    draw = random.Random(5)
    for nodes in (1, 2):
        jobs = [
            f"{name} {draw.choice((1, 1, 2, 4))}x{draw.randrange(150, 2000)}@{draw.randrange(0, 900)}"
            for name in "ABCDEF"
        ]
        yield " ".join(jobs), f"{nodes}x4"
    draw = random.Random(6)  # nobody would get on for days here, if turns did not grow
    jobs = [
        f"{name} {draw.choice((1, 1, 2, 4))}x{draw.randrange(150, 4000)}@{draw.randrange(0, 900)}"
        for name in "ABCDEFGH"
    ]
    yield " ".join(jobs), "1x4"


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("jobs", "cluster"), list(scenes()))
def test_everybody_comes_to_an_end(jobs: str, cluster: str, setting: Setting) -> None:
    record = play("shockwave", jobs, cluster, setting)
    assert set(record.jobs["state"]) == {"COMPLETED"}
