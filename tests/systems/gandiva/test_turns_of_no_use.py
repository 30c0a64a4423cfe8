"""Gandiva where a turn brings a job nothing: its turns grow until they do."""

from __future__ import annotations

import pytest

from play import finishes, play
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting


@pytest.mark.parametrize("policy", ["gandiva", "gandiva:packing=no,migration=no", "gandiva:switch=2"])
@pytest.mark.parametrize("seconds", [300, 1000])
@pytest.mark.parametrize(
    "setting",
    [
        Setting(can=parse_can("nothing")),
        Setting(costs=parse_costs("switch=60s")),
        Setting(costs=parse_costs("preempt=70s")),
    ],
    ids=["bears nothing", "long starts", "dear stops"],
)
def test_turns_in_vain_grow(policy: str, setting: Setting, seconds: int) -> None:
    """Two servers, gangs of one and of both, and a short job beside them."""
    jobs = f"A 1x{seconds} B 1x{seconds} C 2x{seconds} D 2x{seconds} E 1x20"
    record = play(policy, jobs, "2x1", setting)
    assert set(record.jobs["state"]) == {"COMPLETED"}


def test_two_that_save_nothing() -> None:
    """Turns of 1 1 1 2 2 4 4 minutes each (a turn may last half as long, so one more is in vain)."""
    record = play("gandiva", "A 1x300 B 1x300", "1x1", Setting(can=parse_can("nothing")))
    assert finishes(record) == {"A": 2100, "B": 2400}
