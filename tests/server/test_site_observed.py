"""What agents see of jobs reaches the policies, and is still known after the controller was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from site_play import EPOCH_S, Body, Machine, Site

from rota.knowledge.needs import Knowledge
from rota.wire.sync import ProgressReport, Report, Usage

PACKS = "gandiva:quantum=10"


def tells(
    site: Site, machine: Machine, usage: Callable[[Body], float], step_s: Callable[[Body], float]
) -> None:
    """Every report of this machine says what its programs use, and how long their steps take."""
    plain = machine._report

    def report(body: Body) -> Report:
        now = EPOCH_S + site.time.now
        said = ProgressReport(
            steps=int(body.done(site.time.now)), step_s=step_s(body), batch_size=8, at_s=now
        )
        used = Usage(at_s=now, cpu_cores=usage(body) * len(body.part.devices))
        return plain(body).model_copy(update={"usage": used, "progress": said})

    machine._report = report  # type: ignore[method-assign]


def known(site: Site) -> list[float]:
    """Utilisation of the first rows, as policies are told."""
    loop = site.scheduler.loop
    assert loop is not None
    values = loop.providers[Knowledge.UTILISATION].known()
    return [round(float(value), 3) for value in values[:2]]


def turns(site: Site, until_s: float) -> None:
    while site.time.now < until_s or site.scheduler.loop is None:
        site.turn()


def test_utilisation_is_measured_and_kept(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 2}, PACKS)
    tells(site, site.machines["n0"], lambda body: (0.3, 0.99)[body.part.row], lambda body: 0.1)
    site.submit(300)
    site.submit(300)
    turns(site, 30)
    assert known(site) == [1.0, 1.0]
    turns(site, 100)
    assert known(site) == [0.3, 1.0]
    site.kill_controller()
    turns(site, 101)
    assert known(site) == [0.3, 1.0]


def test_an_agent_that_says_nothing_has_seen_nothing_new(tmp_path: Path) -> None:
    """Agents tell a usage that has hardly changed but now and then: turns may be shorter than that."""
    site = Site(tmp_path, {"n0": 1}, "gandiva:quantum=20")
    tells(site, site.machines["n0"], lambda body: 0.3, lambda body: 0.1)
    talkative, said = site.machines["n0"]._report, set[int]()

    def report(body: Body) -> Report:
        found = talkative(body)
        if body.part.row in said or body.done(site.time.now) < 5.0:
            return found.model_copy(update={"usage": None})
        said.add(body.part.row)
        return found

    site.machines["n0"]._report = report  # type: ignore[method-assign]
    site.submit(300)
    site.submit(300)
    turns(site, 60)
    assert known(site) == [1.0, 1.0]
    turns(site, 250)
    assert known(site) == [0.3, 0.3]


def test_a_gang_is_as_busy_as_its_nodes_together(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 1, "n1": 1}, PACKS)
    for name, busy in (("n0", 0.2), ("n1", 0.6)):
        tells(site, site.machines[name], lambda body, busy=busy: busy, lambda body: 0.1)  # type: ignore[misc]
    site.submit(300, gpus=2)
    turns(site, 100)
    assert known(site)[0] == pytest.approx(0.4)


def test_a_suspended_job_is_not_watched(tmp_path: Path) -> None:
    """Nor is one whose devices nobody can see into."""
    site = Site(tmp_path, {"n0": 1}, PACKS)
    machine = site.machines["n0"]
    tells(site, machine, lambda body: 0.2, lambda body: 0.1)
    row = site.submit(300)
    turns(site, 10)
    site.command("suspend", row)
    turns(site, 200)
    assert known(site)[0] == 1.0
    world = site.scheduler.world
    assert world is not None
    assert world.live[row].observed.looked_s < 20.0


def test_the_length_of_a_step_is_kept_once_for_each_attempt(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 2})
    tells(site, site.machines["n0"], lambda body: 1.0, lambda body: 0.1 + body.part.row)
    site.submit(20)
    site.submit(30)
    site.run()
    steps = [(cost.kind, cost.seconds) for cost in site.store.costs()]
    assert steps == [("step", 0.1), ("step", 1.1)]


@pytest.mark.parametrize(("slower", "stays"), [(1.2, True), (3.0, False)], ids=["pays", "does not pay"])
def test_a_pair_is_judged_by_how_fast_its_programs_say_they_are(
    tmp_path: Path, slower: float, stays: bool
) -> None:
    """Two that sleep most of the time take turns on one slot until they are known; then they are tried."""
    site = Site(tmp_path, {"n0": 1}, PACKS)
    machine = site.machines["n0"]

    def step_s(body: Body) -> float:
        beside = sum(one.is_running for one in machine.bodies.values())
        return 0.1 * (slower if beside > 1 else 1.0)

    tells(site, machine, lambda body: 0.2, step_s)
    site.submit(400)
    site.submit(400)
    pairs: list[float] = []

    def note(turn: int) -> None:
        world = site.scheduler.world
        if world is not None and len(world.live.state.grants) == 2:
            pairs.append(site.time.now)

    site.run(between=note)
    site.check_end()
    assert pairs, "they were never tried beside each other"
    assert min(pairs) > 60.0
    assert (max(pairs) - min(pairs) > 60.0) == stays
