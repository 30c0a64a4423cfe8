"""The page Cluster: what fits, what is obtained, and the picture's data, from views made by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dashboard_play import get
from serving_toys import Stage

from rota.server.dashboard.cluster import FreeGang, cluster_page, gangs, grid, nodes_part
from rota.server.dashboard.feed import Feed
from rota.server.dashboard.memo import LONGEST_S, Memo
from rota.wire.sync import DeviceInfo
from rota.wire.views import DeviceView, JobView, NodeView


def device(name: str, what: str, kind: str) -> DeviceView:
    """`.` is free, `7` held by job 7, `7+8` by both, `s7` keeps suspended job 7, `!` is unhealthy."""
    index = name.partition(":")[2]
    info = DeviceInfo(
        index=int(index), type=kind, healthy=what != "!", why="ECC" if what == "!" else "", memory_gib=80
    )
    jobs = [] if what[0] in ".!s" else what.split("+")
    return DeviceView(
        device=name,
        info=info,
        jobs=jobs,
        granted=1.0 if jobs else 0.0,
        suspended=[what[1:]] if what[0] == "s" else [],
        utilisation=0.5 if jobs else None,
    )


def node(name: str, devices: str, kind: str = "A100", state: str = "up", reason: str = "") -> NodeView:
    views = [device(f"{name}:{i}", what, kind) for i, what in enumerate(devices.split())]
    used = sum(view.granted for view in views)
    return NodeView(name=name, state=state, reason=reason, gpus=len(views), gpus_used=used, devices=views)


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([], []),
        ([node("a", "7 7 . .")], [FreeGang("A100", 4, 2, 2, "a", 0)]),
        ([node("a", "7 . . ."), node("b", ". . 8 8")], [FreeGang("A100", 8, 5, 3, "a", 0)]),
        ([node("a", "7 7"), node("b", ". .")], [FreeGang("A100", 4, 2, 2, "b", 1)]),
        ([node("a", ". ! .")], [FreeGang("A100", 3, 2, 2, "a", 0)]),  # the unhealthy one is no use
        ([node("a", ". s7 .")], [FreeGang("A100", 3, 3, 3, "a", 1)]),  # what is suspended makes room
        ([node("a", ". .", state="drained")], [FreeGang("A100", 2, 0, 0, "", 0)]),
        (
            [node("a", ".", "V100"), node("b", ". .")],
            [FreeGang("A100", 2, 2, 2, "b", 1), FreeGang("V100", 1, 1, 1, "a", 1)],
        ),
    ],
)  # fmt: skip
def test_largest_gang_that_fits(nodes: list[NodeView], found: list[FreeGang]) -> None:
    assert gangs(nodes) == found


def test_granted_against_obtained(stage: Stage) -> None:
    """Devices of which nobody says how busy they are count for neither."""
    nodes = [node("a", "7 7+8 . .")]
    nodes[0].devices[0].utilisation = None
    shown = cluster_page(stage.controller, nodes)
    assert (shown.obtained, shown.obtained_of) == (0.5, 1.0)
    nodes[0].devices[1].utilisation = None
    assert cluster_page(stage.controller, nodes).obtained is None


@pytest.mark.parametrize(
    ("text", "first", "rows", "total"),
    [
        ("", 0, "b a", 2),  # what takes no jobs comes first
        ("UP", 0, "a", 1),
        ("power", 0, "b", 1),
        ("nothing", 0, "", 0),
        ("", 1, "a", 2),
        ("", 99, "b a", 2),
        ("", -3, "b a", 2),
    ],
)
def test_a_window_on_the_nodes(text: str, first: int, rows: str, total: int) -> None:
    part = nodes_part([node("a", "."), node("b", ".", state="drained", reason="power")], text, first)
    assert ([one.name for one in part.rows], part.total) == (rows.split(), total)


def test_the_picture_in_few_bytes() -> None:
    job = JobView(
        id="7", row=6, name="bert", user="ann", tenant="nlp", state="RUNNING", gpus=2, gpus_now=2, submit_s=0
    )
    said = grid([node("a", ". 7 7+9 s7 !"), node("b", ".", state="lost", reason="silent")], [job])
    assert said["jobs"] == [["7", "bert", 0, "ann", 2, "RUNNING"]]
    assert [tenant for tenant, _ in said["tenants"]] == ["nlp"]
    assert said["nodes"] == [
        ["a", "up", "", "A100", [0, [[0], 1.0, 0.5, 0, 80.0], [[0, -1], 1.0, 0.5, 0, 80.0],
                                 [[], 0.0, -1, 0.0, 80.0, [0]], [[], 0.0, -1, 0.0, 80.0, [], "ECC"]]],
        ["b", "lost", "silent", "A100", [0]],
    ]  # fmt: skip


def test_what_is_dear_is_gathered_once() -> None:
    feed, now, made = Feed(), [0.0], [0]
    memo = Memo(feed, lambda: now[0])

    def make() -> int:
        made[0] += 1
        return made[0]

    assert [memo.get("x", make), memo.get("x", make), memo.get("y", make)] == [1, 1, 2]
    feed.tell(["jobs"])
    assert memo.get("x", make) == 3
    now[0] = 2 * LONGEST_S
    assert memo.get("x", make) == 4


def test_what_took_long_rests_and_who_got_an_old_one_is_told() -> None:
    feed, now = Feed(), [0.0]
    memo, stream = Memo(feed, lambda: now[0]), feed.join()

    def slow() -> float:
        now[0] += 0.01
        return now[0]

    assert memo.get("grid", slow) == 0.01
    feed.tell(["jobs"])
    now[0] = 0.02
    assert memo.get("grid", slow) == 0.01, "old, and dear"
    memo._told["grid"].join()
    assert feed.take(stream).topics == {"jobs", "grid"}
    now[0] = 0.05
    assert memo.get("grid", slow) == pytest.approx(0.06)


def test_the_page(stage: Stage) -> None:
    """A reason that somebody typed is text, whatever it looks like."""
    stage.client("admin").call("POST", "/v1/nodes/n1/drain", {"reason": "<script>alert(1)</script>"})
    for path in ("/", "/cluster/nodes", "/cluster/now", "/cluster/nodes?text=n1&first=-1"):
        text = get(stage, path)
        assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in get(stage, "/cluster/nodes")
    said: dict[str, Any] = json.loads(get(stage, "/cluster/grid"))
    assert said["nodes"][0][:2] == ["n1", "drained"]
