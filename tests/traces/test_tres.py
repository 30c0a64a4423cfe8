"""TRES texts of Slurm."""

from __future__ import annotations

import pytest

from rota.traces.tres import cpus_in, gpu_types_in, gpus_in, memory_gib_in


# text  GPUs  types  cores  GiB
@pytest.mark.parametrize(
    ("tres", "gpus", "types", "cpus", "memory_gib"),
    [
        ("billing=8,cpu=8,gres/gpu=2,mem=64G,node=1", 2, (), 8, 64),
        ("cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=1T", 2, ("a100",), 8, 1024),
        ("cpu=8,gres/gpu:a100=2,gres/gpu:v100=1", 3, ("a100", "v100"), 8, 0),
        ("gres/gpu:1g.10gb=7", 7, ("1g.10gb",), 0, 0),
        ("cpu=4,mem=512M", 0, (), 4, 0.5),
        ("cpu=4,mem=2097152K", 0, (), 4, 2),
        ("cpu=4,mem=1.50G", 0, (), 4, 1.5),
        ("mem=1024", 0, (), 0, 1),
        ("gres/gpumem=40G,gres/gpuutil=100", 0, (), 0, 0),
        ("", 0, (), 0, 0),
    ],
)
def test_what_a_text_says(
    tres: str, gpus: int, types: tuple[str, ...], cpus: float, memory_gib: float
) -> None:
    assert (gpus_in(tres), gpu_types_in(tres), cpus_in(tres), memory_gib_in(tres)) == (
        gpus,
        types,
        cpus,
        memory_gib,
    )
