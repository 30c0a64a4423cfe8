"""A cluster of several versions: who runs what, and that it is said."""

from __future__ import annotations

import pytest
from store_place import node_info

from rota.cli.live.nodes import mixed_versions
from rota.model.revision import full_version
from rota.server.overview import of_other_sources
from rota.server.store.rows import NodeRow
from rota.server.views import node_view

OURS, OTHER = full_version(), "0.0.1+gabcdef"


def nodes(*versions: str) -> list[NodeRow]:
    """Machines n0, n1, … whose agents run these versions."""
    infos = [node_info(f"n{i}").model_copy(update={"version": said}) for i, said in enumerate(versions)]
    return [NodeRow(i, info.name, info, "up", 2 * i, 0.0) for i, info in enumerate(infos)]


def differs(version: str) -> str:
    return f"version {version}, the controller {OURS}: upgrade Rota where it is older, and restart it there"


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ((), []),
        ((OURS, OURS), []),
        (("", OURS), []),
        ((OTHER, OURS), [f"node n0 runs {differs(OTHER)}"]),
        ((OTHER, "9", OTHER), [f"nodes n0 and n2 run {differs(OTHER)}", f"node n1 runs {differs('9')}"]),
    ],
)
def test_status_names_those_of_another_version(versions: tuple[str, ...], said: list[str]) -> None:
    assert of_other_sources(nodes(*versions)) == said


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ((OURS, OURS), ""),
        (("", OURS), ""),
        (("2", "1", "2"), "\nversion 1 of Rota: n1\nversion 2 of Rota: n0, n2\n"),
    ],
)
def test_nodes_says_which_run_what_where_they_differ(versions: tuple[str, ...], said: str) -> None:
    views = [node_view(row, {}, {}, None, 0.0) for row in nodes(*versions)]
    assert [view.version for view in views] == list(versions)
    assert mixed_versions(views) == said
