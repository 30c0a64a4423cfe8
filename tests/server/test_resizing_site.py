"""A running job gets another number of devices while controllers are killed over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from site_play import Site


@pytest.mark.parametrize("every", [0, 1, 2, 3], ids=["no kill", "each turn", "each second", "each third"])
def test_it_goes_on_with_what_it_saved(tmp_path: Path, every: int) -> None:
    s = Site(tmp_path, {"n0": 2})
    row = s.submit(20.0, checkpoint="own")
    asked = False

    def meddle(turn: int) -> None:
        nonlocal asked
        job = s.store.job(row)
        assert job is not None
        if not asked and job.now.state == "RUNNING" and s.time.now > 5.0:
            asked = True
            s.command("update", row, gpus=2)
        if asked and every and turn % every == 0 and s.kills < 12:
            s.kill_controller()

    s.run(between=meddle)
    attempts = s.store.attempts(row)
    job = s.store.job(row)
    assert job is not None
    assert (job.now.state, job.asked.gpus) == ("COMPLETED", 2)
    assert len(attempts[-1].grant[1]) == 2
    assert s.programs[row].saved_s > 0.0, "it went on from there"
