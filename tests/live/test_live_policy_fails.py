"""A user's policy that names a job that does not exist, or takes all memory: said, survived, replaced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster
from shared import FAST, python

from rota.client import Refused
from rota.scheduler.own_modules import MODULES

pytestmark = pytest.mark.slow

MINE = """
from pathlib import Path

from rota.scheduler.decision import Decision
from rota.scheduler.policy import Lever, register
from rota.stages.priority import ByPriority

FOLDER = Path(__file__).parent


@register("mine", "Serves the first, unless a file says otherwise", levers=frozenset({Lever.PREEMPT}))
class Mine:
    needs = frozenset()

    def __init__(self):
        self.inner = ByPriority(lambda snapshot, row: row)

    def decide(self, snapshot, memory):
        if (FOLDER / "off").exists():
            return Decision(memory, preempt=[len(snapshot.jobs.table.ids)])
        kept = []
        while (FOLDER / "gorge").exists():
            kept.append(b"x" * (1 << 24))
        return self.inner.decide(snapshot, memory)
"""
HOLDS = "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mine")
    (made / "mine.py").write_text(MINE)
    return made


@pytest.fixture(scope="module")
def live(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(MODULES, str(folder / "mine.py"))
        home = tmp_path_factory.mktemp("policy_fails")
        with LiveCluster(home, devices="cpu:1", policy="mine", policy_memory_gib=0.5, **FAST) as cluster:
            yield cluster


def troubles(live: LiveCluster) -> str:
    said: list[str] = live.client.call("GET", "/v1/status")["troubles"]
    return "\n".join(said)


def health(live: LiveCluster) -> dict[str, Any]:
    try:
        said: dict[str, Any] = live.client.call("GET", "/health")
    except Refused as refused:
        return {"ok": False, "error": str(refused)}
    return said


FAILS = {
    "off": "failed: Mine.decide gave preempt=3; expected a row from 0 on and below 3, the jobs submitted so",
    "gorge": "broke off: it wanted more than 0.5 GiB of memory, which is what the setting policy_memory_gib",
}


@pytest.mark.parametrize("how", FAILS)
def test_a_policy_that_fails_is_said_and_replaced_and_what_ended_has_ended(
    live: LiveCluster, folder: Path, how: str
) -> None:
    if how != "off":
        live.client.call("PUT", "/v1/policy", {"policy": "mine"})
    assert live.client.call("GET", "/v1/policy")["policy"] == "mine"
    live.until(lambda: not troubles(live), "no trouble is left of the policy before")
    go = folder / f"{how}.go"
    runs = live.submit(*python(HOLDS, go))
    live.reaches(runs, "RUNNING")
    (folder / how).touch()
    ends, waits = live.submit("true"), live.submit("true")
    live.until(lambda: FAILS[how] in troubles(live), "what is wrong")
    assert "in a row, since 20" in troubles(live) or "(once, since 20" in troubles(live)
    assert "its policy fails since 20" in health(live)["error"]
    go.touch()
    live.client.call("POST", f"/v1/jobs/{waits}/cancel")
    assert live.wait(runs)["state"] == "COMPLETED"
    assert live.wait(waits)["state"] == "CANCELLED"
    assert live.wait(ends)["state"] == "COMPLETED", "under the policy that has taken over"
    view = live.client.call("GET", "/v1/policy")
    assert (view["policy"], view["by"]) == ("fifo", "rota")
    assert "in place of mine, which failed 3 times in a row" in troubles(live)
    assert health(live)["ok"]
    (folder / how).unlink()
    live.client.call("PUT", "/v1/policy", {"policy": "mine"})
    live.until(lambda: not troubles(live), "that another has taken over is said no longer")
