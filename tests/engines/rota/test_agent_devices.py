"""CPU slots and GPUs behind one face; GPUs by a stand-in for the NVML module."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from rota.engines.rota import devices as devices_module
from rota.engines.rota.devices import CpuSlots, NvidiaGpus, open_devices
from rota.engines.rota.nvml import Nvml, NvmlError
from rota.errors import InputError, WorldError


class FakeNvml:
    """As much of the `pynvml` module as Rota asks for."""

    class NVMLError(Exception):
        pass

    nvmlEventTypeXidCriticalError = 8  # noqa: N815
    nvmlMemory_v2 = 0x02000028  # noqa: N815

    def __init__(self, count: int = 2, *, events: bool = True) -> None:
        self.gpus, self.has_events = count, events
        self.driver = b"535.10"
        self.held: dict[int, dict[int, int | None]] = {}
        """GPU -> process -> bytes."""
        self.lost: set[int] = set()
        self.ecc: dict[int, int] = {}
        self.broken_rows: set[int] = set()
        self.xids: list[tuple[int, int]] = []

    def nvmlInit(self) -> None:
        return None

    def nvmlDeviceGetCount(self) -> int:
        return self.gpus

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return self.driver

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:
        if handle in self.lost:
            raise self.NVMLError("GPU is lost")
        if version is not None and not self.has_events:
            raise self.NVMLError("Not Supported")
        own = 0 if version == self.nvmlMemory_v2 else 2**29
        return SimpleNamespace(total=141 * 2**30, used=2**30 + own)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        held = self.held.get(handle, {})
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in held.items()]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=50 if handle else 100)

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:
        if handle not in self.ecc:
            raise self.NVMLError("Not Supported")
        return self.ecc[handle]

    def nvmlDeviceGetRemappedRows(self, handle: int) -> tuple[int, int, int, int]:
        return (0, 0, 0, int(handle in self.broken_rows))

    def nvmlEventSetCreate(self) -> object:
        if not self.has_events:
            raise self.NVMLError("Not Supported")
        return object()

    def nvmlDeviceRegisterEvents(self, handle: int, kind: int, events: object) -> None:
        assert kind == self.nvmlEventTypeXidCriticalError

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> Any:
        assert timeout_ms == 0
        if not self.xids:
            raise self.NVMLError("Timeout")
        device, xid = self.xids.pop(0)
        return SimpleNamespace(device=device, eventData=xid)


def test_slots_share_cores() -> None:
    slots = CpuSlots(4, [5, 2])
    assert [info.index for info in slots.infos()] == [0, 1, 2, 3]
    assert {(info.type, info.memory_gib, info.healthy) for info in slots.infos()} == {("cpu", 0.0, True)}
    assert slots.cores([0, 1, 2, 3]) == [2, 5, 2, 5]
    assert slots.cuda([0, 1]) == []
    assert slots.load([0], {1}) is None
    assert not slots.refresh()


@pytest.mark.parametrize(("spec", "count"), [("cpu:4", 4), ("cpu", 3), ("cpu:1", 1)])
def test_open_slots(spec: str, count: int) -> None:
    assert len(open_devices(spec, [0, 1, 2]).infos()) == count


def test_slots_of_a_type() -> None:
    assert [info.type for info in open_devices("cpu:2:K80", [0]).infos()] == ["K80", "K80"]
    assert [info.type for info in open_devices("cpu:1", [0]).infos()] == ["cpu"]


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "cpu:",
        "cpu:0",
        "cpu:-1",
        "cpu:x",
        "cpu:99999",
        "cpu:1:",
        "cpu:1:a b",
        "cpu:1:a:b",
        "gpu",
        "nvidia:",
        "nvidia:a",
    ],
)
def test_what_names_no_devices(spec: str) -> None:
    with pytest.raises(InputError, match=r"--devices: .* names no devices; expected auto, cpu"):
        open_devices(spec, [0])


def test_gpus_by_nvml() -> None:
    gpus = NvidiaGpus(Nvml(FakeNvml()))
    first = gpus.infos()[0]
    assert (first.type, first.memory_gib, first.uuid, first.healthy) == ("NVIDIA H200", 141.0, "GPU-0", True)
    assert gpus.cuda([1, 0]) == ["GPU-1", "GPU-0"]
    assert gpus.cores([0]) == []
    assert gpus.load([0, 1], ()) == (0.75, 0.0)
    assert gpus.load([], ()) is None
    assert gpus.driver() == "535.10"


OWN, OTHER, NOBODY = os.getpid(), os.getppid(), 2**22 + 5


@pytest.mark.parametrize(
    ("held", "pids", "gib"),
    [
        ({0: {OWN: 3 * 2**30, OTHER: 2**30}, 1: {OWN: 2**30}}, {OWN}, 4.0),
        ({0: {OWN: 3 * 2**30, OTHER: 2**30}}, {OWN, OTHER}, 4.0),
        ({0: {OTHER: 2**30}}, {OWN}, 0.0),
        # In a container processes may be named as the host names them: all that is in use, then.
        ({0: {NOBODY: 2**30}}, {OWN}, 1.0),
        ({0: {OWN: None}}, {OWN}, 1.0),
    ],
)
def test_whose_memory_it_is(held: dict[int, dict[int, int | None]], pids: set[int], gib: float) -> None:
    fake = FakeNvml()
    fake.held = held
    load = NvidiaGpus(Nvml(fake)).load([0, 1], pids)
    assert load is not None
    assert load.memory_gib == gib


@pytest.mark.parametrize(("tells_apart", "used"), [(True, 2**30), (False, 2**30 + 2**29)])
def test_what_the_driver_keeps_is_not_in_use(tells_apart: bool, used: int) -> None:
    assert Nvml(FakeNvml(events=tells_apart)).load(0) == (1.0, used)


def test_some_of_the_gpus() -> None:
    assert [info.uuid for info in NvidiaGpus(Nvml(FakeNvml(4)), [2, 0, 2]).infos()] == ["GPU-0", "GPU-2"]
    with pytest.raises(InputError, match="there is no GPU 9; expected indexes below 4"):
        NvidiaGpus(Nvml(FakeNvml(4)), [9])


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda fake: fake.lost.add(1), "GPU 1: GPU is lost"),
        (lambda fake: fake.ecc.update({1: 3}), "3 uncorrectable memory errors"),
        (lambda fake: fake.broken_rows.add(1), "a broken row of its memory could not be remapped"),
        (lambda fake: fake.xids.append((1, 79)), "the driver reported XID 79"),
        (lambda fake: fake.xids.extend([(1, 13), (1, 48)]), "the driver reported XID 48"),
    ],
)
def test_a_sick_gpu(harm: Any, why: str) -> None:
    fake = FakeNvml()
    gpus = NvidiaGpus(Nvml(fake))
    assert not gpus.refresh()
    harm(fake)
    assert gpus.refresh()
    well, sick = gpus.infos()
    assert (well.healthy, sick.healthy, sick.why) == (True, False, why)
    assert sick.uuid == "GPU-1"
    assert not gpus.refresh()


def test_a_program_of_its_own_fault_says_nothing_about_the_gpu() -> None:
    fake = FakeNvml()
    gpus = NvidiaGpus(Nvml(fake))
    fake.xids += [(0, 31), (1, 43)]
    assert not gpus.refresh()


def test_a_gpu_that_comes_back() -> None:
    fake = FakeNvml(events=False)
    fake.lost.add(0)
    gpus = NvidiaGpus(Nvml(fake))
    assert not gpus.infos()[0].healthy
    assert gpus.load([0], {1}) is None
    fake.lost.clear()
    assert gpus.refresh()
    assert gpus.infos()[0].healthy
    assert gpus.infos()[0].uuid == "GPU-0"


def test_auto_takes_gpus_if_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_module, "open_nvml", lambda: Nvml(FakeNvml()))
    assert open_devices("auto", [0]).kind == "nvidia"
    assert len(open_devices("nvidia:1", [0]).infos()) == 1
    monkeypatch.setattr(devices_module, "open_nvml", lambda: Nvml(FakeNvml(0)))
    assert open_devices("auto", [0, 1]).kind == "cpu"
    monkeypatch.setattr(devices_module, "open_nvml", lambda: "nothing to see")
    assert open_devices("auto", [0, 1]).kind == "cpu"
    with pytest.raises(WorldError, match="nothing to see; `--devices cpu:2` needs no GPU"):
        open_devices("nvidia", [0, 1])


def test_nvml_that_does_not_answer() -> None:
    fake = FakeNvml()

    def fail() -> None:
        raise fake.NVMLError("Driver Not Loaded")

    fake.nvmlInit = fail  # type: ignore[method-assign]
    with pytest.raises(NvmlError, match="NVML: Driver Not Loaded"):
        Nvml(fake)


def test_chosen_gpus_are_counted_from_0() -> None:
    """A part's device 1 is the second that was chosen, whatever NVML calls it."""
    fake = FakeNvml(4)
    gpus = NvidiaGpus(Nvml(fake), [2, 0])
    assert gpus.cuda([0, 1]) == ["GPU-0", "GPU-2"]
    fake.xids.append((2, 79))
    assert gpus.refresh()
    assert [info.healthy for info in gpus.infos()] == [True, False]
