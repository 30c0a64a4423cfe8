"""What docs/jobs.md says that a job finds in its environment is what a job on a real cluster finds."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import log_of

PAGE = Path(__file__).parents[2] / "docs/jobs.md"


def documented() -> set[str]:
    """The names in the table of variables."""
    table = PAGE.read_text(encoding="utf-8").partition("| variable | meaning |\n")[2].partition("\n\n")[0]
    return {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_a_job_finds_what_is_documented_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an array, with a range of batches: those are there; what its agent has is there as well, but for
    the password of the controller's database, which `rota up` was given."""
    monkeypatch.setenv("PGPASSWORD", "secret")
    with LiveCluster(tmp_path, devices="cpu:1") as live:
        id = live.submit(str(shutil.which("env")), "--null", array="3", batch_min=128, batch_max=4096)
        assert live.wait(id)["state"] == "COMPLETED"
        found = {line.partition("=")[0] for line in log_of(live, id).split("\0") if line}
    names = documented()
    assert len(names) > 30
    assert names - found == set()
    assert found - names <= set(os.environ)
    assert not {name for name in found - names if name.startswith(("ROTA_", "TORCHELASTIC_", "PG"))}
