"""What a policy is registered to do with priorities, kinds and weights is what it does with them."""

from __future__ import annotations

import pytest

from play import finishes, play, starts, trace_of
from rota.model.job_columns import JobKind
from rota.scheduler.policy import parse_policy, systems
from rota.systems.gavel.system import GavelObjective

NAMES = sorted(systems())
JOBS = "A 2x100 B 1x60@10 C 1x60@10 D 2x60@10"


def order(policy: str, priorities: list[int]) -> dict[str, float]:
    """First start of each job on two devices; the first takes both of them, the others wait."""
    trace = trace_of(JOBS, priority=priorities, limit_s=[100.0, 60.0, 60.0, 60.0])
    return starts(play(policy, trace, "1x2"))


@pytest.mark.parametrize("name", [name for name in NAMES if not systems()[name].heeds_priority])
def test_who_does_not_heed_them_decides_alike(name: str) -> None:
    assert order(name, [-1, 0, 3, 7]) == order(name, [0] * 4)


@pytest.mark.parametrize("policy", ["fifo", "fifo:skip=yes", "fifo:backfill=easy"])
def test_who_heeds_them_serves_higher_ones_first(policy: str) -> None:
    assert parse_policy(policy).heeds_priority
    told = order(policy, [0, 0, 0, 7])
    assert told["D"] < min(told["B"], told["C"])


def test_of_kinds_and_weights_what_is_inside_counts() -> None:
    assert parse_policy("partition:policy=gavel").heeds_weight
    assert parse_policy("partition:policy=hived").heeds_kind
    assert not parse_policy("prerun:policy=srtf").heeds_weight
    assert not parse_policy("synergy:policy=srtf").heeds_kind


@pytest.mark.parametrize(
    ("policy", "heeds"), [("partition:policy=fifo[skip=yes]", True), ("partition:policy=srtf", False)]
)
def test_a_variant_may_not(policy: str, heeds: bool) -> None:
    assert parse_policy(policy).heeds_priority is heeds


GAVEL = [f"gavel:objective={objective}" for objective in GavelObjective]
OTHERS = [name for name in NAMES if name not in ("gavel", "partition")]  # that needs a cluster in parts


def ends(policy: str, **columns: list[float]) -> dict[str, float]:
    """End of each job; three of them want the same two devices, for longer than a round."""
    trace = trace_of("A 2x4000 B 2x4000 C 2x4000", limit_s=[4000.0] * 3, **columns)
    return finishes(play(policy, trace, "1x2"))


@pytest.mark.parametrize("policy", [*OTHERS, *GAVEL])
def test_weights_count_where_they_are_said_to(policy: str) -> None:
    heeds = ends(policy, weight=[1.0, 1.0, 5.0]) != ends(policy, weight=[1.0] * 3)
    assert heeds is parse_policy(policy).heeds_weight


@pytest.mark.parametrize("policy", [*OTHERS, "gavel"])
def test_opportunists_count_where_they_are_said_to(policy: str) -> None:
    kinds = [float(JobKind.OPPORTUNISTIC), 0.0, 0.0]
    heeds = ends(policy, kind=kinds) != ends(policy, kind=[0.0] * 3)
    assert heeds is parse_policy(policy).heeds_kind
