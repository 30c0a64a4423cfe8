"""Whatever a job writes harms that job alone: its agent goes on, starts again, and handles its neighbour."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attempts import gone
from rota.engines.rota.daemon import Agent, AgentSettings
from rota.engines.rota.devices import CpuSlots
from rota.engines.rota.folder import EXIT, LAUNCH, PLACE, RANKS, SHIM, STOP, SUSPEND, Folder
from rota.engines.rota.guarding import JobGuard
from rota.engines.rota.logs import fetch
from rota.engines.rota.mechanisms import Mechanisms
from rota.engines.rota.relay import Relay
from rota.engines.shared.orders import QuestionBasis
from rota.testing.engine_controller import StandInController, part
from rota.training import host_limits, protocol
from rota.training.page import PAGE
from rota.training.protocol import RankState
from rota.wire.sync import Fetch, Part, PartStatus, Report, SyncReply, Wanted
from tiers import examples

BAD, GOOD = (0, 1), (1, 1)
NUMBERS = [-10, -1, 0, 1, 2**53, 2**63, 2**64, 10**400, 1e299, 1e308, 5e-324, -0.0, 0.5]
ODD = [
    float("nan"),
    float("inf"),
    float("-inf"),
    None,
    True,
    "",
    "x" * 999,
    "\ud800",
    "\0",
    "\x1b[2J",
    [],
    {},
]
values = st.sampled_from([*NUMBERS, *ODD]) | st.lists(st.sampled_from([*NUMBERS, *ODD]), max_size=3)
TRAINING = {
    "rank-0.json": {
        **dict.fromkeys((*protocol.AGREED, *protocol.RANGES, "checkpoint_step", "total_steps", "version"), 1),
        "state": "announced",
        "capability": {"protocol": 1, "checkpoint": True, "to_host": True, "agreement": "agent"},
        "costs": {"suspend": [1.0, 1.0], "ready": [1.0, 1.0]},
    },
    protocol.DIRECTIVE: {"do": "suspend", "sequence": 1, "deadline_s": 1.0, "batch_size": 1.0, "workers": 1},
    host_limits.FILE: {"cpus": 1.0, "memory_gib": 1.0, "cores": [0]},
}
"""Every file of its training folder, as programs and agents write it; `command` is beside them."""
DO = {"pid": 99_999_999, "started": 1, "boot": "another", "rank": 0}
RECORDS = {
    LAUNCH: {"version": 1, "part": {}, "devices": [0], "cores": [0], "port": 1, "cgroups": []},
    SHIM: DO,
    RANKS: {"started_s": 1.0, "steady_s": 1.0, "pgid": 99_999_999, "ranks": [DO]},
    EXIT: {
        **{"version": 1, "ended_s": 1.0, "steady_s": 1.0, "first": 0, "error": "", "infrastructure": False},
        "ranks": [{"rank": 0, "code": 1, "signal": None, "ended_s": 1.0, "cpu_s": 1.0, "peak_bytes": 1}],
        "oom_kills": 1,
    },
    STOP: {
        **{"version": 2, "since_s": 1.0, "terminate_s": 1.0, "kill_s": 1.0, "notice_signal": ""},
        **{"noticed": False, "terminated": False},
    },
    SUSPEND: {"mechanism": "signal", "since_s": 1.0},
    PLACE: {"devices": [0], "cores": [0]},
}
"""Every record of an attempt's folder: a job may write them where the agent runs as the same user."""


def spoil(path: Path, kind: str, content: bytes) -> None:
    """Put something else where a file is, as any program could."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    match kind:
        case "content":
            path.write_bytes(content)
        case "huge":
            path.touch()
            os.truncate(path, 2**40)
        case "deep":
            path.write_bytes(b"[" * 60_000)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("/etc/passwd")
        case "loop":
            path.symlink_to(path)
        case "hard link":
            other = path.with_name("other")
            other.touch()
            path.hardlink_to(other)
        case "socket":
            with suppress(OSError), socket.socket(socket.AF_UNIX) as one:  # its path may be too long
                one.bind(str(path))


KINDS = ("huge", "deep", "pipe", "folder", "link", "loop", "hard link", "socket", "gone")


@st.composite
def spoilt(
    draw: st.DrawFn, files: dict[str, dict[str, Any]], others: dict[str, bytes]
) -> tuple[str, str, bytes]:
    """Name of a file, what is put there, and its content."""
    name = draw(st.sampled_from([*files, *others]))
    kind = draw(st.sampled_from(["content"] * len(KINDS) + list(KINDS)))
    if name in others or draw(st.integers(0, 9)) == 0:
        return name, kind, draw(st.sampled_from(list(others.values())) | st.binary(max_size=80))
    form = json.loads(json.dumps(files[name]))
    for _ in range(draw(st.integers(1, 3))):
        inside = form
        key = draw(st.sampled_from(sorted(inside)))
        if isinstance(inside[key], dict) and inside[key] and draw(st.booleans()):
            inside, key = inside[key], draw(st.sampled_from(sorted(inside[key])))
        inside[key] = draw(values)
    return name, kind, json.dumps(form).encode()


class Stage:
    """Two jobs that run, one of which writes what it likes, and an agent without a controller's threads."""

    def __init__(self, home: Path) -> None:
        self.home, self.version, self.told = home, 0, 0
        self.agent = self.begin()

    def begin(self) -> Agent:
        """An agent that finds what the one before has left."""
        settings = AgentSettings(self.home, "here", usage_s=0.0)
        return Agent(settings, CpuSlots(2, [0]), StandInController())

    def again(self) -> None:
        """The agent dies, and another one begins."""
        self.agent._supervisor.close()
        self.agent = self.begin()
        self.order(*self.parts)
        self.step()

    def order(self, *parts: Part) -> None:
        """The controller wants this from now on."""
        self.version += 1
        self.parts = [one.model_copy(update={"version": self.version}) for one in parts]
        reply = SyncReply(controller="one", version=self.version, now_s=0.0, parts=self.parts, whole=True)
        self.agent._orders.take(reply, QuestionBasis("", 0))

    def step(self) -> None:
        """One turn of the agent's loop."""
        self.agent._supervisor.wait(0.01)
        self.agent._timers()
        self.agent._step()

    def until(self, look: Callable[[], object]) -> None:
        end_s = time.monotonic() + 30.0
        while not look():
            assert time.monotonic() < end_s
            self.step()
            time.sleep(0.01)

    def report(self, key: tuple[int, int]) -> Report:
        """What the controller would hear of a part."""
        return self.agent._board._current[key]

    def neighbour_speaks(self) -> None:
        """The other program has done a step: its agent tells of it in the same turn."""
        self.told += 1
        protocol.write_rank(self.folder(GOOD).training, RankState(0, step=self.told))
        self.step()
        progress = self.report(GOOD).progress
        assert progress is not None
        assert progress.steps == self.told
        assert self.report(GOOD).why == ""

    def folder(self, key: tuple[int, int]) -> Folder:
        return self.agent._supervisor.home.of(*key)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("guarded") / "agent")
    try:
        made.order(part(0, run=["sleep", "600"]), part(1, devices=(1,), run=["sleep", "600"]))
        made.step()
        made.until(lambda: all(made.report(key).status is PartStatus.RUNNING for key in (BAD, GOOD)))
        yield made
    finally:
        supervisor = made.agent._supervisor
        for live in supervisor.known():
            supervisor.kill(live)
            gone(supervisor, live)
        supervisor.close()


PAGES = {PAGE: b"\xff" * 64, "rank-1.json": b"{}", "limits.json.1.new": b""}
FULL = {"own_cpus": 1.0, "own_gib": 1.0, "batch_size": 8.0}


@pytest.mark.slow
@examples(300)
@given(
    st.lists(spoilt(TRAINING, PAGES), min_size=1, max_size=3),
    st.sampled_from([{"wanted": Wanted.SUSPEND}, FULL, {}]),
    st.booleans(),
)
def test_no_file_of_a_job_stops_its_agent(
    stage: Stage, files: list[tuple[str, str, bytes]], order: dict[str, Any], restarts: bool
) -> None:
    """Whatever is in its training folder or its log, before and after a restart of the agent."""
    folder = stage.folder(BAD)
    for name, kind, content in files:
        spoil(folder.training / name, kind, content)
    spoil(folder.log(0), files[0][1], files[0][2])
    bad, good = stage.parts
    stage.order(
        bad.model_copy(update={"own_cpus": None, "own_gib": None, "wanted": Wanted.RUN, **order}), good
    )
    stage.step()
    if restarts:
        stage.again()
    stage.neighbour_speaks()
    piece = fetch(stage.agent._supervisor.home, Fetch(id="a", row=0, attempt=1, rank=0, offset=-9, limit=9))
    piece.model_dump_json()
    assert stage.report(BAD).status in (PartStatus.RUNNING, PartStatus.SUSPENDED)
    assert Report.model_validate_json(stage.report(BAD).model_dump_json()) == stage.report(BAD)


@pytest.mark.slow
@examples(300)
@given(st.lists(spoilt(RECORDS, {"lock": b"", "shim.log": b""}), min_size=1, max_size=3), st.booleans())
def test_no_record_of_an_attempt_keeps_an_agent_from_starting(
    stage: Stage, files: list[tuple[str, str, bytes]], has_ended: bool
) -> None:
    """One that lies in the folder when the agent starts is over or lost soon; its neighbour is handled."""
    home = stage.agent._supervisor.home
    folder = home.of(2, 1)
    shutil.rmtree(folder.path, ignore_errors=True)
    folder.logs.mkdir(parents=True)
    folder.training.mkdir()
    form = {**RECORDS[LAUNCH], "part": part(2, run=["true"]).model_dump(mode="json")}
    (folder.path / LAUNCH).write_text(json.dumps(form))
    for name in (SHIM, RANKS, "shim.log", EXIT)[: 4 if has_ended else 3]:
        (folder.path / name).write_text(json.dumps(RECORDS.get(name, "")))
    for name, kind, content in files:
        spoil(folder.path / name, kind, content)
    stage.again()
    stage.neighbour_speaks()
    live = stage.agent._supervisor.find(2, 1)
    assert live is None or live.gone or stage.agent._guard.trouble(live.key) or live.why


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (Relay, "look"),
        (Relay, "capability"),
        (Relay, "progress"),
        (Mechanisms, "_look_at_program"),
        (Mechanisms, "attach"),
        (Mechanisms, "suspend"),
    ],
)
@pytest.mark.slow
def test_what_nobody_has_foreseen_is_told_and_stays_with_its_job(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    before = getattr(owner, method)

    def fails_for_one(self: Any, *arguments: Any, **more: Any) -> Any:
        folder = self.folder if isinstance(self, Relay) else _folder_of(arguments[0])
        if folder == stage.folder(BAD).training:
            raise LookupError("nobody has foreseen this")
        return before(self, *arguments, **more)

    for name in (PAGE, protocol.DIRECTIVE, "rank-0.json"):
        spoil(stage.folder(BAD).training / name, "gone", b"")
    bad, good = stage.parts
    stage.order(bad.model_copy(update={"wanted": Wanted.RUN, "batch_size": None}), good)
    state = RankState(0, capability={"protocol": 1, "checkpoint": True, "to_host": True})
    protocol.write_rank(stage.folder(BAD).training, state)
    stage.until(lambda: stage.report(BAD).status is PartStatus.RUNNING)
    monkeypatch.setattr(owner, method, fails_for_one)
    stage.again()
    stage.order(stage.parts[0].model_copy(update={"wanted": Wanted.SUSPEND}), good)
    stage.step()
    stage.neighbour_speaks()
    assert "nobody has foreseen this" in stage.report(BAD).why
    monkeypatch.undo()
    stage.order(stage.parts[0].model_copy(update={"wanted": Wanted.RUN}), good)
    stage.agent._mechanisms.operations.clear()


def _folder_of(subject: Any) -> Path:
    """The training folder of a part, or of what is under way with one."""
    live = getattr(subject, "live", subject)
    folder: Path = live.folder.training
    return folder


def test_a_trouble_is_told_as_long_as_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    guard = JobGuard()

    def fails() -> int:
        raise KeyError("a")

    for _ in range(3):
        assert guard.run(BAD, "count", fails, 7) == 7
    assert guard.trouble(BAD) == "the agent cannot count: KeyError: 'a'"
    assert guard.trouble(GOOD) == ""
    assert len(caplog.records) == 1, "said once, not at each try"
    assert guard.run(BAD, "count", lambda: 3, 7) == 3
    assert guard.trouble(BAD) == ""
    guard.run(BAD, "count", fails, 7)
    guard.keep({GOOD})
    assert guard.trouble(BAD) == ""
