"""Many jobs that stop and begin at one moment: in C the same columns, to the bit, as one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota.table.occupancy
import rota.table.progress
import rota.table.rows
import rota.table.state
import strategies  # noqa: F401  (registers the profile)
from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.table import turnover
from rota.table.progress import COLUMNS as PROGRESS
from rota.table.progress import Progress
from rota.table.state import COLUMNS, State

pytestmark = pytest.mark.skipif(not turnover.is_built(), reason="no C compiler when Rota was installed")

CLUSTER = parse_cluster("40x2")
JOBS = trace_of(" ".join(f"j{n} {1 + n % 2}x{100 + 7 * n}@0" for n in range(80))).jobs
SWAPS = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(0, 40), st.integers(0, 5), st.floats(0.0, 1e7), st.floats(0.1, 9.0)
    ),
    max_size=8,
)


class Table:
    """A table of jobs that stop, move and begin in numbers, on nodes of their own."""

    def __init__(self) -> None:
        self.state = State(JOBS, CLUSTER, Progress(len(JOBS)))
        self.told: list[object] = []
        self.nodes = list(range(CLUSTER.nodes))
        for row in range(len(JOBS)):
            self.state.submit(row)
        self.devices: dict[tuple[int, int], tuple[int, ...]] = {}

    def swap(self, leave: int, come: int, move: int, after_s: float, rate: float) -> None:
        """The first `leave` that run stop, some that run move, and the first `come` that wait begin.

        They begin and move to nodes that others leave, then to free ones.
        """
        state = self.state
        state.now += after_s
        running = state.running.sorted().tolist()
        gone, moved = running[:leave], running[leave : leave + move]
        free = [state.grants[row].devices[0] // 2 for row in gone] + self.nodes
        came = [*moved, *state.waiting.sorted().tolist()[:come]][: len(free)]
        left = [state.grants[row].devices[0] // 2 for row in moved[: len(came)]]
        grants = [Grant(row, self.on(free[i], state.gpus_of[row])) for i, row in enumerate(came)]
        self.nodes = free[len(came) :] + left
        state.progress.swap(gone, came, [rate + 0.1 * row for row in came], state.now)
        self.told.append(state.swap(gone, grants))

    def on(self, node: int, gpus: int) -> tuple[int, ...]:
        """Devices of a node: one tuple for all who get them, as policies give them."""
        return self.devices.setdefault((node, gpus), tuple(range(2 * node, 2 * node + gpus)))

    def columns(self) -> list[bytes]:
        own = [getattr(self.state, name).tobytes() for name in COLUMNS]
        return own + [getattr(self.state.progress, name).tobytes() for name in PROGRESS]

    def kept(self) -> list[object]:
        state, claims = self.state, self.state.occupancy
        sets = [(rows.rows.tolist(), rows.places) for rows in (state.waiting, state.running)]
        free = claims.free
        return [sets, state.grants, state.log, state.waiting_gpus, claims.claimed, free.devices, free.buckets]


@given(SWAPS)
def test_in_c_as_one_by_one(swaps: list[tuple[int, int, int, float, float]]) -> None:
    together, single = Table(), Table()
    for swap in swaps:
        together.swap(*swap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rota.table.state, "STOP", None)
        patch.setattr(rota.table.progress, "WORK", None)
        patch.setattr(rota.table.rows, "EXCHANGE", None)
        patch.setattr(rota.table.occupancy, "CHANGE_HANDS", None)
        for swap in swaps:
            single.swap(*swap)
    assert together.columns() == single.columns()
    assert together.told == single.told
    assert together.kept() == single.kept()


def test_a_row_that_is_none_is_refused() -> None:
    """Nothing is written beyond the columns."""
    table = Table()
    with pytest.raises(KeyError):
        table.state.swap([len(JOBS)], [])
    with pytest.raises(IndexError, match=f"there is no row {len(JOBS)}"):
        table.state.swap([], [Grant(len(JOBS), (0,))])
    with pytest.raises(IndexError, match="there is no row -1"):
        table.state.progress.swap([-1], [], [], 0.0)


def test_columns_in_other_places_are_followed() -> None:
    """A table that grows puts longer columns in the place of its own."""
    table = Table()
    table.swap(0, 20, 0, 1.0, 1.0)
    for name in COLUMNS:
        setattr(table.state, name, getattr(table.state, name).copy())
    table.state.bind()
    progress = table.state.progress
    progress.base, progress.rate, progress.since = (
        column.copy() for column in (progress.base, progress.rate, progress.since)
    )
    table.swap(20, 0, 0, 2.0, 1.0)
    assert table.state.run_s.sum() == 40.0
    assert progress.base.sum() > 40.0
    assert not progress.rate.any()


@pytest.mark.slow
def test_the_compiled_build_uses_it() -> None:
    fast = Path("build/fast")
    if not any((fast / "rota" / "table").glob("turnover.*.so")):
        pytest.skip("`make fast` has not been run")
    asked = "from rota.table.turnover import is_built, __file__ as file; print(is_built(), file)"
    said = subprocess.run(
        [sys.executable, "-c", asked],
        env={"PYTHONPATH": str(fast)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.startswith("True"), said.stdout
