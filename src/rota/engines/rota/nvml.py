"""What Rota reads from NVML, through `pynvml` if it is installed: counts, memory, load, and health.

A GPU is in trouble when it is lost, when it has had uncorrectable memory errors since the driver was loaded,
when rows could not be remapped, or when the driver reported an XID that is not the program's fault.
"""

from __future__ import annotations

import importlib
from typing import Any

PROGRAMS_OWN = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that a faulty or killed program causes on a sound GPU: they say nothing about the device."""


class NvmlError(Exception):
    """NVML failed to answer; the text names the GPU and NVML's message."""


class Nvml:
    """A thin layer over the `pynvml` module (or one like it) with plain values and one error."""

    def __init__(self, module: Any) -> None:
        """Initialise NVML; raises NvmlError if that fails."""
        self._m = module
        self._handles: dict[int, Any] = {}
        self._xids: dict[int, int] = {}
        """GPU -> the first XID that indicates a fault of it."""
        self._ask("NVML", module.nvmlInit)
        self._events = self._listen()

    def count(self) -> int:
        """Number of GPUs of this machine that NVML shows."""
        return int(self._ask("NVML", self._m.nvmlDeviceGetCount))

    def driver(self) -> str:
        """Version of the driver, such as `570.86.15`."""
        return _text(self._ask("NVML", self._m.nvmlSystemGetDriverVersion))

    def describe(self, index: int) -> tuple[str, str, int]:
        """Name, UUID and bytes of memory of a GPU."""
        handle = self._handle(index)
        name = _text(self._of(index, self._m.nvmlDeviceGetName, handle))
        uuid = _text(self._of(index, self._m.nvmlDeviceGetUUID, handle))
        return name, uuid, int(self._of(index, self._m.nvmlDeviceGetMemoryInfo, handle).total)

    def load(self, index: int) -> tuple[float, int]:
        """Part of the recent time in which a kernel ran, and bytes of memory that programs use.

        Memory of the driver itself (0.6 GiB of an H200) is not included where NVML reports it separately.
        """
        handle = self._handle(index)
        busy = self._of(index, self._m.nvmlDeviceGetUtilizationRates, handle).gpu / 100.0
        apart = self._optional(self._m.nvmlDeviceGetMemoryInfo, handle, self._m.nvmlMemory_v2)
        whole = apart if apart is not None else self._of(index, self._m.nvmlDeviceGetMemoryInfo, handle)
        return busy, int(whole.used)

    def processes(self, index: int) -> dict[int, int | None]:
        """Each process that computes on a GPU -> bytes it holds; None if the driver does not report them."""
        running = self._of(index, self._m.nvmlDeviceGetComputeRunningProcesses, self._handle(index))
        return {int(one.pid): one.usedGpuMemory for one in running}

    def trouble(self, index: int) -> str:
        """Why a GPU should not be used; empty if it may. Raises NvmlError if it does not answer at all."""
        self._hear()
        handle = self._handle(index)
        self._of(index, self._m.nvmlDeviceGetMemoryInfo, handle)  # a lost GPU fails here
        if index in self._xids:
            return f"the driver reported XID {self._xids[index]}"
        errors = self._count_of(self._m.nvmlDeviceGetTotalEccErrors, handle, 1, 0)  # uncorrected, volatile
        if errors:
            return f"{errors} uncorrectable memory errors"
        rows = self._optional(self._m.nvmlDeviceGetRemappedRows, handle)
        if rows is not None and rows[3]:
            return "a broken row of its memory could not be remapped"
        return ""

    def _listen(self) -> Any:
        """An event set that receives XIDs; None if the driver does not support one."""
        try:
            events = self._m.nvmlEventSetCreate()
            for index in range(self.count()):
                self._m.nvmlDeviceRegisterEvents(
                    self._handle(index), self._m.nvmlEventTypeXidCriticalError, events
                )
        except (self._m.NVMLError, NvmlError):
            return None
        return events

    def _hear(self) -> None:
        """Store the XIDs reported since the last call."""
        while self._events is not None:
            try:
                event = self._m.nvmlEventSetWait_v2(self._events, 0)
            except self._m.NVMLError:  # time-out: no more events
                return
            xid = int(event.eventData)
            if xid in PROGRAMS_OWN:
                continue
            uuid = self._optional(self._m.nvmlDeviceGetUUID, event.device)
            for index, handle in self._handles.items():
                if uuid is None or self._optional(self._m.nvmlDeviceGetUUID, handle) == uuid:
                    self._xids.setdefault(index, xid)

    def _handle(self, index: int) -> Any:
        if index not in self._handles:
            self._handles[index] = self._of(index, self._m.nvmlDeviceGetHandleByIndex, index)
        return self._handles[index]

    def _of(self, index: int, function: Any, *values: Any) -> Any:
        return self._ask(f"GPU {index}", function, *values)

    def _ask(self, whom: str, function: Any, *values: Any) -> Any:
        try:
            return function(*values)
        except self._m.NVMLError as error:
            raise NvmlError(f"{whom}: {error}") from None

    def _optional(self, function: Any, *values: Any) -> Any:
        """The answer of a function; None if this GPU or driver does not support it."""
        try:
            return function(*values)
        except self._m.NVMLError:
            return None

    def _count_of(self, function: Any, *values: Any) -> int:
        return int(self._optional(function, *values) or 0)


def open_nvml() -> Nvml | str:
    """NVML, or a sentence that says why it is not available."""
    try:
        module = importlib.import_module("pynvml")
    except ImportError:
        return "the package `nvidia-ml-py` is not installed, so GPUs cannot be seen"
    try:
        return Nvml(module)
    except NvmlError as error:
        return f"NVML does not answer: {str(error).removeprefix('NVML: ')}"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
