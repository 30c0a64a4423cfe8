"""Costs for a simulation from what a live cluster measured."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import rota
from rota.errors import InputError
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.wire.views import CostView
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.measured_costs import ENOUGH, measured_costs
from rota.worlds.simulated.run import Setting, run


def views(medians: Mapping[str, float], workload: str | None = None, count: int = 40) -> list[CostView]:
    return [CostView(kind=kind, workload=workload, count=count, seconds=s) for kind, s in medians.items()]


ALL = {"start": 0.1, "ready": 3.0, "step": 0.5, "leave": 2.0, "checkpoint": 1.0, "restore": 0.25,
       "stop": 9.0, "suspend": 0.2, "resume": 0.3}  # fmt: skip

RULES = [
    # measured                                  start  leave  restore  switch  why
    (ALL,                                        2.6,   2.0,   2.85,    0.5, "everything was measured"),
    ({"start": 0.1},                             0.1,   0.0,   0.1,     0.0, "nobody imports rota.training"),
    ({"start": 0.1, "ready": 0.3, "step": 5.0},  0.1,   0.0,   0.1,     0.0, "a short first step"),
    ({"start": 0.1, "stop": 9.0},                0.1,   9.0,   0.1,     0.0, "nobody can checkpoint"),
    ({"start": 0.1, "stop": 9.0, "checkpoint": 1.0}, 0.1, 1.0, 0.1,     0.0, "nobody was sent away yet"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("medians", "start", "leave", "restore", "switch", "why"), RULES, ids=[rule[-1] for rule in RULES]
)
def test_rules(
    medians: dict[str, float], start: float, leave: float, restore: float, switch: float, why: str
) -> None:
    costs = measured_costs(views(medians), "here")
    found = [cost.of("", 2) for cost in (costs.start, costs.checkpoint, costs.restore, costs.switch)]
    assert found == pytest.approx([start, leave, restore, switch]), why


def test_a_workload_measured_often_enough_has_costs_of_its_own() -> None:
    rows = views(ALL) + views({"start": 1.0}, "bert", ENOUGH) + views({"start": 50.0}, "rare", ENOUGH - 1)
    costs = measured_costs(rows, "here")
    assert costs.start.of("bert", 1) == pytest.approx(1.0 + 2.5)
    assert costs.start.of("rare", 1) == costs.start.of("", 1) == pytest.approx(2.6)


@pytest.mark.parametrize(
    ("counts", "remark"),
    [
        ({"start": 9, "ready": 9, "leave": 9}, ""),
        (
            {"start": 2},
            "Costs measured at here rest on 2 starts, no first steps, no departures.",
        ),
        (
            {"start": 1, "ready": 1, "leave": 1, "restore": 1},
            "Costs measured at here rest on 1 start, 1 first step, 1 departure, 1 restore.",
        ),
        ({"start": 9, "ready": 9, "stop": 1, "leave": 4}, "Costs measured at here rest on 4 departures."),
        (
            {"start": 9, "ready": 9, "leave": 9, "restore": 3, "suspend": 1},
            "Costs measured at here rest on 3 restores, 1 suspension.",
        ),
    ],
    ids=["enough", "hardly any", "one of each", "few departures", "few returns"],
)
def test_few_measurements_are_said(counts: dict[str, int], remark: str) -> None:
    rows = [CostView(kind=kind, count=count, seconds=1.0) for kind, count in counts.items()]
    assert measured_costs(rows, "here").remark == remark


def test_a_cluster_that_has_measured_nothing_is_no_source() -> None:
    with pytest.raises(InputError, match=r"here has not measured a single start.*expected"):
        measured_costs(views({"step": 1.0}), "here")


def two_jobs() -> Trace:
    jobs = JobTable.build(["1", "2"], submit_s=[0.0, 1.0], gpus=[1, 1])
    return Trace(jobs=jobs, truth=Truth.build([10.0, 10.0]), source="two", format="built")


def test_a_run_is_charged_and_says_where_its_costs_come_from() -> None:
    from rota.model.cluster import parse_cluster

    costs = measured_costs(views(ALL), "here")
    record = run("fifo", two_jobs(), parse_cluster("1x1"), Setting(costs=costs))
    assert record.jobs["finish_s"].to_list() == pytest.approx([12.6, 25.7])  # the second one switches as well
    assert record.provenance["costs_provenance"] == "measured"
    assert "source='here'" in str(record.provenance["costs"])
    stated = run("fifo", two_jobs(), parse_cluster("1x1"), Setting(costs=Costs()))
    assert "costs_provenance" not in stated.provenance


def test_the_remark_is_among_those_of_the_result() -> None:
    costs = measured_costs(views({"start": 1.0}, count=2), "here")
    results = rota.simulate(two_jobs(), cluster="1x1", costs=costs, workers=1)
    assert any("rest on 2 starts" in remark for remark in results.remarks)
    assert "Costs measured at here: start 1s, restore 1s." in results.remarks
