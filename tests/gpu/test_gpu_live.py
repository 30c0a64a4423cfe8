"""A cluster on real GPUs: what jobs see, how they give GPUs back, and two on one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_programs import TRAIN
from live_cluster import LiveCluster
from shared import attempts, emptied, log_of, python

from rota.engines.rota.devices import NvidiaGpus

TORCH = "import torch\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path_factory.mktemp("gpus"), devices="nvidia:0", back_off=0.2) as live:
        yield live


@pytest.fixture
def live(cluster: LiveCluster) -> Iterator[LiveCluster]:
    yield from emptied(cluster)


def steps(file: Path) -> int:
    return file.read_text().count("\n") if file.exists() else 0


def goes_on(live: LiveCluster, file: Path) -> None:
    before = steps(file)
    live.until(lambda: steps(file) > before + 3, f"steps in {file}")


def test_a_job_sees_the_gpu_that_it_was_given(live: LiveCluster, gpus: NvidiaGpus) -> None:
    said = (
        TORCH
        + "print(torch.cuda.device_count(), os.environ['CUDA_VISIBLE_DEVICES'], torch.ones(1).cuda().item())"
    )
    id = live.submit(*python(said))
    live.reaches(id, "COMPLETED")
    assert log_of(live, id).split() == ["1", gpus.infos()[0].uuid, "1.0"]
    id = live.submit(*python(TORCH + "print(torch.cuda.is_available())"), gpus=0)
    live.reaches(id, "COMPLETED")
    assert log_of(live, id).split() == ["False"]


def test_a_fault_of_the_program_leaves_the_gpu_well(live: LiveCluster, gpus: NvidiaGpus) -> None:
    """An illegal address is the program's own: it fails, and the GPU takes the next job."""
    fault = (
        TORCH + "x = torch.ones(4, device='cuda'); i = torch.full((4,), 2**40, device='cuda'); print(x[i])"
    )
    id = live.submit(*python(fault), user_retries=0)
    live.reaches(id, "FAILED")
    id = live.submit(*python(TORCH + "print(torch.ones(2).cuda().sum().item())"))
    live.reaches(id, "COMPLETED")
    assert not gpus.refresh()


@pytest.mark.parametrize("shell", [False, True], ids=["rank", "child of a shell"])
def test_the_driver_suspends_what_knows_nothing_of_rota(
    live: LiveCluster, gpus: NvidiaGpus, tmp_path: Path, shell: bool
) -> None:
    file = tmp_path / "steps"
    run = [sys.executable, "-c", TRAIN, "plain", str(file)]
    id = live.submit(*(["sh", "-c", '"$@"; true', "sh", *run] if shell else run))
    goes_on(live, file)
    live.act(id, "suspend")
    live.reaches(id, "SUSPENDED")
    other = live.submit(*python(TORCH + "print(torch.ones(2).cuda().sum().item())"))
    live.reaches(other, "COMPLETED")
    live.act(id, "resume")
    live.reaches(id, "RUNNING")
    goes_on(live, file)
    assert len(attempts(live, id)) == 1, "it went on in the same processes"


def test_two_on_one_gpu(live: LiveCluster, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b")]
    ids = [
        live.submit(sys.executable, "-c", TRAIN, "plain", str(file), gpu_share=0.5, gpu_memory_gib=8.0)
        for file in files
    ]
    for file in files:
        goes_on(live, file)
    for id in ids:
        live.until(
            lambda id=id: 0.1 < (attempts(live, id)[-1].get("usage") or {}).get("gpu_memory_gib", 0.0) < 8.0,
            "its own memory on the GPU",
        )
