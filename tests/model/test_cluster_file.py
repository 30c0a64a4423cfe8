"""Cluster files: the documented example, and an error for everything else."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from rota.errors import InputError
from rota.model.cluster_file import load_cluster
from rota.model.tenants import CellQuota

DOCS = Path(__file__).parents[2] / "docs" / "cluster.md"
SMALL = """\
nodes:
  - count: 2
    gpus: 8
    type: V100
    gpu_memory: 16GiB
    levels: {rack: r1}
  - gpus: 4
    levels: {rack: r2}
    names: [x]
tenants:
  - path: vision
    quota: 8
    quota_by_type: {V100: 4}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "cluster.yaml"
    file.write_text(text)
    return file


def test_the_documented_example(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert example
    cluster = load_cluster(write(tmp_path, example[1]))
    assert cluster.describe() == "4x8:V100,2x4:A100 (40 GPUs in 6 nodes)"
    assert cluster.node_names == ("n0", "n1", "n2", "n3", "big-1", "big-2")
    assert cluster.device_memory_gib.tolist() == [16.0] * 32 + [40.0] * 8
    assert cluster.node_cpus.tolist() == [64.0] * 4 + [0.0] * 2
    assert cluster.node_memory_gib[0] == 512
    assert list(cluster.level_names.items()) == [("switch", ("s1",)), ("rack", ("r1", "r2"))]
    assert cluster.levels["rack"].tolist() == [0, 0, 0, 0, 1, 1]
    vision, alice = cluster.tenants.get("vision"), cluster.tenants.get("vision/alice")
    assert (vision.quota_gpus, vision.hard, vision.weight) == (24, False, 2)
    assert (alice.quota_gpus, alice.hard) == (8, True)
    speech = cluster.tenants.get("speech")
    assert speech.cells == (CellQuota("socket", 2, "V100"),)
    assert [cluster.units(level) for level in ("switch", "rack", "node", "socket", "pair", "device")] == [
        *(1, 2, 6, 12, 20, 40)
    ]
    assert cluster.units("socket", cluster.type_names.index("V100")) == 8
    assert cluster.device_levels["pair"].tolist() == [device // 2 for device in range(40)]
    assert cluster.capacities["up"].tolist() == [100.0] * 4 + [0.0] * 2
    assert cluster.prices == {
        "V100": {"on_demand": 2.48, "spot": 0.74}, "A100": {"on_demand": 4.1, "spot": 1.2},
    }  # fmt: skip
    assert {name: nodes.tolist() for name, nodes in cluster.price_classes.items()} == {"spot": [4, 5]}
    assert [cluster.gpu_price(code) for code in range(2)] == [2.48, 1.2]
    assert (speech.quota_gpus, dict(speech.quota_by_type)) == (math.inf, {"A100": 4})


def test_the_documentation_lists_every_field() -> None:
    from rota.model.cluster_file import _ClusterFile, _Nodes, _Tenant

    text = DOCS.read_text()
    documented = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    known = set(_Nodes.model_fields) | set(_Tenant.model_fields)
    assert documented - {"auto"} == known
    assert all(f"{section}:" in text for section in _ClusterFile.model_fields)


@pytest.mark.parametrize(
    ("old", "new", "row", "problem"),
    [
        ("gpus: 8", "gpu: 8", 3, "nodes[0].gpu is not a field of a cluster file; did you mean gpus?"),
        ("nodes:", "node:", 1, "node is not a field of a cluster file; did you mean nodes?"),
        ("quota: 8", "colour: 8", 12, "tenants[0].colour is not a field of a cluster file; expected one of"),
        ("  - gpus: 4\n    levels", "  - levels", 7, "nodes[1].gpus is missing"),
        ("count: 2", "count: 0", 2, "nodes[0].count is 0; it should be greater than or equal to 1"),
        ("count: 2", 'count: "2"', 2, "nodes[0].count is '2'; it should be a valid integer"),
        ("gpus: 8", "gpus: true", 3, "nodes[0].gpus is True; it should be a valid integer"),
        ("16GiB", "16", 5, "nodes[0].gpu_memory: 16 is not an amount of memory"),
        ("rack: r1", "rack: 1", 6, "nodes[0].levels.rack is 1; it should be a valid string"),
        ("path: vision", "path: /alice", 11, "tenants[0].path: '/alice' is not a tenant"),
        ("quota: 8", "quota: -1", 12, "tenants[0].quota is -1; it should be greater than or equal to 0"),
        ("quota: 8", "weight: 0", 12, "tenants[0].weight is 0; it should be greater than 0"),
        ("V100: 4", "V10: 4", 13, "names V10, which no node has; did you mean V100?"),
        ("quota: 8", "quota: 8\n  - path: vision", 13, "tenant vision is given twice"),
        ("gpus: 8", "gpus: 8\n    gpus: 4", 4, "gpus is given twice in one place"),
        ("gpus: 8", "gpus: [", 5, "this is not YAML"),
        ("gpus: 8", "gpus: !gpus 8", 3, "this is not YAML"),
        ("names: [x]", "names: [x, y]", None, "group 2 of the cluster names 2 nodes but has 1"),
        ("    levels: {rack: r2}\n", "", None, "node 2 of the cluster is in no rack"),
    ],
)
def test_errors_name_file_row_and_field(
    tmp_path: Path, old: str, new: str, row: int | None, problem: str
) -> None:
    assert old in SMALL
    with pytest.raises(InputError) as caught:
        load_cluster(write(tmp_path, SMALL.replace(old, new, 1)))
    place = f"{tmp_path / 'cluster.yaml'}" + (f", row {row}: " if row else ": ")
    assert str(caught.value).startswith(place)
    assert problem in str(caught.value)


NOUNS = """\
nodes:
  - {count: 2, gpus: 8, type: V100, device_levels: {socket: 4, pair: 2}}
  - {gpus: 4, device_levels: {socket: 2, pair: 1}}
tenants:
  - path: vision
    cells: [{level: socket, count: 4, type: V100}]
prices: {V100: {spot: 1}}
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("socket: 4,", "socket: 3,", "group 1 of the cluster: a socket of 3 GPUs does not divide its nodes"),
        (
            "pair: 2",
            "pair: 3",
            "a pair of 3 GPUs does not divide a socket of 4 GPUs",
        ),
        ("socket: 2, ", "", "group 2 of the cluster has the device levels pair; expected socket, pair"),
        ("level: socket", "level: sockt", "level sockt, which the cluster has not; did you mean socket?"),
        ("level: socket", "level: shelf", "the cluster has node, socket, pair, device"),
        ("type: V100}]", "type: V10}]", "type V10, which the cluster has not; did you mean V100?"),
        ("count: 4", "count: 5", "promised 5 socket cells of V100 nodes of 8 GPUs; beside"),
        (
            "socket, count: 4, type: V100",
            "node, count: 4",
            "may be of several kinds (V100 nodes of",
        ),
        ("count: 4", "count: 0", "cells[0].count is 0; it should be greater than or equal to 1"),
        ("count: 4", "cont: 4", "cells[0].cont is not a field of a cluster file; did you mean count?"),
        (
            "{V100: {spot",
            "{V10: {spot",
            "row 7: prices names V10, which no node has; the nodes have GPU, V100",
        ),
        ("{spot: 1", "{spt: 1", "prices.V100.spt is not a field of a cluster file; did you mean spot?"),
        (
            "type: V100, device",
            "type: V100, price_class: on_demand, device",
            "row 2: nodes[0].price_class is on_demand, and prices has no such of V100",
        ),
        ("type: V100, device", "type: V100, price_class: spt, device", "price_class is 'spt'; it should be"),
        ("{spot: 1", "{spot: -1", "prices.V100.spot is -1; it should be greater than or equal to 0"),
    ],
)
def test_levels_cells_and_prices_fit_the_cluster(tmp_path: Path, old: str, new: str, problem: str) -> None:
    load_cluster(write(tmp_path, NOUNS))
    assert old in NOUNS
    with pytest.raises(InputError) as caught:
        load_cluster(write(tmp_path, NOUNS.replace(old, new, 1)))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "describes no cluster"),
        ("[1, 2]", "describes no cluster"),
        ("nodes: []", "nodes is empty"),
        ("nodes:", "nodes is None"),
        ("x: &x [*x]", "x is not a field"),  # an alias to itself must not hang the reader
    ],
)
def test_files_without_a_cluster_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        load_cluster(write(tmp_path, text))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_cluster(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="Is a directory"):
        load_cluster(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        load_cluster(tmp_path / "binary.yaml")


def test_types_may_be_digits(tmp_path: Path) -> None:
    """YAML reads 3090 as a number, also where it is a key."""
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "nodes:\n  - {gpus: 4, type: 3090}\n  - {gpus: 7, type: 1g.10gb}\n"
        "tenants:\n  - {path: a, quota_by_type: {3090: 4}, cells: [{level: node, type: 3090}]}\n"
        "prices: {3090: {spot: 1.0}}\n"
    )
    cluster = load_cluster(path)
    assert cluster.type_names == ("3090", "1g.10gb")
    assert dict(cluster.tenants.by_path["a"].quota_by_type) == {"3090": 4}
    assert dict(cluster.prices["3090"]) == {"spot": 1.0}
