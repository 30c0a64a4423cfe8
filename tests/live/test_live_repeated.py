"""Which work is done again when an attempt breaks off: all of it; of one that has ended, nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import FAST, attempts, emptied, python, written

pytestmark = pytest.mark.soak

GANG = """
rank, attempt = os.environ["RANK"], os.environ["ROTA_ATTEMPT"]
place = sys.argv[1]
def say(word):
    with open(place, "a") as out:
        out.write(f"{word} {attempt}.{rank}.\\n")
say("begin")
while rank == "1" and attempt == "1":
    time.sleep(0.02)
say("end")
"""
"""Rank 0 comes to its end at once; rank 1 only in a second attempt."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path_factory.mktemp("repeated"), devices="cpu:2", **FAST) as live:
        yield live


@pytest.fixture
def live(cluster: LiveCluster) -> Iterator[LiveCluster]:
    yield from emptied(cluster)


def process(live: LiveCluster, id: str, name: str, rank: int = 0) -> int:
    """The shim's process, or that of a rank, in the first attempt."""
    said = json.loads((live.agent_home() / f"attempts/{int(id) - 1}/1/{name}.json").read_text())
    return int(said["pid"] if name == "shim" else said["ranks"][rank]["pid"])


BREAKS: dict[str, tuple[Callable[[LiveCluster, str], object], str]] = {
    "its shim is killed": (lambda live, id: os.kill(process(live, id, "shim"), signal.SIGKILL), "lost"),
    "a rank is killed": (lambda live, id: os.kill(process(live, id, "ranks", 1), signal.SIGKILL), "lost"),
    "its user requeues it": (lambda live, id: live.act(id, "requeue", force=True), "preempted"),
}


@pytest.mark.parametrize("how", BREAKS)
def test_an_attempt_that_breaks_off_is_repeated_by_all_of_its_ranks(
    live: LiveCluster, tmp_path: Path, how: str
) -> None:
    """Those too that had come to their end: a gang has no use for a part of itself."""
    said = tmp_path / "said"
    id = live.submit(*python(GANG, said), gpus=2)
    written(live, said, "end 1.0.")
    written(live, said, "begin 1.1.")
    act, end = BREAKS[how]
    act(live, id)
    assert live.wait(id)["state"] == "COMPLETED"
    assert [attempt["end"] for attempt in attempts(live, id)] == [end, "finished"]
    lines = sorted(said.read_text().split("\n")[:-1])
    assert lines == [
        "begin 1.0.",
        "begin 1.1.",
        "begin 2.0.",
        "begin 2.1.",
        "end 1.0.",
        "end 2.0.",
        "end 2.1.",
    ]


@pytest.mark.parametrize("agent_is_dead", [False, True])
def test_an_attempt_whose_end_is_on_the_disk_is_not_repeated(
    live: LiveCluster, tmp_path: Path, agent_is_dead: bool
) -> None:
    """Whoever is killed afterwards, before the controller has heard of it."""
    said = tmp_path / "said"
    id = live.submit(
        "sh", "-c", f'while [ ! -e {said}.go ]; do sleep 0.02; done; echo "$RANK" >> {said}', gpus=2
    )
    live.reaches(id, "RUNNING")
    live.kill_controller()
    if agent_is_dead:
        live.kill_agent()
    Path(f"{said}.go").touch()
    record = live.agent_home() / f"attempts/{int(id) - 1}/1/exit.json"
    live.until(record.exists, "the record of its end")
    if not agent_is_dead:
        live.kill_agent()
    live.start_controller()
    live.start_agent()
    assert live.wait(id)["state"] == "COMPLETED"
    assert len(attempts(live, id)) == 1
    assert sorted(said.read_text().split()) == ["0", "1"]
