"""The daemon on GPUs that are not there: NVML is a stand-in, the jobs are real."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_play import OVER, agent_at, python
from test_agent_devices import FakeNvml

from rota.engines.rota.daemon import Agent
from rota.engines.rota.devices import NvidiaGpus
from rota.engines.rota.nvml import Nvml
from rota.testing.engine_controller import StandInController, part
from rota.wire.sync import Mechanism, PartStatus, Wanted


@contextmanager
def gpu_agent(home: Path, controller: StandInController, nvml: FakeNvml) -> Iterator[Agent]:
    with agent_at(home, controller, NvidiaGpus(Nvml(nvml)), usage_s=0.2, health_s=0.1) as agent:
        yield agent


def test_jobs_see_their_gpus_and_a_sick_one_takes_none(home: Path, controller: StandInController) -> None:
    nvml = FakeNvml()
    show = python("import os; print(os.environ['CUDA_VISIBLE_DEVICES'])")
    with gpu_agent(home, controller, nvml):
        controller.order(part(0, devices=(1,), run=show))
        controller.status((0, 1), PartStatus.ENDED)
        assert (home / "attempts" / "0" / "1" / "logs" / "rank-0.log").read_text() == "GPU-1\n"
        controller.order(part(1, devices=(0,), run=["sleep", "600"]))
        controller.status((1, 1), PartStatus.RUNNING)
        nvml.xids.append((1, 79))
        told = controller.until(lambda: next((r.devices for r in controller.requests[1:] if r.devices), None))
        controller.until(lambda: any(r.devices and not r.devices[1].healthy for r in controller.requests))
        assert told is not None
        controller.order(part(2, devices=(1,), run=show))
        assert controller.status((2, 1), *OVER).why == "GPU 1 cannot be used: the driver reported XID 79"
        assert controller.reports[1, 1].status is PartStatus.RUNNING
        nvml.held[0] = {controller.reports[1, 1].pids[0]: 3 * 2**30, os.getpid(): 2**30}
        controller.until(lambda: (usage := controller.reports[1, 1].usage) and usage.gpu_memory_gib == 3.0)
        usage = controller.reports[1, 1].usage
        assert usage is not None
        assert usage.gpu_utilisation == 1.0


def test_without_a_driver_checkpoint_a_suspension_is_a_stop(
    home: Path, controller: StandInController
) -> None:
    with gpu_agent(home, controller, FakeNvml()):
        controller.order(part(0, run=["sleep", "600"]))
        report = controller.status((0, 1), PartStatus.RUNNING)
        controller.until(lambda: controller.reports[0, 1].capability)
        report = controller.reports[0, 1]
        assert report.capability is not None
        assert report.capability.suspend is Mechanism.RESTART
        controller.change((0, 1), Wanted.SUSPEND)
        end = controller.status((0, 1), PartStatus.ENDED).end
        assert end is not None
        assert end.signal == 15


def test_a_process_cannot_move_to_another_gpu(home: Path, controller: StandInController) -> None:
    with gpu_agent(home, controller, FakeNvml()):
        controller.order(part(0, run=["sleep", "600"]))
        controller.status((0, 1), PartStatus.RUNNING)
        controller.change((0, 1), Wanted.RUN, devices=[1])
        assert controller.status((0, 1), PartStatus.ENDED).end is not None
