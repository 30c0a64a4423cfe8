"""Levels above and below the machines of a live cluster: how they are said, and cells of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from answers_play import AskedSite, site
from test_tenants_moved import ADMIN, Asked

from rota.errors import InputError
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.server.config import choose
from rota.server.policies import Policies
from rota.server.tenants.layout import layout_of
from rota.wire.views import PolicyView

RACKS = [
    {"nodes": ["a1", "a2"], "levels": {"rack": "ra"}, "device_levels": {"socket": 4, "pair": 2}},
    {"nodes": "b?", "levels": {"rack": "rb"}, "device_levels": {"socket": 4, "pair": 2}},
]
TWO_RACKS = {"a1": 8, "b1": 8, "a2": 8, "b2": 8}


def test_where_machines_stand() -> None:
    """The first entry that fits counts; a machine of none, or of another size, stops nobody."""
    layout = layout_of([*RACKS, {"nodes": "*", "device_levels": {"socket": 2, "pair": 1}}])
    assert [layout.levels_of(name) for name in ("a2", "b7", "c1")] == [
        {"rack": "ra"},
        {"rack": "rb"},
        {"rack": "c1"},
    ]
    assert layout.device_levels_of("a1", 8) == {"socket": 4, "pair": 2}
    assert layout.device_levels_of("a1", 6) == {"socket": 6, "pair": 2}
    assert layout.device_levels_of("a1", 3) == {"socket": 3, "pair": 3}
    assert layout.device_levels_of("c1", 4) == {"socket": 2, "pair": 1}
    assert layout.device_levels_of("a1", 0) == {}


WRONG: list[tuple[Any, str]] = [
    ({"rack": "r0"}, "layout: {'rack': 'r0'} is no list"),
    ([{"node": "a"}], "layout: entry 1: 'node' is no setting; did you mean nodes?"),
    ([{"levels": {"rack": "r0"}}], "layout: entry 1: nodes: None is wrong"),
    ([{"nodes": "a", "levels": {"rack": 3}}], "layout: entry 1: levels: {'rack': 3} is wrong"),
    ([{"nodes": "a", "levels": "r0"}], "layout: entry 1: levels: 'r0' is wrong"),
    (
        [{"nodes": "a"}, {"nodes": "b", "device_levels": {"socket": 4, "pair": 3}}],
        "layout: entry 2: device_levels: {'socket': 4, 'pair': 3} is wrong; .* each dividing the one before",
    ),
    ([{"nodes": "a", "device_levels": {"pair": 0}}], "layout: entry 1: device_levels: {'pair': 0} is wrong"),
    (
        [{"nodes": "a", "levels": {"rack": "r0"}}, {"nodes": "b", "levels": {"row": "1", "rack": "r1"}}],
        "layout: levels: one entry has row, rack and another rack; expected the same",
    ),
    ([{"nodes": "a", "levels": {"node": "r0"}}], "layout: node names two levels"),
    (
        [{"nodes": "a", "levels": {"x": "r0"}, "device_levels": {"x": 2}}],
        "layout: x names two levels; expected another name",
    ),
]


@pytest.mark.parametrize(("said", "sentence"), WRONG)
def test_what_is_wrong_is_said_in_one_sentence(said: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        layout_of(said)
    assert "\n" not in str(caught.value)


def test_a_level_that_nobody_names_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    settings = {"layout": RACKS, "tenants": {"vision": {"cells": [{"level": "rack"}, {"level": "pair"}]}}}
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    assert choose(tmp_path, {}, {}).config.layout == RACKS
    settings["tenants"] = {"vision": {"cells": [{"level": "rakc"}]}}
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    with pytest.raises(InputError) as caught:
        choose(tmp_path, {}, {})
    assert str(caught.value) == (
        f"{file}: tenants: vision: cells: the setting `layout` has no level rakc; did you mean rack?"
    )


def owns(**cells: list[CellQuota]) -> Tenants:
    return Tenants.of(*(Tenant(path, cells=tuple(own)) for path, own in cells.items()))


def made(folder: Path, tenants: Tenants, nodes: dict[str, int] | None = None) -> AskedSite:
    s = site(folder / "site", "hived", nodes or TWO_RACKS)
    s.with_tenants(tenants, layout_of(RACKS))
    s.turn()
    return s


RACK_AND_SOCKETS = owns(vision=[CellQuota("rack", 1)], speech=[CellQuota("socket", 2), CellQuota("pair", 1)])


def nodes_of(s: AskedSite, row: int) -> set[str]:
    world = s.scheduler.world
    assert world is not None
    attempt = world.live[row].attempt
    assert attempt is not None
    return {place.name for place in attempt.places}


def test_cells_of_racks_and_sockets_are_kept_on_a_live_cluster(tmp_path: Path) -> None:
    """Opportunists fill all; whoever has cells gets them whole: a rack, sockets on one node, a pair."""
    s = made(tmp_path, RACK_AND_SOCKETS)
    others = [s.submit(9000.0, gpus=8, tenant="guest") for _ in range(4)]
    for row in others:
        s.until(row, "RUNNING")
    gang = s.submit(900.0, gpus=16, tenant="vision")
    socket = s.submit(900.0, gpus=4, tenant="speech")
    for row in (gang, socket):
        s.until(row, "RUNNING")
    assert nodes_of(s, gang) in ({"a1", "a2"}, {"b1", "b2"}), "a rack"
    assert s.scheduler.guaranteed() == {gang, socket}
    assert nodes_of(s, socket).isdisjoint(nodes_of(s, gang))
    asked = Asked(s)
    assert [(cell.level, cell.count, cell.gpus) for cell in asked.view("speech").cells] == [
        ("socket", 2, 8),
        ("pair", 1, 2),
    ]
    assert asked.view("vision").entitled == 16.0
    assert asked.service.troubles() == []


def test_a_fixed_rack_is_for_jobs_that_name_it(tmp_path: Path) -> None:
    """A unit's name is as good as those of its nodes; whoever names none is told why it has no rack."""
    s = made(tmp_path, owns(vision=[CellQuota("rack", 1, at="rb")]))
    gang = s.submit(900.0, gpus=16, tenant="vision", node_set="rb")
    s.until(gang, "RUNNING")
    assert nodes_of(s, gang) == {"b1", "b2"}
    assert s.scheduler.guaranteed() == {gang}
    nowhere = s.submit(900.0, gpus=16, tenant="vision")
    s.until(nowhere, "CANCELLED")
    job = s.store.job(nowhere)
    assert job is not None
    assert "(its fixed cells are for jobs that name their nodes: rb)" in job.now.cause


TOO_MUCH = [
    (owns(vision=[CellQuota("rack", 3)]), "tenants are promised 3 rack cells .* the cluster has 2"),
    (
        owns(vision=[CellQuota("rack", 1)], speech=[CellQuota("socket", 5)]),
        "tenants are promised 5 socket cells .* the cluster has 4",
    ),
    (
        owns(vision=[CellQuota("rack", 1, at="ra")], speech=[CellQuota("node", 1, at="a2")]),
        "two fixed cells of tenants, at ra and at a2, have GPUs in common",
    ),
    (
        owns(vision=[CellQuota("row", 1)]),
        "vision has the level row, which the cluster has not",
    ),
    (owns(vision=[CellQuota("rack", 1, at="rc")]), "a cell of tenant vision is at the rack rc"),
]


@pytest.mark.parametrize(("tenants", "sentence"), TOO_MUCH)
def test_what_the_machines_cannot_hold_is_refused_with_its_level(
    tmp_path: Path, tenants: Tenants, sentence: str
) -> None:
    asked = Asked(made(tmp_path, RACK_AND_SOCKETS))
    with pytest.raises(InputError, match=sentence):
        asked.move(tenants, yes=True)
    assert asked.view("vision").entitled == 16.0, "nothing was moved"


def set_again(s: AskedSite, policy: str) -> PolicyView:
    """What whoever sets `policy` is told; nothing is done."""
    said = PolicyView(policy=policy, since_s=0.0, by="root")
    answers = SimpleNamespace(try_policy=lambda policy: None, new_policy=lambda policy: said)
    commands = SimpleNamespace(give=lambda *given: {})
    return Policies(commands, answers, Asked(s).service.troubles).set_policy(ADMIN, policy)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "runs_s", "warns"),
    [
        ("elasticflow", 60.0, True),
        ("elasticflow:min_run_s=60", 60.0, False),
        ("elasticflow", 0.0, False),
        ("partition:policy=elasticflow", 60.0, True),
        ("prerun:policy=elasticflow[min_run_s=60]", 60.0, False),
        ("tiresias", 60.0, False),
    ],
)
def test_who_sets_a_policy_hears_of_plans_that_stop_jobs_too_early(
    policy: str, runs_s: float, warns: bool
) -> None:
    """And whoever looks at the one in force, as `rota up` does."""
    said = PolicyView(policy=policy, since_s=0.0, by="root")
    answers = SimpleNamespace(
        try_policy=lambda policy: None, new_policy=lambda policy: said.model_copy(), policy=said.model_copy
    )
    commands = SimpleNamespace(give=lambda *given: {})
    policies = Policies(commands, answers, list, runs_s)  # type: ignore[arg-type]
    for view in (policies.set_policy(ADMIN, policy), policies.policy()):
        assert ["min_run_s=60 of elasticflow makes" in one for one in view.warnings] == [True] * warns


def test_a_rack_that_is_not_whole_is_told_with_its_nodes(tmp_path: Path) -> None:
    """While machines are still to join, and when one is lost, with what is missing."""
    s = made(tmp_path / "joining", RACK_AND_SOCKETS, {"a1": 8, "b1": 8, "a2": 8})
    uneven = "vision has the level rack, whose units hold unequal numbers of nodes (ra 2, rb 1); expected"
    [said] = Asked(s).service.troubles()
    assert set_again(s, "hived").warnings == [said]
    assert set_again(s, "fifo").warnings == []
    assert said.startswith("no job has a guarantee, since the cells of the tenants cannot be had: a cell of")
    assert uneven in said
    s = made(tmp_path / "lost", RACK_AND_SOCKETS)
    s.machines["b2"].is_up = False
    for _ in range(60):
        s.turn()
    [said] = Asked(s).service.troubles()
    assert said.startswith("guarantees are at risk while b2 is gone: a cell of tenant")
    assert uneven in said
