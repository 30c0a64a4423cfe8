"""What an agent reports of a part: durations that say what they claim to."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rota.engines.rota.folder import Folder
from rota.engines.rota.live import Live
from rota.engines.rota.relay import Relay
from rota.engines.rota.telling import PartMemo, report_of
from rota.training import protocol
from rota.wire.sync import Mechanism, Part, PartStatus, Rank, Wanted

RANKS = [Rank(rank=0, local_rank=0, devices=[0]), Rank(rank=1, local_rank=1, devices=[1])]


class Play:
    """A running part of two ranks, and what its agent tells of it."""

    def __init__(self, folder: Path) -> None:
        part = Part(row=0, job="1", attempt=1, version=1, wanted=Wanted.RUN, ranks=RANKS, devices=[0, 1])
        self.live = Live(part, Folder(folder, folder), PartStatus.RUNNING, time.time())
        self.relay = Relay(folder, (0, 1))
        self.memo = PartMemo()
        self.folder = folder

    def say(self, rank: int, **costs: tuple[float, float]) -> None:
        protocol.write_rank(self.folder, protocol.RankState(rank=rank, step=1, costs=costs))

    def costs(self) -> dict[str, float]:
        self.relay.look()
        mechanisms: Any = SimpleNamespace(operations={}, relay=lambda live: self.relay, suspended_gib={})
        report = report_of(self.live, self.memo, mechanisms, "", "")
        return {cost.kind: cost.seconds for cost in report.costs}


def test_a_gang_is_ready_with_its_last_rank(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.say(0, ready=(0.5, 0.0))
    play.say(1)
    assert play.costs() == {}
    play.say(1, ready=(0.7, 0.0))
    assert play.costs() == {"ready": 0.7}


def test_time_in_which_it_was_stopped_is_not_counted_to_its_start(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.live.suspended = Mechanism.SIGNAL
    assert play.costs() == {}
    play.live.suspended = None
    play.say(0, ready=(600.0, 0.0))
    play.say(1, ready=(600.0, 0.0))
    assert play.costs() == {}


def test_a_suspension_after_the_first_step_takes_nothing_away(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.say(0, ready=(0.5, 0.0))
    play.say(1, ready=(0.6, 0.0))
    assert play.costs() == {"ready": 0.6}
    play.live.suspended = Mechanism.COOPERATIVE
    assert play.costs() == {"ready": 0.6}
