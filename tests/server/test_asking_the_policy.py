"""Questions that the policy process answers, also on a cluster where nothing happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from site_play import Site

from rota.scheduler.loop import Loop
from rota.server.refusals import Busy
from rota.server.scheduler import Scheduler
from rota.worlds.live.inbox import Begun


class Silent:
    """A host that answers nothing: its process has died, or computes a decision."""

    def __init__(self, is_away: bool) -> None:
        self.is_away = is_away

    def freeze(self) -> bytes:
        raise Busy("ask again in a moment")

    def explain(self, rows: list[int], timeout_s: float) -> dict[int, Any]:
        raise Busy("ask again in a moment")


@pytest.mark.parametrize("ask", [lambda s: s.freeze(), lambda s: s.explain(0)], ids=["freeze", "explain"])
@pytest.mark.parametrize("is_away", [True, False])
def test_a_process_that_has_died_wakes_the_scheduler(
    tmp_path: Path, is_away: bool, ask: Callable[[Scheduler], object]
) -> None:
    """Its next step, which begins with another process, may be long off otherwise."""
    site = Site(tmp_path, {"n0": 1})
    site.submit(5.0)
    site.turn()
    assert isinstance(site.scheduler.loop, Loop)
    site.inbox.take(0.0)
    site.scheduler.host = Silent(is_away)  # type: ignore[assignment]
    with pytest.raises(Busy):
        ask(site.scheduler)
    assert site.inbox.take(0.0) == ([Begun()] if is_away else [])
