"""Jobs that say on which machines they may run: all the way from what people type to the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from site_play import Site

from rota.client.fields import read_fields
from rota.errors import InputError


@pytest.mark.parametrize(
    ("said", "nodes"),
    [
        ({"node_set": "n1"}, {"n1"}),
        ({"node_set": "n0|n2"}, {"n0", "n2"}),
        ({"node_set": "!n1"}, {"n0", "n2"}),
        ({"exclude_nodes": ["n0", "n2"]}, {"n1"}),
        ({"node_set": "n0|n1", "exclude_nodes": ["n0"]}, {"n1"}),
    ],
)
def test_jobs_run_where_they_may(tmp_path: Path, said: dict[str, Any], nodes: set[str]) -> None:
    """Also after the controller was killed: the store keeps it."""
    site = Site(tmp_path, {"n0": 1, "n1": 1, "n2": 1})
    rows = [site.submit(2.0, **said) for _ in range(4)]
    for _ in range(3):
        site.turn()
    site.kill_controller()
    site.run()
    ran = {site.store.attempts(row)[0].parts["places"][0]["name"] for row in rows}
    assert ran <= nodes
    assert len(ran) == len(nodes)


def test_a_job_that_no_machine_will_do_for_says_so(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 1})
    row = site.submit(2.0, node_set="n7")
    for _ in range(5):
        site.turn()
    kept = site.store.job(row)
    assert kept is not None
    assert (kept.now.state, [hold["kind"] for hold in kept.now.hold]) == ("PENDING", ["infeasible"])
    assert "n7" in kept.now.hold[0]["detail"]


@pytest.mark.parametrize(
    ("name", "text", "fields"),
    [
        ("node", "n1", {"node_set": "n1"}),
        ("node", "n1, gpu-2,!n3", {"node_set": "n1|gpu-2|!n3"}),
        ("exclude_node", "n1,n2", {"exclude_nodes": ["n1", "n2"]}),
    ],
)
def test_as_people_type_it(name: str, text: str, fields: dict[str, Any]) -> None:
    assert read_fields(name, text, f"--{name}") == fields


@pytest.mark.parametrize(("name", "text"), [("node", ""), ("node", "n1|n2"), ("exclude_node", "!n1")])
def test_what_names_no_node(name: str, text: str) -> None:
    with pytest.raises(InputError, match="names no nodes"):
        read_fields(name, text, f"--{name}")
