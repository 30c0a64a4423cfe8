"""Free cells: split, merged, and kept safe; the card's examples (a1) to (a6)."""

from __future__ import annotations

import pytest

from rota.errors import PolicyError
from rota.model.cells import CellKind, spare_cells
from rota.systems.hived.binding import Binder
from rota.systems.hived.cells import Gang, Physical, below, physical_cell
from rota.systems.hived.clusters import CellPromise, GangPlan, VirtualClusters
from rota.systems.hived.packing import TOO_FEW

E = CellKind("E", "GPU", ("device", "pair", "node"), (0, 2, 2), 3)
"""The card's cluster: two nodes of two pairs."""
A_AND_B = (CellPromise("A", "E", 3, 1), CellPromise("B", "E", 2, 1), CellPromise("B", "E", 1, 2))


def cluster(*promises: CellPromise) -> VirtualClusters:
    nodes = [physical_cell(E, 3, [n], range(4 * n, 4 * n + 4), n) for n in range(2)]
    return VirtualClusters({E: nodes}, promises)


def free(clusters: VirtualClusters) -> dict[int, list[str]]:
    """Names of the free cells by level: N0, N0.1, N0.0.1."""
    pool = clusters.pools["E"]
    return {level: sorted(map(name, pool.free[level])) for level in (3, 2, 1)}


def name(cell: Physical) -> str:
    if cell.parent is None:
        return f"N{cell.number}"
    return f"{name(cell.parent)}.{cell.parent.children.index(cell)}"


def take(clusters: VirtualClusters, vc: str, level: int) -> str:
    """Bind the first idle cell of `vc` at `level` as a whole: the card's `allocate(level)`."""
    root = next(r for r in clusters.vcs[vc].roots["E"] if r.level == level and r.physical is None)
    found = Binder(clusters.pools["E"], None).bind(root.leaves)
    assert found is not None
    gang = Gang(f"{vc}{level}", vc, 1, (root.size,))
    gpus = [found[id(leaf)] for leaf in root.leaves]
    clusters.start(GangPlan(gang, [gpus], [root.leaves], [], []))
    assert root.physical is not None
    return name(root.physical)


def test_a1_safety_arithmetic():
    """Two nodes, A owns one, B a pair and two GPUs: legal; a third GPU is one too many."""
    assert cluster(*A_AND_B).pools["E"].splittable() == [0, 0, 1, 1]
    with pytest.raises(PolicyError, match="1 too few device"):
        cluster(*A_AND_B, CellPromise("B", "E", 1, 1))


def test_a2_the_buddy_sequence():
    """The smallest free cell is split; in the end everybody has what he owns."""
    clusters = cluster(*A_AND_B)
    assert take(clusters, "B", 1) == "N0.0.0"
    assert free(clusters) == {3: ["N1"], 2: ["N0.1"], 1: ["N0.0.1"]}
    assert clusters.pools["E"].splittable() == [0, 0, 0, 0]
    assert [take(clusters, "B", 1), take(clusters, "B", 2), take(clusters, "A", 3)] == [
        "N0.0.1",
        "N0.1",
        "N1",
    ]


def test_a3_who_takes_the_most_free_node_breaks_the_promise():
    """B's second GPU on N1: A's node cannot be had any more, and the check says so."""
    clusters = cluster(*A_AND_B)
    take(clusters, "B", 1)
    pool = clusters.pools["E"]
    leaf = clusters.leaf_of[4]
    pool.take(leaf)
    pool.owe("B", 1, -1)
    assert pool.splittable()[3] == -1
    with pytest.raises(PolicyError, match="the safety of E is broken"):
        clusters.check()


def test_a4_merging_goes_all_the_way_up():
    """One of two GPUs given back merges nothing; the other makes the pair whole, and the node."""
    clusters = cluster(*A_AND_B)
    take(clusters, "B", 1)
    take(clusters, "B", 1)
    first, second = (clusters.leaf_of[device].gang for device in (0, 1))
    clusters.stop(first)
    assert free(clusters) == {3: ["N1"], 2: ["N0.1"], 1: ["N0.0.0"]}
    clusters.stop(second)
    assert free(clusters) == {3: ["N0", "N1"], 2: [], 1: []}


def test_a5_doomed_cells():
    """B's cell is shown as bad once A has the only healthy node, and not before."""
    clusters = cluster(CellPromise("A", "E", 3, 1), CellPromise("B", "E", 3, 1))
    bad = clusters.pools["E"].tops[0].leaves
    clusters.spoil(bad)
    b = clusters.vcs["B"].roots["E"][0]
    assert b.physical is None
    assert take(clusters, "A", 3) == "N1"
    assert b.physical is clusters.pools["E"].tops[0]
    assert (
        clusters.plan(Gang("b", "B", 1, (4,)))
        == "what its cells have free is on nodes that are lost or not healthy"
    )
    clusters.heal(bad)
    assert b.physical is None
    assert not isinstance(clusters.plan(Gang("b", "B", 1, (4,))), str)


def test_a6_opportunists_are_gone_around_and_stopped_last():
    """With both nodes free A takes the one without an opportunist; with that taken, the other."""
    clusters = cluster(CellPromise("A", "E", 3, 1), CellPromise("C", "E", 3, 1))
    low = Gang("low", "A", -1, (1,))
    clusters.start(clusters.plan(low, {0}))
    assert clusters.leaf_of[0].gang is low
    plan = clusters.plan(Gang("a", "A", 1, (4,)))
    assert ({leaf.device for leaf in plan.physical[0]}, plan.victims) == ({4, 5, 6, 7}, [])
    clusters.start(plan)
    plan = clusters.plan(Gang("c", "C", 1, (4,)))
    assert ({leaf.device for leaf in plan.physical[0]}, plan.victims) == ({0, 1, 2, 3}, [low])


def test_a7_packing_sees_small_cells_as_nodes_of_their_own():
    """B's one-GPU job goes into its pair, so that a two-GPU job waits; in the other order all fit."""
    clusters = cluster(*A_AND_B)
    clusters.start(clusters.plan(Gang("b1", "B", 0, (1,))))
    assert clusters.leaf_of[0].gang is not None
    assert clusters.plan(Gang("b2", "B", 0, (2,))) == TOO_FEW
    clusters = cluster(*A_AND_B)
    for job, vc, gpus, devices in (
        ("b2", "B", 2, {0, 1}),
        ("b1", "B", 1, {2}),
        ("b3", "B", 1, {3}),
        ("a", "A", 4, {4, 5, 6, 7}),
    ):
        plan = clusters.plan(Gang(job, vc, 0, (gpus,)))
        clusters.start(plan)
        assert {leaf.device for leaf in plan.physical[0]} == devices


def test_cells_of_a_tree_are_numbered_in_order():
    """Numbers go through all trees of a kind."""
    second = physical_cell(E, 3, [1], range(4, 8), 1)
    assert [(cell.level, cell.number) for cell in below(second)] == [
        *((3, 1), (2, 2), (1, 4), (1, 5), (2, 3), (1, 6), (1, 7))
    ]
    assert spare_cells(E, [0, 0, 0, 2], [0, 2, 1, 1]) == [0, 0, 1, 1]
