"""The devices of this machine, by local index: NVIDIA GPUs, or CPU slots that act as devices.

`cpu:4` makes four slots; slot i is core `allowed[i mod n]` of the process's affinity mask. `cpu:4:old` gives
them the type `old`, where machines differ. `nvidia` takes all GPUs that NVML shows, `nvidia:0,2` two of them,
and `auto` GPUs if there are any, otherwise one slot per core.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from rota.engines.rota.nvml import Nvml, NvmlError, open_nvml
from rota.errors import InputError, WorldError
from rota.wire.numbers import MOST_DEVICES
from rota.wire.sync import DeviceInfo

MOST_SLOTS = MOST_DEVICES
GIB = float(2**30)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
"""Pattern for the type of CPU slots."""


class Load(NamedTuple):
    """Load of some devices, and the memory that some processes hold on them."""

    utilisation: float
    """Mean over the devices, 0..1, caused by all processes on them."""
    memory_gib: float
    """GiB that the given processes hold; that of all processes if the driver cannot tell them apart."""


class Devices(Protocol):
    """The devices of a machine, as an agent needs them."""

    kind: str
    """`nvidia` or `cpu`; also the name of a device."""

    def infos(self) -> list[DeviceInfo]:
        """All devices, with their health as last checked."""
        ...

    def refresh(self) -> bool:
        """Check the devices' health; True if that of one has changed."""
        ...

    def cores(self, devices: Sequence[int]) -> list[int]:
        """Core of each CPU slot; empty for GPUs."""
        ...

    def cuda(self, devices: Sequence[int]) -> list[str]:
        """Name of each device in CUDA_VISIBLE_DEVICES; empty for CPU slots."""
        ...

    def load(self, devices: Sequence[int], pids: Collection[int]) -> Load | None:
        """Load of the devices, and memory that `pids` hold on them; None if unknown."""
        ...

    def driver(self) -> str:
        """Version of the driver; empty without one."""
        ...


class CpuSlots:
    """CPU slots: always healthy, and without device memory."""

    kind = "cpu"

    def __init__(self, count: int, allowed: Sequence[int], type_name: str = "cpu") -> None:
        self._allowed = sorted(allowed)
        self._infos = [DeviceInfo(index=index, type=type_name) for index in range(count)]

    def infos(self) -> list[DeviceInfo]:
        """All slots."""
        return self._infos

    def refresh(self) -> bool:
        """Return False: the health of slots does not change."""
        return False

    def cores(self, devices: Sequence[int]) -> list[int]:
        """Core of each slot; slots beyond the number of cores share cores."""
        return [self._allowed[index % len(self._allowed)] for index in devices]

    def cuda(self, devices: Sequence[int]) -> list[str]:
        """Return an empty list: a slot has no GPU."""
        return []

    def load(self, devices: Sequence[int], pids: Collection[int]) -> Load | None:
        """Return None: the load of a slot is measured by its processes."""
        return None

    def driver(self) -> str:
        """Return an empty text: slots need no driver."""
        return ""


class NvidiaGpus:
    """GPUs as NVML shows them, in the order of the PCI bus; local indexes count the chosen GPUs only."""

    kind = "nvidia"

    def __init__(self, nvml: Nvml, chosen: Sequence[int] | None = None) -> None:
        """Raises InputError if NVML does not show an index in `chosen`."""
        self._nvml = nvml
        shown = range(nvml.count())
        for index in chosen or ():
            if index not in shown:
                raise InputError.at(
                    f"there is no GPU {index}", field="--devices", expected=f"indexes below {len(shown)}"
                )
        self._numbers = list(shown if chosen is None else sorted(set(chosen)))
        """NVML's index of each GPU, by local index."""
        self._infos = [self._look(index) for index in range(len(self._numbers))]

    def infos(self) -> list[DeviceInfo]:
        """The chosen GPUs."""
        return list(self._infos)

    def refresh(self) -> bool:
        """Ask NVML for lost GPUs, memory errors and XIDs; True if the health of a GPU has changed."""
        before = self._infos
        self._infos = [self._again(info) for info in before]
        return self._infos != before

    def cores(self, devices: Sequence[int]) -> list[int]:
        """Return an empty list: GPU jobs are not pinned."""
        return []

    def cuda(self, devices: Sequence[int]) -> list[str]:
        """UUID of each GPU, which is right in any order that CUDA counts in."""
        return [self._infos[index].uuid or str(self._numbers[index]) for index in devices]

    def load(self, devices: Sequence[int], pids: Collection[int]) -> Load | None:
        """Utilisation by all processes on the GPUs, and memory of `pids`."""
        try:
            loads = [self._nvml.load(self._numbers[index]) for index in devices]
            held = [self._held(self._numbers[index], pids) for index in devices]
        except NvmlError:
            return None
        if not loads:
            return None
        busy = min(max(sum(busy for busy, _ in loads) / len(loads), 0.0), 1.0)
        whole = (used for _, used in loads)
        return Load(
            busy, sum(used if own is None else own for own, used in zip(held, whole, strict=True)) / GIB
        )

    def _held(self, number: int, pids: Collection[int]) -> int | None:
        """Bytes that `pids` hold on a GPU; None if the driver does not report them.

        In a container the driver may report the host's pids; then it is unknown which processes they are.
        """
        holders = self._nvml.processes(number)
        own = [held for pid, held in holders.items() if pid in pids]
        if any(held is None for held in own):
            return None
        is_ours = bool(own) or all(os.path.exists(f"/proc/{pid}") for pid in holders)
        return sum(held for held in own if held is not None) if is_ours else None

    def driver(self) -> str:
        """Version that NVML reports."""
        return self._nvml.driver()

    def _look(self, index: int) -> DeviceInfo:
        try:
            name, uuid, memory = self._nvml.describe(self._numbers[index])
            why = self._nvml.trouble(self._numbers[index])
        except NvmlError as error:
            return DeviceInfo(index=index, type="gpu", healthy=False, why=str(error))
        return DeviceInfo(
            index=index, type=name, memory_gib=round(memory / GIB, 3), uuid=uuid, healthy=not why, why=why
        )

    def _again(self, info: DeviceInfo) -> DeviceInfo:
        """Check a GPU again; its earlier description is kept if it has fallen off the bus."""
        try:
            why = self._nvml.trouble(self._numbers[info.index])
        except NvmlError as error:
            why = str(error)
        if why or info.uuid:
            return info.model_copy(update={"healthy": not why, "why": why})
        return self._look(info.index)  # it could not be described before


def check_spec(spec: str) -> None:
    """Raise InputError if `spec` is not a valid name of devices on any machine."""
    kind, colon, rest = spec.partition(":")
    named, rest = ":" in rest, rest.partition(":")[0] if kind == "cpu" else rest
    numbers = rest.split(",")
    are_known = not colon or all(number.isdecimal() for number in numbers)
    if kind == "cpu" and colon and are_known:
        are_known = len(numbers) == 1 and 1 <= int(rest) <= MOST_SLOTS
        are_known &= not named or _NAME.fullmatch(spec.split(":", 2)[2]) is not None
    if spec != "auto" and not (kind in ("cpu", "nvidia") and are_known):
        raise InputError.at(
            f"{spec!r} names no devices",
            field="--devices",
            expected=f"auto, cpu, cpu:N or cpu:N:TYPE with N from 1 to {MOST_SLOTS}, nvidia or nvidia:I,J",
        )


def open_devices(spec: str, allowed: Sequence[int] | None = None) -> Devices:
    """Devices of `auto`, `cpu`, `cpu:N`, `cpu:N:TYPE`, `nvidia` or `nvidia:I,J`.

    `allowed` are the cores this process may use, its affinity mask by default. Raises InputError for any
    other text, and WorldError if GPUs are asked for and NVML cannot show them.
    """
    check_spec(spec)
    cores = sorted(os.sched_getaffinity(0)) if allowed is None else list(allowed)
    kind, colon, rest = spec.partition(":")
    if spec == "auto":
        nvml = open_nvml()
        return NvidiaGpus(nvml) if isinstance(nvml, Nvml) and nvml.count() else CpuSlots(len(cores), cores)
    if kind == "cpu":
        count, _, type_name = rest.partition(":")
        return CpuSlots(int(count) if colon else len(cores), cores, type_name or "cpu")
    nvml = open_nvml()
    if isinstance(nvml, str):
        raise WorldError(f"devices '{spec}': {nvml}; `--devices cpu:{len(cores)}` needs no GPU")
    return NvidiaGpus(nvml, [int(one) for one in rest.split(",")] if colon else None)
