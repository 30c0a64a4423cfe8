"""Jobs that leave and begin at one stroke: the same record and the same table as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rota.model.cluster import parse_cluster
from rota.model.trace import Trace
from rota.scheduler.loop import Loop
from rota.scheduler.moments.restore import stored
from rota.scheduler.policy import parse_policy
from rota.traces.generate import generate
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.world import SimulatedWorld

CLUSTER = parse_cluster("3x4")
TRACE = generate(120, seed=3, load=1.5, cluster=CLUSTER)


def run_on(policy: str, trace: Trace, *, swaps: bool, until_s: float) -> tuple[Loop, RunRecorder]:
    loop, recorder = prepare(parse_policy(policy).make(), trace, CLUSTER, Setting())
    assert isinstance(loop.world, SimulatedWorld)
    assert loop.world._may_swap, "nothing costs anything here"
    loop.world._may_swap = swaps
    loop.run(until_s)
    return loop, recorder


@pytest.mark.parametrize("policy", ["gandiva", "srtf", "las", "tiresias"])
def test_at_one_stroke_as_one_by_one(policy: str) -> None:
    """In the middle of a run that is too full, and at its end."""
    for until_s in (0.3 * float(TRACE.jobs.submit_s[-1]), float("inf")):
        (one, heard), (other, said) = (
            run_on(policy, TRACE, swaps=swaps, until_s=until_s) for swaps in (True, False)
        )
        assert heard.intervals == said.intervals
        assert (heard.ends, heard.reasons) == (said.ends, said.reasons)
        assert sum(interval[3] == "preempted" for interval in heard.intervals) > 5
        assert contents(one) == contents(other)


def contents(loop: Loop) -> dict[str, Any]:
    """All that the table says, but for the order in which it holds the rows."""
    kept = vars(stored(loop.state))
    columns = {
        f"{of}.{name}": np.nan_to_num(column, nan=-1.0).tolist()
        for of in ("columns", "progress")
        for name, column in kept[of].items()
    }
    state = loop.state
    return {
        **columns,
        "waiting": sorted(kept["waiting"]),
        "running": sorted(kept["running"]),
        "grants": dict(state.grants),
        "waiting_gpus": state.waiting_gpus,
        "log": list(state.log),
        "claimed": list(state.occupancy.claimed),
        "free": list(state.occupancy.free.devices),
    }
