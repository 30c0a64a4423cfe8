"""Every preset of timing rules carries any policy through a busy trace: all jobs end, the recount holds."""

from __future__ import annotations

import pytest

from rota.model.cluster import parse_cluster
from rota.traces.generate import generate
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.semantics import PRESETS, semantics
from tiers import in_turns

CLUSTER = parse_cluster("4x8")
TRACE = generate(60, seed=1, load=0.9, cluster=CLUSTER)


@pytest.mark.parametrize(
    ("preset", "policy"), in_turns(2, sorted(PRESETS), ["fifo", "srtf", "tiresias", "gandiva"])
)
def test_every_preset_runs(preset: str, policy: str) -> None:
    """No job is left behind, and none has run for less than no time."""
    record = run(policy, TRACE, CLUSTER, Setting(semantics=semantics(preset)))
    assert set(record.jobs["state"]) <= {"COMPLETED", "FAILED", "CANCELLED"}
    assert (record.jobs["finish_s"] >= record.jobs["start_s"]).all()
    assert (record.jobs["overhead_s"] >= 0).all()
