"""Programs that compute on a GPU, written as users write them, and what a test sees of them."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rota.engines.rota.devices import NvidiaGpus
from rota.engines.rota.nvml import Nvml, open_nvml

PATIENCE_S = 120.0

TRAIN = """
import sys, torch
kind, path = sys.argv[1], sys.argv[2]
torch.manual_seed(0)
torch.use_deterministic_algorithms(True, warn_only=True)
layers = torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Dropout(), torch.nn.Linear(2048, 512)
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(1024, 512))
workers = 2 if kind == "workers" else 0
def batches():
    while True:
        yield from torch.utils.data.DataLoader(data, 64, num_workers=workers, pin_memory=workers > 0)
source, graph = batches(), None
if kind == "graph":
    still = torch.randn(64, 512, device="cuda")
    with torch.no_grad():
        model(still)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model[0](still).square().mean()
step = 0
while True:
    step += 1
    batch = next(source)[0].cuda(non_blocking=True)
    optimizer.zero_grad()
    loss = (model(batch) - batch).square().mean()
    loss.backward()
    optimizer.step()
    if graph is not None:
        graph.replay()
        loss = loss + out
    with open(path, "a") as file:
        file.write(f"{step} {loss.item().hex()}\\n")
"""
"""The same losses to the bit, whenever it runs: `step loss` a line."""

MANAGED = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, memory, step = ctypes.c_void_p(), ctypes.c_uint64(), 0
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAllocManaged(ctypes.byref(memory), ctypes.c_size_t(1 << 20), 1) == 0
while True:
    step += 1
    assert cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(step % 256), ctypes.c_size_t(1 << 20)) == 0
    assert cuda.cuCtxSynchronize() == 0
    with open(sys.argv[2], "a") as file:
        file.write(f"{step} managed\\n")
    time.sleep(0.02)
"""

FILL = """
import sys, time, torch
free, _ = torch.cuda.mem_get_info()
block = torch.empty(free - (1 << 30), dtype=torch.uint8, device="cuda")
open(sys.argv[2], "a").write("1 full\\n")
time.sleep(3600)
"""
"""Leaves one GiB."""

RANK = """
import sys, torch, torch.distributed as group
group.init_process_group("nccl")
values, step = torch.full((1 << 20,), float(group.get_rank() + 1), device="cuda"), 0
work = torch.randn(4096, 4096, device="cuda")
while True:
    step += 1
    for _ in range(20):
        work = torch.nn.functional.normalize(work @ work)
    total = values.clone()
    group.all_reduce(total)
    with open(sys.argv[2], "a") as file:
        file.write(f"{step} {total.mean().item()}\\n")
"""
"""One of two ranks that reduce over NCCL at each step."""


def gpu_of_this_machine() -> NvidiaGpus | str:
    """The GPUs, or why the tests cannot use any."""
    nvml = open_nvml()
    if not isinstance(nvml, Nvml):
        return nvml
    if not nvml.count():
        return "NVML shows no GPU"
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    import torch

    return NvidiaGpus(nvml) if torch.cuda.is_available() else "this PyTorch uses no GPU"


class GpuProgram:
    """A program of its own process group, whose steps can be read."""

    def __init__(self, text: str, kind: str, file: Path, *, shell: bool = False, **env: str) -> None:
        command = [sys.executable, "-c", text, kind, str(file)]
        if shell:
            command = ["sh", "-c", '"$@"; true', "sh", *command]
        self.file = file
        with open(f"{file}.err", "w") as errors:
            self.process = subprocess.Popen(
                command, env={**os.environ, **env}, stderr=errors, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def lines(self) -> list[str]:
        """What it has written of whole steps."""
        text = self.file.read_text() if self.file.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def goes_on(self, steps: int = 5) -> None:
        """It does so many steps more."""
        before = len(self.lines())
        wait(
            lambda: len(self.lines()) >= before + steps, lambda: Path(f"{self.file}.err").read_text()[-2000:]
        )

    def stands(self, for_s: float = 0.5) -> bool:
        """It does no step meanwhile."""
        before = len(self.lines())
        time.sleep(for_s)
        return len(self.lines()) == before

    def signal(self, number: int) -> None:
        os.killpg(self.pid, number)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.process.wait()


def wait(true: Callable[[], object], otherwise: Callable[[], str] = lambda: "") -> None:
    """Until it is true; what `otherwise` says is the reason if it never is."""
    until_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until_s, otherwise()
        time.sleep(0.01)
