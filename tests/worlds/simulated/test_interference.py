"""What jobs do to each other on one device, and what handing a device on costs."""

from __future__ import annotations

import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Role
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.pace import At
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration

START = At(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("company", "workload", "others", "expected", "why"),
    [
        (Interference({("a", "b"): (0.8, 0.7)}), "a", ["b"], 0.8, "measured"),
        (Interference({("a", "b"): (0.8, 0.7)}), "b", ["a"], 0.7, "measured, seen from the other side"),
        (Interference({("a", "b"): (0.8, 0.7)}), "a", ["c"], None, "nobody knows c"),
        (Interference({("a", "b"): (0.8, 0.7)}, {"*": 0.5}), "a", ["b"], 0.8, "a measurement comes first"),
        (
            Interference(utilisation={"a": 0.3, "b": 0.4}),
            "a",
            ["b"],
            0.95,
            "both fit: only sharing itself costs",
        ),
        (
            Interference(utilisation={"a": 0.8, "b": 0.8}),
            "a",
            ["b"],
            0.95 / 1.6,
            "more than there is",
        ),
        (Interference(utilisation={"*": 1.0}), "a", ["b", "c"], 0.95 / 3, "three in company"),
        (Interference(), "a", [], 1.0, "nobody beside"),
    ],
)
def test_rates_in_company(
    company: Interference, workload: str, others: list[str], expected: float | None, why: str
) -> None:
    assert company.rate(workload, others) == pytest.approx(expected), why


def test_the_speed_model_asks_the_company_and_tells_what_jobs_leave_of_a_device() -> None:
    """Packed jobs run as measured, whatever their shares; utilisation is there for policies that need it."""
    trace = trace_of("A 1x10 B 1x10 C 1x10", workload=(0, 1, -1), workload_names=("a", "b"))
    company = Interference({("a", "b"): (0.8, 0.7)}, {"a": 0.3})
    model = FixedDuration(trace.jobs, parse_cluster("1x1"), Slowdowns(company=company))
    first, second, third = (Grant(row, (0,), 0.5, Role.PACKED) for row in range(3))
    assert model.pace(0, first, [second], START).rate == 0.8
    assert model.pace(1, second, [first], START).rate == 0.7
    assert model.pace(0, first, [], START).rate == 1.0
    assert model.pace(2, third, [first], START).rate == 0.5, "unknown: its share"
    assert model.knowledge[Knowledge.UTILISATION].known().tolist() == [0.3, 1.0, 1.0]


@pytest.mark.parametrize(
    ("company", "problem"),
    [
        ({"utilisation": {"a": 0.0}}, "workload a uses 0 of a device"),
        ({"utilisation": {"a": 1.2}}, "workload a uses 1.2 of a device"),
        ({"pairs": {("a", "b"): (0.5, -0.1)}}, "a, b has a negative rate"),
    ],
)
def test_impossible_company_is_refused(company: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Interference(**company)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("costs", "expected", "why"),
    [
        (Costs(switch=CostModel(2.0)), {"A": 184, "B": 122}, "B pays at 60, A at 122"),
        (
            Costs(restore=CostModel(9.0), checkpoint=CostModel(9.0)),
            {"A": 180, "B": 120},
            "nothing is restored",
        ),
        (
            Costs(start=CostModel(5.0), switch=CostModel(2.0)),
            {"A": 194, "B": 127},
            "first starts cost as ever",
        ),
    ],
)
def test_handing_a_device_on(costs: Costs, expected: dict[str, float], why: str) -> None:
    """A runs 60 s, then B is done in one turn of 60 s, then A goes on."""
    found = finishes(play("gandiva:switch=10", "A 1x120 B 1x60", "1x1", Setting(costs=costs)))
    assert found == expected, why
