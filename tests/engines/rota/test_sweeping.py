"""What ended jobs left goes when the controller says so, and never anything of a job that lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_play import agent_at, python
from hypothesis import given
from hypothesis import strategies as st

from attempts import gone, running
from rota.client.http import Unreachable
from rota.engines.rota import sweeping
from rota.engines.rota.folder import LAUNCH, SHIM_LOG
from rota.engines.rota.launching import launch_form
from rota.engines.rota.ownership import OWNER, claim
from rota.engines.rota.supervisor import Supervisor
from rota.engines.rota.sweeping import Sweeper
from rota.testing.engine_controller import StandInController, part
from rota.wire.keeping import MOST_ROWS, Kept, KeptReply
from rota.wire.sync import Fetch, PartStatus, Wanted
from tiers import examples


class Controller:
    """Names the rows in `files` and `checkpoints`, asked about or not; remembers what it was told."""

    def __init__(self) -> None:
        self.files: set[int] = set()
        self.checkpoints: set[int] = set()
        self.heard: list[Kept] = []
        self.away = False

    def __call__(self, said: Kept) -> KeptReply:
        if self.away:
            raise Unreachable("no controller listens here")
        self.heard.append(said)
        return KeptReply(files=sorted(self.files), checkpoints=sorted(self.checkpoints), again_s=9.0)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path / "agent")
    yield made
    for live in made.known():
        made.kill(live)
        gone(made, live)
    made.close()


def leave(supervisor: Supervisor, row: int, attempts: int = 1) -> None:
    """What an ended job left here."""
    for attempt in range(1, attempts + 1):
        folder = supervisor.home.of(row, attempt)
        folder.logs.mkdir(parents=True)
        folder.log(0).write_bytes(b"x" * 20_000)
        folder.checkpoint.mkdir(parents=True)
        (folder.checkpoint / "step-1").write_bytes(b"x" * 50_000)


def here(supervisor: Supervisor) -> tuple[set[int], set[int]]:
    """Rows of which files, and of which checkpoints are there."""
    home = supervisor.home
    return set(sweeping.numbered(home.attempts)), set(sweeping.numbered(home.checkpoints))


def test_what_is_named_goes_and_the_rest_stays(supervisor: Supervisor) -> None:
    for row in range(4):
        leave(supervisor, row, attempts=row + 1)
    controller = Controller()
    sweeper = Sweeper(supervisor, controller, set)
    assert sweeper.sweep() == 9.0
    assert controller.heard[0].rows == [0, 1, 2, 3]
    assert here(supervisor) == ({0, 1, 2, 3}, {0, 1, 2, 3})
    controller.files, controller.checkpoints = {1}, {1, 2}
    sweeper.sweep()
    sweeper.sweep()
    assert here(supervisor) == ({0, 2, 3}, {0, 3})
    assert controller.heard[-1].rows == [0, 2, 3]


def test_whose_folders_they_are(supervisor: Supervisor) -> None:
    """The controller hears when the jobs were submitted that left them, as far as they say."""
    for row in range(3):
        leave(supervisor, row)
    claim(supervisor.home, part(0, run=["true"], submit_s=1234.5))
    (supervisor.home.attempts / "1" / OWNER).write_text("{}")
    controller = Controller()
    Sweeper(supervisor, controller, set).sweep()
    assert controller.heard[0].submit_s == {0: 1234.5}


def test_the_disk(supervisor: Supervisor, tmp_path: Path) -> None:
    """Sizes are measured once, and counted as long as the folders are there."""
    leave(supervisor, 0, attempts=2)
    leave(supervisor, 1)
    controller = Controller()
    sweeper = Sweeper(supervisor, controller, set)
    sweeper.sweep()
    disk = sweeper.disk()
    assert 60_000 <= disk.files_bytes < 120_000
    assert 150_000 <= disk.checkpoints_bytes < 250_000
    assert 0 < disk.free_bytes < disk.total_bytes
    controller.files = controller.checkpoints = {0}
    sweeper.sweep()
    assert 20_000 <= sweeper.disk().files_bytes < 50_000
    shared = Sweeper(supervisor, controller, set, shares_checkpoints=True)
    shared.sweep()
    assert (shared.disk().files_bytes, shared.disk().checkpoints_bytes) == (sweeper.disk().files_bytes, 0)


def test_nothing_goes_without_an_answer(supervisor: Supervisor) -> None:
    leave(supervisor, 0)
    controller = Controller()
    controller.files = controller.checkpoints = {0}
    controller.away = True
    with pytest.raises(Unreachable):
        Sweeper(supervisor, controller, set).sweep()
    assert here(supervisor) == ({0}, {0})


def test_many_jobs_are_asked_about_in_turn(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "MOST_ROWS", 2)
    for row in range(5):
        leave(supervisor, row)
    controller = Controller()
    Sweeper(supervisor, controller, set).sweep()
    assert [said.rows for said in controller.heard] == [[0, 1], [2, 3], [4]]
    assert MOST_ROWS > 2


def test_a_job_that_runs_or_was_ordered_is_not_touched(supervisor: Supervisor) -> None:
    """Even if the controller names it: a wrong answer, or a late one."""
    live = supervisor.start(part(0, run=["sleep", "600"]))
    running(supervisor, live)
    ended = supervisor.start(part(1, run=["true"]))
    gone(supervisor, ended)
    leave(supervisor, 2)
    leave(supervisor, 3)
    controller = Controller()
    controller.files = controller.checkpoints = {0, 1, 2, 3}
    sweeper = Sweeper(supervisor, controller, lambda: {2})
    sweeper.sweep()
    assert controller.heard[0].rows == [3]
    assert here(supervisor) == ({0, 1, 2}, {0, 1, 2}), "1 has ended, and its end is not acknowledged"
    assert live.status is PartStatus.RUNNING
    supervisor.forget(ended)
    sweeper.sweep()
    assert here(supervisor) == ({0, 2}, {0, 2})


def test_a_job_that_starts_while_it_is_swept(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the question and the rename an attempt begins: what it needs is there."""
    leave(supervisor, 0)
    controller = Controller()
    controller.files = controller.checkpoints = {0}
    started = []

    def ask(said: Kept) -> KeptReply:
        started.append(supervisor.start(part(0, 2, run=["sleep", "600"], restore=[1])))
        return controller(said)

    Sweeper(supervisor, ask, set).sweep()
    running(supervisor, started[0])
    assert (supervisor.home.checkpoint(0, 1) / "step-1").exists()
    assert (supervisor.home.of(0, 1).log(0)).exists()


@examples(60)
@given(
    left=st.dictionaries(st.integers(0, 6), st.integers(1, 2)),
    known=st.sets(st.integers(0, 6)),
    ordered=st.sets(st.integers(0, 6)),
    answers=st.lists(st.tuples(st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8))), max_size=3),
)
def test_nothing_alive_ever_goes(
    tmp_path_factory: pytest.TempPathFactory,
    left: dict[int, int],
    known: set[int],
    ordered: set[int],
    answers: list[tuple[set[int], set[int]]],
) -> None:
    """Whatever the controller says: what goes is what it named, less what is known or ordered here."""
    made = Supervisor(tmp_path_factory.mktemp("agent"))
    try:
        for row, attempts in left.items():
            leave(made, row, attempts)
        for row in known & left.keys():  # a shim was tried, and not forgotten: known to the next supervisor
            form = launch_form(part(row, run=["true"]), made.home, None, cores=(), cuda=(), port=None)
            made.home.of(row, 1).write(LAUNCH, form)
            (made.home.of(row, 1).path / SHIM_LOG).touch()
        made.close()
        made = Supervisor(made.home.path)
        assert {live.row for live in made.known()} == known & left.keys()
        alive = (known & left.keys()) | ordered
        controller = Controller()
        sweeper = Sweeper(made, controller, lambda: ordered)
        files, checkpoints = set(left), set(left)
        for controller.files, controller.checkpoints in answers:
            sweeper.sweep()
            files -= controller.files - alive
            checkpoints -= controller.checkpoints - alive
            assert here(made) == (files, checkpoints)
            assert all(not alive & set(said.rows) for said in controller.heard)
    finally:
        made.close()


# -- the agent -------------------------------------------------------------------------------------


def test_an_agent_sweeps_by_itself(
    home: Path, controller: StandInController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells of its disk and of what lies there, and removes what it is told to; what runs, runs on."""
    monkeypatch.setattr(sweeping, "FIRST_S", 0.05)
    with agent_at(home, controller):
        controller.order(part(0, run=python("print('hello')")))
        controller.order(part(1, devices=(1,), run=["sleep", "600"]))
        controller.status((0, 1), PartStatus.ENDED)
        controller.status((1, 1), PartStatus.RUNNING)
        controller.change((0, 1), Wanted.FORGET)
        controller.until(lambda: controller.kept and controller.kept[-1].rows == [0])
        controller.until(lambda: controller.kept[-1].disk.files_bytes > 0)
        controller.old = {0, 1}
        controller.until(lambda: not (home / "attempts" / "0").exists())
        assert (home / "attempts" / "1" / "1" / "launch.json").exists()
        piece = controller.fetch(Fetch(id="a", row=0, attempt=1, rank=0, offset=0, limit=100))
        assert piece.error
        assert controller.reports[1, 1].status is PartStatus.RUNNING


def test_an_agent_whose_controller_is_away_asks_again(
    home: Path, controller: StandInController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "FIRST_S", 0.05)
    monkeypatch.setattr(sweeping, "AGAIN_S", 0.05)
    controller.leave()
    with agent_at(home, controller):
        controller.until(lambda: controller.kept_in_vain > 1)
        controller.come_back()
        controller.until(lambda: controller.kept)


def test_what_a_job_puts_in_the_way_keeps_no_other_from_being_swept(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that no job has, records that say nonsense, a folder that cannot be measured or removed."""
    for row in range(4):
        leave(supervisor, row)
    home = supervisor.home
    (home.checkpoints / ("9" * 99)).mkdir(parents=True)
    for row, at_s in enumerate(["1e999", f"1{'0' * 400}", "-5"]):
        (home.attempts / str(row) / OWNER).write_text(f'{{"submit_s": {at_s}}}')
    measure, remove = sweeping.size_of, sweeping.throw_away

    def measured(path: Path) -> int:
        if path.name == "2":
            raise RuntimeError("nobody has foreseen this")
        return measure(path)

    def removed(root: Path, name: str) -> bool:
        if name == "2":
            raise RuntimeError("nor this")
        return remove(root, name)

    monkeypatch.setattr(sweeping, "size_of", measured)
    monkeypatch.setattr(sweeping, "throw_away", removed)
    controller = Controller()
    controller.files = {1, 2, 3}
    Sweeper(supervisor, controller, set).sweep()
    assert controller.heard[0].submit_s == {}
    assert here(supervisor)[0] == {0, 2}
