"""Nothing is lost: the real scheduler and store, with kills and failing writes at every point."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from site_play import Killed, Site

from rota.server.store.failures import StoreError
from tiers import first

POLICIES = ["fifo:skip=yes", "las:quantum=3", "tiresias:limits=10"]


@pytest.mark.parametrize("policy", POLICIES)
def test_everything_ends_without_faults(tmp_path: Path, policy: str) -> None:
    site = Site(tmp_path, {"n0": 2, "n1": 2}, policy)
    load(site, random.Random(1), 12)
    site.run()
    site.check_end()


def load(site: Site, chooser: random.Random, jobs: int) -> None:
    """Jobs of 1 to 4 devices, some of which fail, or leave nothing behind when they are stopped."""
    for number in range(jobs):
        site.submit(
            chooser.uniform(1, 20),
            gpus=chooser.choice([1, 1, 1, 2, 2, 4]),
            ends="fail" if number % 7 == 6 else "ok",
            saves=chooser.random() < 0.7,
            retries=1000,
        )


def test_a_job_that_ended_while_nobody_was_there_did_not_take_too_long(tmp_path: Path) -> None:
    """Its limit has passed when the next controller comes, and it had finished before."""
    site = Site(tmp_path, {"n0": 2}, "fifo")
    row = site.submit(2.0, time_s=20.0)
    while not site.machines["n0"].bodies:
        site.turn()
    site.time.now += 3.0
    site.machines["n0"].happen()
    ended_s = site.time.now
    site.time.now += 60.0
    site.kill_controller()
    site.run()
    job = site.store.job(row)
    assert job is not None
    assert job.now.state == "COMPLETED"
    assert job.now.finish_s == pytest.approx(ended_s)
    assert job.now.run_s == pytest.approx(ended_s, abs=0.1)


@pytest.mark.parametrize("seed", first(1, range(6)))
@pytest.mark.parametrize("policy", POLICIES)
def test_random_kills(tmp_path: Path, policy: str, seed: int) -> None:
    """Controllers, agents and shims die at random between turns."""
    chooser = random.Random(seed)
    site = Site(tmp_path, {"n0": 2, "n1": 2}, policy)
    load(site, chooser, 12)

    def perhaps_kill(turn: int) -> None:
        dice = chooser.random()
        if dice < 0.15:
            site.kill_controller()
        elif dice < 0.3:
            site.kill_agent(chooser.choice(["n0", "n1"]))
        elif dice < 0.33:
            site.kills += site.machines[chooser.choice(["n0", "n1"])].kill_shim(chooser)

    site.run(between=perhaps_kill)
    site.check_end()
    assert site.kills


@pytest.mark.parametrize("kills", [0.0, 0.2])
def test_jobs_take_turns_on_a_machine_without_memory_for_all(tmp_path: Path, kills: float) -> None:
    """Two of them fill its 64 GiB, so that whoever is suspended has to leave; all end all the same."""
    chooser = random.Random(7)
    site = Site(tmp_path, {"n0": 2}, "gandiva:quantum=4")
    rows = [site.submit(12.0, memory_gib=30.0, retries=1000) for _ in range(4)]
    site.run(between=lambda turn: site.kill_controller() if chooser.random() < kills else None)
    site.check_end()
    ways = {attempt.number for row in rows for attempt in site.store.attempts(row)}
    assert max(ways) > 1, "nobody had to leave"
    assert bool(site.kills) == bool(kills)


@pytest.mark.parametrize("seed", first(1, range(6)))
def test_kills_between_durable_steps(tmp_path: Path, seed: int) -> None:
    """The controller dies at random points inside its writes."""
    chooser = random.Random(seed)
    armed = [False]

    def faults(name: str) -> None:
        if armed[0] and chooser.random() < 0.05:
            raise Killed(name)

    site = Site(tmp_path, {"n0": 2, "n1": 2}, "las:quantum=3", faults=faults)
    load(site, chooser, 10)
    armed[0] = True
    site.run()
    armed[0] = False
    site.check_end()
    assert site.kills


@pytest.mark.soak
def test_every_write_fails_in_turn(tmp_path: Path) -> None:
    """The n-th write of the run fails, for every n: the decision never happened, and all jobs end."""
    count = [0]
    failing = [-1]

    def faults(name: str) -> None:
        count[0] += 1
        if count[0] == failing[0]:
            raise StoreError(f"the disk is full ({name})")

    site = Site(tmp_path / "count", {"n0": 2}, "las:quantum=3", faults=faults)
    load(site, random.Random(3), 5)
    begun = count[0]
    site.run()
    total = count[0]
    for nth in range(begun + 1, total, max(1, (total - begun) // 60)):
        count[0], failing[0] = 0, -1
        again = Site(tmp_path / str(nth), {"n0": 2}, "las:quantum=3", faults=faults)
        load(again, random.Random(3), 5)
        failing[0] = nth
        again.run()
        again.check_end()
