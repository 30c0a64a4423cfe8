"""Which mechanism is chosen, and what follows when it fails, without processes or a driver."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rota.engines.rota.cuda_checkpoint import CudaCheckpoint, Probe
from rota.engines.rota.folder import Folder
from rota.engines.rota.guarding import JobGuard
from rota.engines.rota.identity import ProcessIdentity
from rota.engines.rota.live import Live
from rota.engines.rota.mechanisms import Mechanisms
from rota.engines.rota.operations import Done, Transition
from rota.engines.rota.relay import Relay
from rota.errors import WorldError
from rota.testing.engine_controller import part
from rota.training import protocol
from rota.training.page import PAGE
from rota.training.protocol import RankState
from rota.wire.sync import Mechanism, Notice, PartStatus

M = Mechanism


class FakeSupervisor:
    """Changes the status as the real one does, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.guard = JobGuard()

    def suspend(self, live: Live, mechanism: Mechanism = M.SIGNAL) -> None:
        if live.status is not PartStatus.RUNNING:
            raise WorldError("it does not run")
        self.asked.append(f"suspend {mechanism}")
        live.status, live.suspended = PartStatus.SUSPENDED, mechanism

    def resume(self, live: Live, *, cores: Sequence[int] = (), devices: Sequence[int] | None = None) -> None:
        self.asked.append(f"resume {list(cores)} {devices}")
        live.status, live.suspended = PartStatus.RUNNING, None

    def stop(self, live: Live, notice: Notice, *, grace_s: float, **_: Any) -> None:
        self.asked.append(f"stop {notice.reason} {grace_s:g}")
        live.status = PartStatus.LEAVING

    def rouse(self, live: Live) -> None:
        self.asked.append("rouse")

    def sleeps(self, live: Live) -> bool:
        return False

    def kill(self, live: Live, reason: str = "") -> None:
        self.asked.append(f"kill {reason}")
        live.status = PartStatus.LEAVING


class Stage:
    """A part, and everything a mechanism works with."""

    def __init__(
        self, tmp_path: Path, *, on_slots: bool = True, cuda: Callable[..., str] | None = None, **more: Any
    ) -> None:
        self.now, self.supervisor, self.woken = 100.0, FakeSupervisor(), threading.Event()
        self.folder = tmp_path / "training"
        protocol.prepare(self.folder)
        self.live = Live(
            part(0, run=["x"], **{"grace_s": 5.0, **more}),
            Folder(tmp_path, tmp_path / "checkpoint"),
            PartStatus.RUNNING,
            0.0,
            (0,),
        )
        self.live.shim = ProcessIdentity(7, 0, "")
        probed = Probe(cuda is not None, "")
        self.mechanisms = Mechanisms(
            self.supervisor,  # type: ignore[arg-type]
            on_slots=on_slots,
            driver=CudaCheckpoint(probed, None if cuda is None else lambda command, _: cuda(command)),
            budget_gib=10.0,
            memory_gib=lambda live: 4.0,
            wake=self.woken.set,
            now=lambda: self.now,
        )

    def speak(self, state: str = protocol.RUNNING, sequence: int = 0, **can: bool) -> None:
        """The program's rank says something."""
        capability = {"protocol": 1, "checkpoint": True, "to_host": True, **can}
        costs = {"suspend": (0.1, 77.0)}
        protocol.write_rank(
            self.folder, RankState(0, state=state, sequence=sequence, capability=capability, costs=costs)
        )
        self.mechanisms.relay(self.live).look()

    def told(self) -> tuple[str, int]:
        """The newest directive."""
        directive = protocol.read_directive(self.folder)
        assert directive is not None
        return directive.do, directive.sequence

    def poll(self, after_s: float = 0.0) -> list[Done]:
        self.now += after_s
        self.mechanisms.poll()
        return self.mechanisms.done()


@pytest.mark.parametrize(
    ("on_slots", "speaks", "to_host", "cuda", "checkpoint", "chosen"),
    [
        (True, True, True, False, "auto", M.COOPERATIVE),
        (True, True, False, False, "auto", M.COOPERATIVE),
        (True, False, False, False, "auto", M.SIGNAL),
        (True, False, False, False, "none", M.SIGNAL),
        (True, False, False, False, "own", M.RESTART),
        (False, True, True, True, "auto", M.COOPERATIVE),
        (False, True, False, True, "auto", M.CUDA),
        (False, False, False, True, "none", M.CUDA),
        (False, False, False, True, "own", M.RESTART),
        (False, False, False, False, "auto", M.RESTART),
        (False, True, False, False, "auto", M.RESTART),
    ],
)
def test_choice(
    tmp_path: Path,
    on_slots: bool,
    speaks: bool,
    to_host: bool,
    cuda: bool,
    checkpoint: str,
    chosen: Mechanism,
) -> None:
    driver = (lambda command: "") if cuda else None
    stage = Stage(tmp_path, on_slots=on_slots, cuda=driver, checkpoint=checkpoint)
    if speaks:
        stage.speak(to_host=to_host)
    assert stage.mechanisms.choice(stage.live) is chosen
    assert stage.mechanisms.capability(stage.live).suspend is chosen


def test_cooperative_there_and_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, on_slots=False)
    stage.speak()
    stage.mechanisms.suspend(stage.live, stage.live.part)
    assert stage.told() == ("suspend", 1)
    assert stage.mechanisms.next_s() < 0.02
    assert stage.poll(0.1) == []
    stage.speak(protocol.SUSPENDED, 1)
    done = stage.poll(0.1)
    assert done == [Done((0, 1), Transition.SUSPEND, M.COOPERATIVE, pytest.approx(0.2), 77.0)]
    assert stage.mechanisms.suspended_gib == {(0, 1): 4.0}
    assert stage.mechanisms.next_s() == float("inf")
    stage.mechanisms.resume(stage.live, stage.live.part, [])
    assert (stage.told(), stage.live.status) == (("resume", 2), PartStatus.RUNNING)
    stage.speak(protocol.RUNNING, 2)
    assert [one.kind for one in stage.poll(0.3)] == [Transition.RESUME]
    assert stage.supervisor.asked == ["suspend cooperative", "resume [] [0]"]
    assert stage.mechanisms.suspended_gib == {}


@pytest.mark.parametrize(
    ("on_slots", "asked", "problem"),
    [
        (True, ["suspend signal"], "the program did not stop at a step within 11 s"),
        (False, ["stop preempted 5"], "the program did not stop at a step within 11 s"),
    ],
)
def test_a_program_that_does_not_stop(tmp_path: Path, on_slots: bool, asked: list[str], problem: str) -> None:
    stage = Stage(tmp_path, on_slots=on_slots)
    stage.speak()
    stage.mechanisms.suspend(stage.live, stage.live.part)
    assert stage.poll(9.0) == []
    assert [one.problem for one in stage.poll(2.0)] == [problem]
    assert stage.supervisor.asked == asked


def test_no_room_in_host_memory(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.mechanisms.suspended_gib[9, 1] = 7.0
    stage.mechanisms.suspend(stage.live, stage.live.part)
    assert stage.supervisor.asked == ["stop preempted 5"]
    other = Stage(tmp_path / "other")
    other.mechanisms.suspended_gib[9, 1] = 7.0
    other.speak()
    other.mechanisms.suspend(other.live, other.live.part)
    assert other.told()[0] == "leave", "it can leave by checkpoint"


def test_the_driver_suspends_and_resumes(tmp_path: Path) -> None:
    stage = Stage(tmp_path, on_slots=False, cuda=lambda command: "")
    stage.mechanisms.suspend(stage.live, stage.live.part)
    assert stage.woken.wait(5.0)
    assert [one.mechanism for one in stage.poll()] == [M.CUDA]
    assert (stage.live.status, stage.live.suspended) == (PartStatus.SUSPENDED, M.CUDA)
    stage.woken.clear()
    stage.mechanisms.resume(stage.live, stage.live.part, [])
    assert stage.live.status is PartStatus.SUSPENDED, "until the driver has restored it"
    assert stage.woken.wait(5.0)
    assert [one.kind for one in stage.poll()] == [Transition.RESUME]
    assert stage.live.status is PartStatus.RUNNING


@pytest.mark.parametrize(
    ("refused", "asked"),
    [
        ("suspend", ["rouse", "stop preempted 5"]),
        ("resume", ["rouse", "suspend cuda checkpoint", "rouse", "kill suspended"]),
    ],
)
def test_a_driver_that_refuses(tmp_path: Path, refused: str, asked: list[str]) -> None:
    stage = Stage(tmp_path, on_slots=False, cuda=lambda command: "no" if refused in command else "")
    stage.mechanisms.suspend(stage.live, stage.live.part)
    assert stage.woken.wait(5.0)
    done = stage.poll()
    if refused == "resume":
        stage.woken.clear()
        stage.mechanisms.resume(stage.live, stage.live.part, [])
        assert stage.woken.wait(5.0)
        done = stage.poll()
    assert [one.problem for one in done] == ["no"]
    assert stage.supervisor.asked == asked


def test_leaving_ends_with_signals(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.speak()
    stage.mechanisms.leave(stage.live, stage.live.part)
    assert stage.told()[0] == "leave"
    assert stage.mechanisms.operations[0, 1].kind is Transition.LEAVE
    stage.poll(3.0)
    assert stage.supervisor.asked == []
    stage.poll(1.0)
    assert stage.supervisor.asked == ["stop preempted 1.25"]


@pytest.mark.parametrize("can", [{"checkpoint": False}, {}])
def test_what_cannot_leave_is_stopped(tmp_path: Path, can: dict[str, bool]) -> None:
    stage = Stage(tmp_path)
    if can:
        stage.speak(**can)
    stage.mechanisms.leave(stage.live, stage.live.part)
    assert stage.supervisor.asked == ["stop preempted 5"]


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"step": 3, "total_steps": -5, "step_s": 1e-300, "capability": {"protocol": "\ud800"}}, (3, None)),
        ({"step": 1e299}, "rank-0.json: step is 1e+299, expected a whole number from 0 to 2**53"),
        ({"state": "announced", "at_step": -10}, "rank-0.json: at_step is -10, expected a whole number"),
        ({"sequence": 2**64}, "rank-0.json: sequence is 18446744073709551616, expected"),
        ({"announced": [1]}, "rank-0.json: announced is a list, expected"),
        ({"state": "\x1b[2J" * 99}, 'rank-0.json: state is "\\u001b[2J'),
    ],
)
def test_what_a_program_claims_is_used_as_far_as_it_makes_sense(
    tmp_path: Path, claim: dict[str, object], said: tuple[int, None] | str
) -> None:
    """Numbers no store can hold and text no JSON can carry stay here; a count that makes no sense is told."""
    (tmp_path / "rank-0.json").write_text(json.dumps({"state": "running", **claim}))
    relay = Relay(tmp_path, (0,))
    relay.look()
    progress = relay.progress()
    if isinstance(said, str):
        assert progress is None
        assert said in relay.trouble
        assert relay.trouble.startswith("its program spoilt ")
        return
    assert progress is not None
    assert (progress.steps, progress.total_steps) == said
    assert (progress.step_s, relay.capability().training, relay.trouble) == (None, "1", "")
    relay.capability().model_dump_json()


@pytest.mark.parametrize("spoil", ["pipe", "folder", "empty", "garbage", "gone"])
def test_a_spoilt_folder_harms_nobody_else(tmp_path: Path, spoil: str) -> None:
    stage = Stage(tmp_path)
    stage.speak()
    for name in (PAGE, "rank-0.json", protocol.DIRECTIVE):
        path = stage.folder / name
        path.unlink(missing_ok=True)
        match spoil:
            case "pipe":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "empty":
                path.write_text("")
            case "garbage":
                path.write_text(json.dumps({"state": "announced", "step": "x", "costs": {"a": [1]}}) * 9)
    if spoil == "gone":
        stage.folder.rmdir()
    relay = Relay(stage.folder, (0,))
    relay.look()
    relay.settle()
    relay.open_directive()
    assert relay.progress() is None
    if spoil in {"pipe", "folder", "gone"}:
        with pytest.raises(OSError, match=r"."):
            relay.direct(protocol.SUSPEND)


@pytest.mark.parametrize(
    ("on_slots", "asked"), [(True, ["suspend signal"]), (False, ["stop preempted 5"])], ids=["slots", "GPUs"]
)
@pytest.mark.parametrize("name", [PAGE, protocol.DIRECTIVE])
def test_a_program_that_spoilt_its_directives_gives_its_devices_back(
    tmp_path: Path, on_slots: bool, asked: list[str], name: str
) -> None:
    """It cannot be told to stop at a step; the next mechanism takes over at once."""
    stage = Stage(tmp_path, on_slots=on_slots)
    stage.speak()
    (stage.folder / PAGE).write_bytes(b"\xff" * 64)
    if name == protocol.DIRECTIVE:
        (stage.folder / PAGE).unlink()
        (stage.folder / protocol.DIRECTIVE).mkdir()
    stage.mechanisms.suspend(stage.live, stage.live.part)
    assert stage.supervisor.asked == asked
    assert stage.mechanisms.operations == {}
    assert "its program cannot be told to stop at a step: " in stage.poll()[0].problem
