"""Storms: kills, failing writes, users and operators who change their minds, all at random, in one thread.

A seed repeats a storm to the letter: `pytest tests/server/test_site_storms.py -k 'seed-17'`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from site_play import Killed, Site
from test_site_crashes import load

from rota.server.store.failures import StoreError
from tiers import first

POLICIES = ["fifo:skip=yes", "las:quantum=3", "tiresias:limits=10", "srsf", "gandiva:quantum=4"]
JOBS, NODES = 12, {"n0": 2, "n1": 2, "n2": 4}
CALM_EVERY = 40
"""Turns after which people release everything they hold, so that the storm can end."""


class Storm:
    """Everything that can go wrong, as `seed` has it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.is_on = False
        policy = self.chooser.choice(POLICIES)
        self.site = Site(folder, NODES, policy, faults=self.fault)
        load(self.site, self.chooser, JOBS)

    def fault(self, point: str) -> None:
        """A write fails, or the controller dies in the middle of it."""
        if self.is_on:
            dice = self.chooser.random()
            if dice < 0.01:
                raise Killed(point)
            if dice < 0.02:
                raise StoreError(f"the disk is full ({point})")

    def blow(self, turn: int) -> None:
        """Something may happen between two turns."""
        try:
            self._blow(self.chooser.random())
            if turn % CALM_EVERY == CALM_EVERY - 1:
                self._calm()
        except (StoreError, Killed):
            return  # the API would have answered that it was not done

    def _blow(self, dice: float) -> None:
        site, choose = self.site, self.chooser.choice
        node = choose(list(NODES))
        if dice < 0.05:
            site.kill_controller()
        elif dice < 0.12:
            site.kill_agent(node)
        elif dice < 0.15:
            site.kills += site.machines[node].kill_shim(self.chooser)
        elif dice < 0.17:
            verb = choose(["suspend", "resume", "hold", "release", "requeue"])
            site.command(verb, self.chooser.randrange(JOBS), reason="")
        elif dice < 0.19:
            site.command(choose(["drain", "undrain", "undrain"]), node=choose(["n0", "n1"]), reason="")
        elif dice < 0.195:
            site.command("policy", policy=choose(["fifo:skip=yes", "las:quantum=3", "srsf"]))

    def _calm(self) -> None:
        for row in range(JOBS):
            self.site.command("resume", row)
            self.site.command("release", row)
        for node in ("n0", "n1"):
            self.site.command("undrain", node=node)

    def rage(self) -> None:
        """Until all jobs have ended, each as its program did."""
        self.is_on = True
        self.site.run(3000, between=self.blow)
        self.is_on = False
        self.site.check_end()


@pytest.mark.parametrize("seed", first(2, range(4)), ids=lambda seed: f"seed-{seed}")
def test_storm(tmp_path: Path, seed: int) -> None:
    Storm(tmp_path, seed).rage()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 64), ids=lambda seed: f"seed-{seed}")
def test_more_storms(tmp_path: Path, seed: int) -> None:
    Storm(tmp_path, seed).rage()
