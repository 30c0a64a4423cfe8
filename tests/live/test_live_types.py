"""Two agents whose devices are of different types: speeds are measured on each, and Gavel follows them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live_cluster import LiveCluster
from shared import attempts, python

pytestmark = pytest.mark.soak

LOOP = """
import rota.training as rota
job = rota.attach(state={"x": 1}, checkpoint_every_steps=5)
step_s = float(sys.argv[1 if "n1" in os.environ["ROTA_NODES"].split() else 2])
for step in job.steps(10**6):
    time.sleep(step_s)
    job.step(samples=1)
"""
"""Steps of so many seconds on n1, and of so many on others."""


@pytest.fixture
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    folder = tmp_path_factory.mktemp("types")
    policy = "gavel:objective=throughput,round_s=9"
    with LiveCluster(folder, devices="cpu:1:new", policy=policy, back_off=0.2) as live:
        live.start_agent("n2", "cpu:1:old")
        yield live


def test_who_gains_most_from_the_new_machine_ends_up_there(live: LiveCluster) -> None:
    """Both run on both types first: one is as fast on either, the other six times as fast on the new one."""
    nodes = live.client.call("GET", "/v1/nodes")
    types = {device["info"]["type"] for node in nodes for device in node["devices"]}
    assert types == {"new", "old"}
    steady = live.submit(*python(LOOP, 0.05, 0.05), workload="steady", name="steady")
    gains = live.submit(*python(LOOP, 0.05, 0.3), workload="gains", name="gains")

    def has_been(id: str) -> list[str]:
        return [node for attempt in attempts(live, id) for node in attempt["nodes"]]

    live.until(lambda: {"n1", "n2"} <= set(has_been(steady)), "a first run on each type")
    live.until(lambda: {"n1", "n2"} <= set(has_been(gains)), "a first run on each type")
    live.until(lambda: has_been(gains)[-1] == "n1" and has_been(steady)[-1] == "n2", "the better division")
    why = [reason["sentence"] for reason in live.why(gains)["reasons"]]
    assert any("takes turns: is to have 100% on new" in sentence for sentence in why), why
