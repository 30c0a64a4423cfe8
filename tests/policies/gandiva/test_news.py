"""News: what changed since the last look, or that everybody must be looked at."""

from __future__ import annotations

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.policies.gandiva.news import News
from rota.scheduler.snapshot import Snapshot
from rota.table.progress import Progress
from rota.table.state import Phase, State


def state_of_three() -> State:
    jobs = trace_of("A 1x10 B 1x10 C 1x10").jobs
    state = State(jobs, parse_cluster("1x4"), Progress(3))
    for row in range(3):
        state.submit(row)
    return state


def test_only_rows_that_changed_are_news() -> None:
    state, news, memory = state_of_three(), News(), {}
    assert news.rows(Snapshot(state), memory) is None, "the first look"
    assert news.rows(Snapshot(state), memory) == set()
    state.start(Grant(1, (0,)))
    state.start(Grant(2, (1,)))
    state.free(1)
    state.stop(1, Phase.COMPLETED)
    assert news.rows(Snapshot(state), memory) == {1, 2}
    assert news.rows(Snapshot(state), memory) == set()


def test_another_memory_or_state_makes_everything_news() -> None:
    state, news, memory = state_of_three(), News(), {"queue": [0]}
    news.rows(Snapshot(state), memory)
    assert news.rows(Snapshot(state), dict(memory)) is None
    assert news.rows(Snapshot(state_of_three()), memory) is None
