"""Storms over several agents: each ends with nobody lost, nobody run twice at once, and no slot shared."""

from __future__ import annotations

import os
import random
import secrets
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from crashing import drain
from lines import Line
from storms import SCENES, Fleet, Storm, StormLoad, Watchers, can_be_elsewhere, judge

from mounts import small_disk

SETTINGS: dict[str, Any] = {"back_off": 0.1, "back_off_most": 0.5, "deadline": 3.0, "retries_alike": 0}
POLICIES = ("las:quantum=0.8", "fifo:skip=yes", "tiresias:limits=1")
SEED = "ROTA_CRASH_SEED"
PATIENCE_S = 600.0


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENES)
def test_a_storm(tmp_path: Path, request: pytest.FixtureRequest, name: str) -> None:
    seed = int(os.environ.get(SEED) or secrets.randbelow(10**6))
    print(f"to repeat it: {SEED}={seed} pytest '{request.node.nodeid}'")
    scene, chooser = SCENES[name], random.Random(seed)
    if scene.own_clocks and not can_be_elsewhere():
        pytest.skip("only root gives an agent another machine's name")
    if scene.mounts and not can_be_elsewhere():
        pytest.skip("only root makes a folder read-only for everybody")
    store = request.getfixturevalue("postgres") if scene.postgres else None
    settings = {**SETTINGS, "policy": chooser.choice(POLICIES)}
    if store is not None:
        settings["database_url"] = store.database()
    with ExitStack() as stack:
        line = None
        if store is not None and scene.store_line:
            line = stack.enter_context(closing(Line(lambda: store.socket)))
            settings["database_url"] = store.over(settings["database_url"], line.port)
        disk = (
            stack.enter_context(small_disk(tmp_path / "disk", scene.small_disk)) if scene.small_disk else None
        )
        live = stack.enter_context(Fleet((disk or tmp_path) / "cluster", scene, **settings))
        watchers = stack.enter_context(Watchers(live, scene.watchers))
        storm = Storm(live, StormLoad(live, tmp_path / "evidence", chooser), chooser, store, disk, line)
        storm.run()
        drain(live, storm.load, PATIENCE_S)
        judge(storm)
    assert watchers.opened >= scene.watchers
    print(f"{name}: {dict(storm.done)}, {len(storm.load.ids)} jobs under {settings['policy']}")
    print(*sorted(storm.load.refusals), sep="\n")
