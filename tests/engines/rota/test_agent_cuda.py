"""Suspension by the driver, as a whole agent does it: real processes that believe in a toy driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_play import OVER, agent_at
from test_agent_devices import FakeNvml
from toy_cuda import ToyCuda, install, program

from rota.engines.rota.cuda_driver import ProcessState
from rota.engines.rota.daemon import Agent
from rota.engines.rota.devices import NvidiaGpus
from rota.engines.rota.identity import Stat
from rota.engines.rota.nvml import Nvml
from rota.engines.rota.processes import continue_tree
from rota.testing.engine_controller import PATIENCE_S, StandInController, part
from rota.wire.sync import Mechanism, PartStatus, Report, Wanted

S = ProcessState
KEY = (0, 1)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyCuda:
    return install(tmp_path / "toy", monkeypatch)


@contextmanager
def gpu_agent(home: Path, controller: StandInController, nvml: FakeNvml | None = None) -> Iterator[Agent]:
    """An agent of two GPUs whose driver can checkpoint; what it has begun runs on after it."""
    nvml = FakeNvml() if nvml is None else nvml
    nvml.driver = b"580.159.04"
    with agent_at(home, controller, NvidiaGpus(Nvml(nvml)), usage_s=0.2, health_s=0.1) as agent:
        yield agent


def wait(true: Callable[[], object]) -> None:
    """Until it is true."""
    until_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def goes_on(toy: ToyCuda, pid: int) -> None:
    """It does another step."""
    before = toy.steps(pid)
    wait(lambda: toy.steps(pid) > before)


def sleeps(pid: int) -> bool:
    stat = Stat.of(pid)
    return stat is not None and stat.state == "T"


def begin(toy: ToyCuda, controller: StandInController, run: list[str]) -> int:
    """Job 0 computes; the process that does."""
    controller.order(part(0, devices=(0,), run=run, grace_s=1.0, env=toy.environment))
    controller.status(KEY, PartStatus.RUNNING)
    wait(toy.holders)
    goes_on(toy, toy.holders()[0])
    return toy.holders()[0]


def suspended(controller: StandInController) -> Report:
    controller.change(KEY, Wanted.SUSPEND)
    return controller.status(KEY, PartStatus.SUSPENDED)


def below_a_shell() -> list[str]:
    """The rank is a shell, and what computes is its child, as in most job scripts."""
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in program())
    return ["sh", "-c", f"{quoted}; true"]


@pytest.mark.parametrize("run", [program(), below_a_shell()], ids=["rank", "child of a shell"])
def test_there_and_back(home: Path, controller: StandInController, toy: ToyCuda, run: list[str]) -> None:
    with gpu_agent(home, controller):
        pid = begin(toy, controller, run)
        controller.until(lambda: controller.reports[KEY].capability)
        assert controller.reports[KEY].capability.suspend is Mechanism.CUDA  # type: ignore[union-attr]
        report = suspended(controller)
        assert (toy.state(pid), sleeps(pid), toy.holders()) == (S.CHECKPOINTED, True, [pid])
        assert not report.why
        controller.change(KEY, Wanted.RUN)
        controller.status(KEY, PartStatus.RUNNING)
        assert toy.state(pid) is S.RUNNING
        goes_on(toy, pid)
        assert {cost.kind for cost in controller.reports[KEY].costs} >= {"suspend", "resume"}


def test_what_holds_no_gpu_yet_takes_none_while_it_is_suspended(
    home: Path, controller: StandInController, toy: ToyCuda, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    run = ["sh", "-c", f"until [ -e '{go}' ]; do sleep 0.02; done; " + below_a_shell()[2]]
    with gpu_agent(home, controller):
        controller.order(part(0, devices=(0,), run=run, grace_s=1.0, env=toy.environment))
        controller.status(KEY, PartStatus.RUNNING)
        suspended(controller)
        go.touch()
        time.sleep(0.3)
        assert toy.holders() == []
        controller.change(KEY, Wanted.RUN)
        controller.status(KEY, PartStatus.RUNNING)
        wait(toy.holders)


def test_what_the_driver_refuses_leaves_and_nobody_stays_locked(
    home: Path, controller: StandInController, toy: ToyCuda
) -> None:
    with gpu_agent(home, controller):
        pid = begin(toy, controller, program())
        toy.mark(f"{pid}.managed")
        controller.change(KEY, Wanted.SUSPEND)
        controller.status(KEY, *OVER)
        assert toy.state(pid) is S.RUNNING
        told = [report.why for _, report in controller.history if report.why]
        assert f"cannot checkpoint process {pid}: the driver answered 801 CUDA_ERROR_TOY" in told


def test_a_suspended_job_ends_when_it_is_told_to(
    home: Path, controller: StandInController, toy: ToyCuda
) -> None:
    with gpu_agent(home, controller):
        begin(toy, controller, below_a_shell())
        suspended(controller)
        began = time.monotonic()
        controller.change(KEY, Wanted.STOP)
        end = controller.status(KEY, *OVER).end
        assert end is not None
        assert end.signal == 15, "it is woken for its SIGTERM, and need not be killed"
        assert time.monotonic() - began < PATIENCE_S


def test_room_on_the_host_counts_what_is_on_the_device(
    home: Path, controller: StandInController, toy: ToyCuda
) -> None:
    """Device memory comes to the host: 10 TiB of it will not, and the job leaves instead."""
    nvml = FakeNvml()
    with gpu_agent(home, controller, nvml):
        pid = begin(toy, controller, below_a_shell())
        nvml.held = {0: {pid: 10 * 2**40}}
        controller.change(KEY, Wanted.SUSPEND)
        controller.status(KEY, *OVER)
        assert toy.state(pid) is S.RUNNING


@pytest.mark.parametrize("left", [S.LOCKED, S.CHECKPOINTED])
def test_an_agent_that_died_before_a_suspension_was_noted(
    home: Path, controller: StandInController, toy: ToyCuda, left: ProcessState
) -> None:
    """The record says that it runs: so it does, and is not blocked at its next CUDA call for ever."""
    with gpu_agent(home, controller):
        pid = begin(toy, controller, below_a_shell())
    toy.put(pid, left)
    with gpu_agent(home, controller):
        goes_on(toy, pid)
        assert not any(report.why for _, report in controller.history)
        suspended(controller)
        assert (toy.state(pid), sleeps(pid)) == (S.CHECKPOINTED, True)


@pytest.mark.parametrize("left", [S.RUNNING, S.LOCKED, S.CHECKPOINTED])
def test_an_agent_that_died_before_a_resumption_was_noted(
    home: Path, controller: StandInController, toy: ToyCuda, left: ProcessState
) -> None:
    """The record says that it is suspended, and its GPU may be another's: it gives it back."""
    with gpu_agent(home, controller) as agent:
        pid = begin(toy, controller, below_a_shell())
        suspended(controller)
        shim = next(live.shim for live in agent._supervisor.known())
        assert shim is not None
    continue_tree(shim.pid)
    toy.put(pid, left)
    with gpu_agent(home, controller):
        wait(lambda: toy.state(pid) is S.CHECKPOINTED and sleeps(pid))
        assert controller.reports[KEY].status is PartStatus.SUSPENDED
        controller.change(KEY, Wanted.RUN)
        controller.status(KEY, PartStatus.RUNNING)
        goes_on(toy, pid)


def test_a_suspended_job_sleeps_on_under_the_next_agent(
    home: Path, controller: StandInController, toy: ToyCuda
) -> None:
    with gpu_agent(home, controller):
        pid = begin(toy, controller, program())
        suspended(controller)
    (toy.folder / f"{pid}.late").write_text("99")  # whoever asked the driver again would be heard of
    with gpu_agent(home, controller):
        controller.until(lambda: controller.reports[KEY].status is PartStatus.SUSPENDED)
        assert (toy.state(pid), sleeps(pid)) == (S.CHECKPOINTED, True)
        assert not any(report.why for _, report in controller.history)
