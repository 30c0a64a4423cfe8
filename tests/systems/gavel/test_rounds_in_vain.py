"""Gavel where a round brings a job nothing: its turns grow until they do."""

from __future__ import annotations

import pytest

from play import finishes, play
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting


@pytest.mark.parametrize("policy", ["gavel", "gavel:pairs=yes", "gavel:objective=isolated"])
@pytest.mark.parametrize(
    ("setting", "ends"),
    [
        # turns of 1 1 2 2 4 4 rounds each, and the one that is long enough
        (Setting(can=parse_can("nothing")), {"A": 11880, "B": 13680}),
        # from its second turn on, in which it only started, each works for one round of two
        (Setting(costs=parse_costs("restore=6m")), {"A": 6480, "B": 7200}),
    ],
    ids=["bears nothing", "long starts"],
)
def test_turns_in_vain_grow(policy: str, setting: Setting, ends: dict[str, float]) -> None:
    assert finishes(play(policy, "A 1x1800 B 1x1800", "1x1", setting)) == ends


def test_pairs_come_to_their_ends() -> None:
    """Nobody of three that bear nothing is held up for ever, whoever shares GPUs with whom meanwhile."""
    setting = Setting(can=parse_can("nothing"))
    record = play("gavel:pairs=yes", "A 1x1800 B 1x900 C 1x2400 D 2x1300", "1x2", setting)
    assert set(record.jobs["state"]) == {"COMPLETED"}
