"""Gangs on more nodes than they need: by the GPUs of their own nodes, and never by a guess."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_studies import trace_of

from rota.api.analysis import analyze
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.trace import Trace
from rota.reports.findings.finding import Finding
from rota.reports.findings.studies import study
from shared_data import ROOT, needs_shared


def site(*jobs: tuple[int, str, str]) -> Trace:
    """Jobs one after the other: GPUs, nodes (a letter each), type of GPU."""
    trace = trace_of(*((1000 * i, 1000 * i, 1000 * i + 900, gpus) for i, (gpus, _, _) in enumerate(jobs)))
    assert trace.observed is not None
    seen = replace(
        trace.observed,
        nodes={row: tuple(names) for row, (_, names, _) in enumerate(jobs)},
        types={row: kind for row, (_, _, kind) in enumerate(jobs) if kind},
    )
    return replace(trace, observed=seen)


def spread(trace: Trace, cluster: Cluster | None = None) -> Finding:
    (finding,) = [one for one in study(trace, cluster).findings if one.key == "spread_gangs"]
    return finding


FOURS_AND_EIGHTS = [(8, "ab", "v100"), (8, "c", "a100")]


# jobs, the stated cluster, the part of the gangs that are spread for certain, and how many may be
@pytest.mark.parametrize(
    ("jobs", "cluster", "share", "unsure"),
    [
        pytest.param(FOURS_AND_EIGHTS, "", 0.0, 0, id="as seen"),
        pytest.param(FOURS_AND_EIGHTS, "1x8:a100,2x4:v100", 0.0, 0, id="as stated by type"),
        pytest.param(FOURS_AND_EIGHTS, "1x8:A100,2x8:V100", 0.5, 0, id="nodes of eight, as stated"),
        pytest.param(FOURS_AND_EIGHTS, "2x4:v100,1x8:a100,1x8:v100", 0.0, 1, id="two sizes of its type"),
        pytest.param([(8, "ab", ""), (8, "c", "")], "1x8,2x4", 0.0, 1, id="no type on record"),
        pytest.param([(8, "ab", "v100"), (8, "a", "v100")], "", 0.5, 0, id="one of its nodes held all"),
        pytest.param([(8, "ab", "v100"), (8, "c", "v100")], "", 0.0, 1, id="another of its type did"),
        pytest.param([(12, "ab", "t4"), (8, "cd", "t4"), (6, "c", "t4")], "", 0.0, 0, id="nodes of six"),
    ],
)
def test_gangs_on_more_nodes(
    jobs: list[tuple[int, str, str]], cluster: str, share: float, unsure: int
) -> None:
    finding = spread(site(*jobs), parse_cluster(cluster) if cluster else None)
    assert (finding.value, finding.numbers["unsure"]) == (pytest.approx(share), unsure)
    assert not unsure or "not known for certain" in finding.note
    if not share:
        assert finding.sentence.startswith(f"No gang of {finding.numbers['gangs']} ran on more nodes")


def test_a_stated_node_is_known_by_its_name() -> None:
    shapes = [NodeShape(2, 8, "v100", names=("a", "b")), NodeShape(1, 4, "v100", names=("c",))]
    assert spread(site((8, "ab", "v100"), (4, "c", "v100")), Cluster.build(shapes)).value == pytest.approx(
        0.5
    )


@needs_shared
@pytest.mark.parametrize("cluster", [None, "auto", "1x8:a100,2x4:v100"])
def test_a_site_with_nodes_of_four_and_of_eight(cluster: str | None) -> None:
    file = Path(ROOT / "inputs" / "nodes_of_four.sacct")
    (finding,) = [one for one in analyze(file, cluster=cluster).findings if one.key == "spread_gangs"]
    assert finding.sentence == "No gang of 40 ran on more nodes than it needs."
