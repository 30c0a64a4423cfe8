"""A cluster that keeps things for seconds only: they go, in their order, and nothing that lives does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster
from shared import FAST, detail, log_of, python, refused

SAVES = """
print("began", flush=True)
folder = os.environ["ROTA_CHECKPOINT_DIR"]
open(os.path.join(folder, "step-1"), "w").write("state")
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
"""


def folders(live: LiveCluster, id: str) -> tuple[bool, bool]:
    """Whether the files and the checkpoints of a job are there."""
    home, row = live.agent_home(), str(int(id) - 1)
    return (home / "attempts" / row).exists(), (home / "checkpoints" / row).exists()


@pytest.mark.soak
def test_what_is_kept_for_seconds(tmp_path: Path) -> None:
    """Checkpoints go, files go, the record goes; a job that runs keeps all it has, whoever is killed."""
    keep = {"keep_checkpoints": 1.0, "keep_files": 2.0, "keep_history": "forever", "keep_keys": 1.0}
    with LiveCluster(tmp_path, devices="cpu:2", **keep, **FAST) as live:
        (tmp_path / "gone").touch()
        ended = live.submit(*python(SAVES, tmp_path / "gone"))
        runs = live.submit(*python(SAVES, tmp_path / "go"))
        waits = live.submit("true", after=[{"job": runs}])
        live.wait(ended)
        live.until(lambda: folders(live, ended) == (False, False), "no files and no checkpoints")
        said = live.client.call("GET", f"/v1/jobs/{ended}/logs")["error"]
        assert said.startswith(f"the logs of job {ended} have been removed: it ended ")
        assert "its checkpoints are kept for 1s" in detail(live, ended)["gone"]

        live.kill_controller()
        live.kill_agent()
        live.config["keep_history"] = 2.0
        live.start_controller()
        live.start_agent()

        def forgotten() -> bool:
            return all(job["id"] != ended for job in live.client.call("GET", "/v1/jobs"))

        live.until(forgotten, f"a record without job {ended}")
        error = refused(live, "GET", f"/v1/jobs/{ended}")
        assert error.status == 404
        assert f"job {ended} is on record no more" in str(error)

        live.kill_controller()  # the next one finds a gap in the record
        live.config["keep_history"] = "forever"
        live.start_controller()
        assert live.reaches(runs, "RUNNING")["attempt"] == 1
        assert folders(live, runs) == (True, True)
        assert log_of(live, runs) == "began\n"
        assert detail(live, runs)["gone"] == ""
        (tmp_path / "go").touch()
        assert live.wait(runs)["state"] == "COMPLETED"
        assert live.wait(waits)["state"] == "COMPLETED"
        assert live.submit("true") == str(int(waits) + 1), "no number is given twice"

        def disk() -> Any:
            return live.client.call("GET", "/v1/nodes")[0]["disk"]

        found = live.until(disk, "what the agent says of its disk")
        assert found["total_bytes"] > found["free_bytes"] > 0
