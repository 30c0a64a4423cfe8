"""A cluster of which all nodes were lost at a time serves everybody once they are back."""

from __future__ import annotations

import pytest

from play import play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.scheduler.policy import published, systems
from rota.testing.subject import variants
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting

CLUSTER = Cluster.build([NodeShape(2, 2, levels={"vc": "default"})])
LOST = Setting(faults=[Fault(0, 36.0, 64.0), Fault(1, 40.0, 70.0)])
MODES = [text for name in systems() for text in variants(name) if "mode=" in text]


@pytest.mark.parametrize("policy", [*systems(), *published(), *MODES])
def test_all_jobs_end(policy: str) -> None:
    record = play(policy, trace_of("A 2x100 B 2x100@1 C 1x10@50"), CLUSTER, LOST)
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 3
