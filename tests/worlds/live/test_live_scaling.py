"""Nodes that are too many are emptied and released, those that are too few come back or are asked for."""

from __future__ import annotations

from dataclasses import replace

from live_stage import SETTINGS, Stage

from rota.wire.sync import Capability, PartStatus
from rota.worlds.live.wanted_nodes import ScaleLimits, Scaling

LIMITS = ScaleLimits(1, 3, cooldown_s=0.0)


def stage(limits: ScaleLimits = LIMITS, **nodes: int) -> tuple[Stage, Scaling]:
    made = Stage(settings=replace(SETTINGS, lost_after_s=40.0), **(nodes or {"n1": 1, "n2": 1, "n3": 1}))
    scaling = made.world.live.scaling = Scaling(limits)
    made.world.attach(made.loop.state)
    made.wait(1.0)
    return made, scaling


def want(made: Stage, nodes: int) -> None:
    """The policy wants so many nodes, and the world has looked at that."""
    made.decide(wanted_nodes=nodes)
    made.wait(1.0)


def states(made: Stage) -> dict[str, str]:
    return {node.name: node.state for node in made.nodes}


def test_nobody_asks_and_nothing_happens() -> None:
    made, scaling = stage()
    made.wait(60.0)
    assert (scaling.wanted, scaling.released, set(states(made).values())) == (3, set(), {"up"})


def test_within_the_limits() -> None:
    made, scaling = stage(ScaleLimits(2, 3, cooldown_s=0.0))
    want(made, 1)
    assert scaling.wanted == 2
    want(made, 9)
    assert scaling.wanted == 3


def test_who_holds_least_leaves_first_and_is_released_once_it_is_empty() -> None:
    made, scaling = stage()
    row = made.submit()
    made.start(row, 1)
    want(made, 1)
    assert states(made) == {"n1": "drained", "n2": "up", "n3": "drained"}
    assert scaling.released == {"n1", "n3"}
    assert made.free() == []


def test_a_node_with_a_job_is_released_when_the_job_has_left() -> None:
    made, scaling = stage(n1=1, n2=1)
    first, second = made.submit(), made.submit()
    made.start(first, 0)
    made.start(second, 1)
    want(made, 1)
    assert (states(made)["n2"], scaling.released) == ("drained", set())
    made.wait(30.0)
    assert scaling.released == set()
    made.end(second)
    made.wait(2.0)
    assert scaling.released == {"n2"}
    assert made.events("autoscale")[-1] == "node n2 is empty: its machine may go"


def test_a_node_that_leaves_comes_back_if_it_is_wanted_again_but_not_once_it_is_released() -> None:
    made, scaling = stage(n1=1, n2=1, n3=1)
    for device in (0, 1):
        made.start(made.submit(), device)
    want(made, 1)
    assert states(made) == {"n1": "up", "n2": "drained", "n3": "drained"}
    want(made, 3)
    assert states(made) == {"n1": "up", "n2": "up", "n3": "drained"}, "its machine may be gone by now"
    assert scaling.wanted == 3


def test_a_released_node_whose_agent_leaves_is_forgotten() -> None:
    made, scaling = stage(n1=1, n2=1)
    want(made, 1)
    made.tell("n2", leaving=True)
    made.wait(2.0)
    assert (states(made)["n2"], scaling.released, scaling.gone) == ("forgotten", set(), {"n2"})
    assert any(news.rebuild for news in made.news)


def test_one_that_dies_with_its_job_is_released_and_forgotten_as_well() -> None:
    made, scaling = stage(n1=1, n2=1)
    for device in (0, 1):
        made.start(made.submit(), device)
    want(made, 1)
    made.silent = frozenset({"n2"})
    made.wait(80.0)
    assert (states(made)["n2"], scaling.gone) == ("forgotten", {"n2"})


def test_an_agent_that_is_away_for_a_moment_counts() -> None:
    made, scaling = stage(n1=1, n2=1)
    made.tell("n2", leaving=True)
    want(made, 2)
    assert (scaling.wanted, states(made)) == (2, {"n1": "up", "n2": "away"})


def test_changes_keep_their_distance_and_the_last_word_counts() -> None:
    made, scaling = stage(replace(LIMITS, cooldown_s=100.0))
    want(made, 2)
    assert scaling.wanted == 2, "the first change waits for nothing"
    want(made, 3)
    want(made, 1)
    made.wait(90.0)
    assert scaling.wanted == 2
    made.wait(15.0)
    assert scaling.wanted == 1


def test_who_is_not_to_be_taken_away_stays() -> None:
    made, _ = stage(replace(LIMITS, nodes="w*"), n1=1, w2=1, w3=1)
    want(made, 1)
    assert states(made) == {"n1": "up", "w2": "drained", "w3": "drained"}


def test_a_person_may_keep_a_node_that_leaves() -> None:
    made, scaling = stage(n1=1, n2=1)
    made.start(made.submit(), 0)
    made.start(made.submit(), 1)
    want(made, 1)
    made.ask("undrain", node="n2")
    assert states(made)["n2"] == "up"
    want(made, 2)
    assert (scaling.wanted, scaling.released) == (2, set())


def test_who_is_suspended_there_leaves_the_memory_by_a_checkpoint() -> None:
    made, scaling = stage(n1=1, n2=1)
    row = made.submit()
    made.start(
        row,
        1,
    )
    made.tell(
        "n2",
        made.report(
            row,
            PartStatus.RUNNING,
            capability=Capability(suspend="signal", checkpoint=True, training="torch"),
        ),
    )
    made.ask("suspend", row)
    made.tell("n2", made.report(row, PartStatus.SUSPENDED))
    assert made.state(row) == "SUSPENDED"
    want(made, 1)
    made.wait(2.0)
    assert scaling.released == set()
    assert made.wanted("n2", row, 1) == "leave"
    made.end(row, 143)
    made.wait(2.0)
    assert scaling.released == {"n2"}


def test_it_is_read_as_it_was_stored() -> None:
    made, scaling = stage()
    want(made, 1)
    again = Scaling.read(LIMITS, scaling.plain())
    assert again.plain() == scaling.plain()
    assert Scaling.read(LIMITS, None) == Scaling(LIMITS)
    assert any(news.scaling for news in made.news)
