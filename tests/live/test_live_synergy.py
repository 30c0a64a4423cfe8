"""Synergy on real processes: cores move between two jobs that run, and throughput follows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from live_cluster import LiveCluster
from shared import attempts, emptied, log_of, python, written

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be moved"),
]

PROFILE = """workload,cpus_per_gpu,gib_per_gpu,speed
images,1,0.01,1
images,2,0.01,1.9
words,1,0.01,1
"""
LOADER = """
from concurrent.futures import ThreadPoolExecutor
import rota.training as rota
job = rota.attach(state={"x": 1})
pool, workers = None, 0
for step in job.steps(10**6):
    if os.path.exists(sys.argv[1] + ".go"):
        break
    said = rota.limits()
    if int(said.cpus or 1) != workers:
        workers = int(said.cpus or 1)
        pool = ThreadPoolExecutor(workers)
    began = time.monotonic()
    list(pool.map(lambda _: time.sleep(0.03), range(4)))
    took = time.monotonic() - began
    cores = len(os.sched_getaffinity(0))
    open(sys.argv[1], "a").write(f"{workers} {cores} {took:.4f} {os.environ['ROTA_ATTEMPT']}\\n")
    job.step(samples=4)
job.finish()
"""
"""Loads four samples a step with as many workers as it has cores, each of which takes 30 ms."""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCluster]:
    profile = tmp_path / "hosts.csv"
    profile.write_text(PROFILE)
    config = {"policy": "synergy:round_s=0,policy=fifo", "knowledge": f"hosts=user:{profile}"}
    with LiveCluster(tmp_path, devices="cpu:2", **config) as cluster:
        yield from emptied(cluster)


def steps(file: Path) -> list[tuple[int, int, float, int]]:
    """Workers, cores and seconds of each step, and the attempt."""
    lines = [line.split() for line in file.read_text().splitlines() if line.count(" ") == 3]
    return [(int(w), int(c), float(s), int(a)) for w, c, s, a in lines]


def test_cores_follow_the_grant(live: LiveCluster, tmp_path: Path) -> None:
    """Images alone have both cores; when words come they keep one, and get it back when words have gone."""
    images, words = tmp_path / "images", tmp_path / "words"
    first = live.submit(*python(LOADER, images), workload="images", ranks="node")
    live.until(
        lambda: images.exists() and steps(images)[-1:] and steps(images)[-1][:2] == (2, 2), "both cores"
    )
    live.until(lambda: sum(one[:2] == (2, 2) for one in steps(images)) > 10, "some steps with two")
    second = live.submit(*python(LOADER, words), workload="words", ranks="node")
    written(live, words)
    live.until(lambda: steps(images)[-1][:2] == (1, 1), "one core each")
    live.until(lambda: sum(one[:2] == (1, 1) for one in steps(images)) > 10, "some steps with one")
    assert steps(words)[-1][:2] == (1, 1)
    before = len(steps(images))
    (tmp_path / "words.go").touch()
    assert live.wait(second)["state"] == "COMPLETED", log_of(live, second)
    live.until(lambda: steps(images)[before:] and steps(images)[-1][:2] == (2, 2), "its core back")
    (tmp_path / "images.go").touch()
    assert live.wait(first)["state"] == "COMPLETED", log_of(live, first)
    seconds = {n: median(s for w, _, s, _ in steps(images) if w == n) for n in (1, 2)}
    assert seconds[1] > 1.5 * seconds[2], f"with one core and with two: {seconds}"
    assert len(attempts(live, first)) == 1, "nothing restarted"
    assert {attempt for *_, attempt in steps(images)} == {1}
