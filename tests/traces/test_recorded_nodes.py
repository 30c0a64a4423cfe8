"""GPUs of each node, as far as the jobs that ran there tell."""

from __future__ import annotations

from typing import Any

import pytest
from sacct_text import dump, gpus, row

from rota.traces.capacity import auto_cluster
from rota.traces.recorded_nodes import seen_nodes


# by node the GPUs held there at once, their type, and the sizes that the derived cluster has
@pytest.mark.parametrize(
    ("held", "kind", "sizes"),
    [
        pytest.param([4, 8], "a100", [4, 8], id="each node by itself"),
        pytest.param([3], "a100", [4], id="rounded up"),
        pytest.param([6, 6], "a100", [6, 6], id="two of the same that is no power of two"),
        pytest.param([6, 6, 8], "a100", [8, 8, 8], id="one with more"),
        pytest.param([8] * 9 + [1], "a100", [8] * 10, id="one in ten was not seen full"),
        pytest.param([8] * 3 + [2] * 2, "a100", [8, 8, 8, 2, 2], id="two sizes of one type"),
        pytest.param([7, 3], "a100_1g.5gb", [7, 3], id="slices are as many as were seen"),
    ],
)
def test_sizes_of_nodes(read_text: Any, held: list[int], kind: str, sizes: list[int]) -> None:
    jobs = [
        row(str(number), NodeList=f"n{number:02d}", AllocTRES=gpus(count, kind), ReqTRES=gpus(count))
        for number, count in enumerate(held)
    ]
    trace = read_text(dump(*jobs))
    assert [node.most for node in seen_nodes(trace)] == held
    assert auto_cluster(trace).node_gpus.tolist() == sizes
