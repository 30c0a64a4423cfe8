"""What the page's script draws from: unpacked again, it says where each job was."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_toys import Row, four_policies, record

from rota.model.record import Record
from rota.reports import drawn as module
from rota.reports.against import pairs
from rota.reports.drawn import drawn
from rota.reports.gantt import gantt, rows_of
from rota.reports.occupancy import whole_run

TYPES = ["V100", "P100", "V100"]


def unpack(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return data


def mixed() -> Record:
    """Three nodes of 2 GPUs, the second of another type; the second job spans the first and the third."""
    jobs: list[Row] = [
        {"submit_s": 5.0, "start_s": 10.0, "finish_s": 40.0, "gpus": 1, "tenant": "x", "waiting_s": 15.0},
        {"submit_s": 5.0, "start_s": 5.0, "finish_s": 25.0, "gpus": 3, "tenant": "y", "service_gpu_s": 60.0},
        {"submit_s": 30.0, "gpus": 1, "tenant": "x", "state": "PENDING", "starts": 0},
    ]
    jobs[0] |= {"service_gpu_s": 30.0, "starts": 2}
    intervals = [
        {"job": 0, "start_s": 10.0, "end_s": 20.0, "devices": [2], "end": "preempted"},
        {"job": 0, "start_s": 30.0, "end_s": 40.0, "devices": [3]},
        {"job": 1, "start_s": 5.0, "end_s": 25.0, "devices": [0, 1, 5]},
    ]
    run = record(jobs, intervals, nodes=(2, 2, 2))
    return replace(run, cluster={**run.cluster, "node_types": TYPES})


def test_jobs_are_where_they_were() -> None:
    run = mixed()
    data = unpack(drawn([run], whole_run(run), 0.5, []).text)
    assert (data["nodes"], data["types"]) == (["n0", "n2", "n1"], ["V100", "V100", "P100"])
    assert (data["gpus"], data["length"], data["shown"], data["epoch"]) == ([2] * 3, 35.0, 0.5, None)
    of, unit = data["runs"][0], data["unit"]
    start_s = (np.cumsum(of["start"]) * unit).round(3)
    length_s = (np.array(of["length"]) * unit).round(3)
    ends = [of["ends"][code] for code in of["end"]]
    places = zip(of["job"], start_s, length_s, of["lane"], of["height"], ends, strict=True)
    assert sorted(places) == [
        (0, 5.0, 10.0, 4, 1, "preempted"),
        (0, 25.0, 10.0, 5, 1, "finished"),
        (1, 0.0, 20.0, 0, 2, "finished"),
        (1, 0.0, 20.0, 3, 1, "finished"),
    ]
    assert of["whole"]
    life = data["lives"][0]
    assert [value and round(value * unit, 3) for value in life["waited"]] == [15.0, 0, None]
    assert [value and round(value * unit, 3) for value in life["end"]] == [35.0, 20.0, None]
    assert life["starts"] == [2, 1, 0]
    assert [data["jobs"]["tenants"][code] for code in data["jobs"]["tenant"]] == ["x", "y", "x"]


def test_nodes_are_grouped_by_type() -> None:
    rows = rows_of(mixed())
    assert (rows.names, rows.types) == (("n0", "n2", "n1"), ("V100", "V100", "P100"))
    assert rows.row_of_node.tolist() == [0, 2, 1]
    many = record([], nodes=(4,) * 300)
    many = replace(many, cluster={**many.cluster, "node_types": ["A"] * 100 + ["B"] * 200})
    rows = rows_of(many)
    assert len(rows) == 34 + 67, "three to a row, and none of two types"
    assert rows.types[33:35] == ("A", "B")
    assert rows.first[33:35] == (99, 100)
    assert gantt(mixed(), whole_run(mixed())).labels[0].text == "n0"


@pytest.mark.parametrize(("nodes", "labelled"), [(1, 1), (7, 7), (30, 30), (60, 30)])
def test_a_row_has_the_label_of_its_own_node(nodes: int, labelled: int) -> None:
    """Not that of the node above it, for want of room, before there are more rows than a page can show."""
    run = record(
        [{"submit_s": 0.0, "start_s": 0.0, "finish_s": 1.0, "gpus": 1}],
        [{"job": 0, "start_s": 0.0, "end_s": 1.0, "devices": [0]}],
        nodes=(8,) * nodes,
    )
    figure = gantt(run, whole_run(run))
    assert len(figure.labels) == labelled
    assert all(tick.text == f"n{round(tick.at * nodes)}" for tick in figure.labels)


def test_what_is_packed_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs with most GPU time, the largest stretches; whoever is named by a pair all the same."""
    monkeypatch.setattr(module, "JOBS_MAX", 20)
    monkeypatch.setattr(module, "RECTANGLES_MAX", 40)
    runs = four_policies(150, (8,) * 4, span_s=86_400.0, mean_s=7200.0)[:2]
    duels = pairs(runs)
    of = drawn(runs, whole_run(runs[0]), 1.0, duels)
    data = unpack(of.text)
    named = {f"j{m.row}" for pair in duels for m in (*pair.gains, *pair.losses)}
    assert named <= set(data["jobs"]["id"])
    assert 20 <= of.jobs <= 20 + len(named)
    assert of.jobs_in_all == 150
    assert 0 < of.gpu_time < 1
    for run in data["runs"]:
        assert len(run["job"]) == 40
        assert not run["whole"]
        assert named <= {data["jobs"]["id"][job] for job in run["job"]}
    for pair in data["pairs"]:
        assert {data["jobs"]["id"][job] for job, _, _ in (*pair["gains"], *pair["losses"])} == named


def test_a_record_without_placement_has_nothing_to_draw() -> None:
    bare = record([{"submit_s": 0.0, "gpus": 1, "state": "PENDING", "starts": 0}])
    assert unpack(drawn([bare], whole_run(bare), 1.0, []).text)["runs"] == [None]
