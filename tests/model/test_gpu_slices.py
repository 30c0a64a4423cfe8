"""MIG slices count by their part of a GPU, however a site writes their type."""

from __future__ import annotations

import numpy as np
import pytest

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.gpu_slices import gpu_part, said_of_slices, slice_of
from rota.model.whole_gpus import gpus_held, whole_gpus


@pytest.mark.parametrize(
    ("gpu_type", "parts"),
    [
        ("1g.5gb", (1, 7)),
        ("1g.10gb", (1, 7)),
        ("a100_1g.5gb", (1, 7)),
        ("nvidia_a100_1g.5gb", (1, 7)),
        ("nvidia_h100_80gb_hbm3_3g.40gb", (3, 7)),
        ("mig-2g.20gb", (2, 7)),
        ("mig2g.20gb", (2, 7)),
        ("1g.10gb+me", (1, 7)),
        ("H200-1G.18GB", (1, 7)),
        ("1c.3g.20gb", (1, 7)),
        ("a100_3g_20gb", (3, 7)),
        ("7g.80gb", (7, 7)),
        ("a30_1g.6gb", (1, 4)),
        ("2g.12gb", (2, 4)),
        ("nvidia_a30_1g.6gb", (1, 4)),
        ("rtx_pro_6000_1g.24gb", (1, 4)),
        ("1g.24gb", (1, 7)),
        ("a100", None),
        ("nvidia_a100_80gb_pcie", None),
        ("a100-sxm4-80gb", None),
        ("2080ti", None),
        ("", None),
    ],
)
def test_a_type_says_which_part_of_a_gpu_it_is(gpu_type: str, parts: tuple[int, int] | None) -> None:
    assert slice_of(gpu_type) == parts
    assert gpu_part(gpu_type) == pytest.approx(parts[0] / parts[1] if parts else 1.0)


def test_jobs_and_nodes_hold_parts() -> None:
    """Two slices of one part in seven, one whole GPU, and one job that accepts either."""
    types = {"gpu_types": [1, 2, 3], "type_names": ("1g.5gb", "a100")}
    assert gpus_held(trace_of("A 2x10 B 1x10 C 1x10", **types)).tolist() == pytest.approx([2 / 7, 1.0, 1.0])
    assert whole_gpus(parse_cluster("1x7:1g.5gb,1x8:a100")).tolist() == pytest.approx([1.0, 8.0])


def test_hours_of_slices_are_told_as_gpu_hours() -> None:
    assert said_of_slices({}) == ""
    assert said_of_slices({"1g.5gb": 10.0}) == (
        "10 hours of MIG slices count as 1.43 GPU-hours, each slice by its part of a GPU "
        "(1g.5gb is 1 of 7 parts)."
    )
    assert np.isclose(gpu_part("3g.20gb") * 7, 3)
