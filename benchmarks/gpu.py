"""What suspension, restart and sharing cost on a real GPU: the figures of docs/gpu.md, as rows of its table.

python benchmarks/gpu.py [--state-gb 0.2 2 20] [--rounds 10] [--json FILE]

`state` is what the program must keep: a layer's weights and the two moments of AdamW, in single precision;
its gradients and PyTorch's caches come on top.  Each figure is median, best, worst.  Nothing else should use
the GPU.

    driver: give back       asked for -> no process of it is on the GPU, the call's own process included
    driver: next step       asked for -> the next step is done
    cooperative, leave, restart: see benchmarks/suspend.py, which measures them
    on the device meanwhile memory that NVML still counts as the program's
    packed                  speed of each of two programs on one GPU, by its speed alone
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import suspend as protocol_benchmark

from rota.engines.rota.cuda_checkpoint import CudaCheckpoint, probe
from rota.engines.rota.devices import NvidiaGpus
from rota.engines.rota.nvml import Nvml, open_nvml

LOOP = """
import sys, time, torch
wide = max(8, int((float(sys.argv[1]) * 1e9 / 4 / 3) ** 0.5))  # weights and two moments of Adam, 4 bytes each
model = torch.nn.Linear(wide, wide, bias=False).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
batch, step = torch.randn(256, wide, device="cuda"), 0
while True:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    torch.cuda.synchronize()
    step += 1
    with open(sys.argv[2], "w") as file:
        file.write(f"{step} {time.time()}")
"""
Figures = dict[str, list[float]]


class Loop:
    """A training loop that knows nothing of Rota."""

    def __init__(self, file: Path, state_gb: float) -> None:
        self.file = file
        command = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", LOOP, str(state_gb), str(file)]
        self.shell = subprocess.Popen(command)
        self.next_step()

    def told(self) -> tuple[int, float]:
        """(steps done, Unix time of the last)."""
        words = self.file.read_text().split() if self.file.exists() else []
        return (int(words[0]), float(words[1])) if len(words) == 2 else (0, 0.0)

    def next_step(self, within_s: float = 120.0) -> float:
        """Unix time at which another step was done."""
        before, end_s = self.told()[0], time.monotonic() + within_s
        while self.told()[0] <= before:
            if time.monotonic() > end_s:
                raise SystemExit(f"the loop did no step within {within_s:g} s")
            time.sleep(0.0005)
        return self.told()[1]

    def speed(self, for_s: float = 4.0) -> float:
        """Steps a second."""
        first, began = self.told()[0], time.monotonic()
        time.sleep(for_s)
        return (self.told()[0] - first) / (time.monotonic() - began)

    def end(self) -> None:
        subprocess.run(["pkill", "-KILL", "-P", str(self.shell.pid)], check=False)
        self.shell.wait()


def by_driver(folder: Path, nvml: Nvml, driver: CudaCheckpoint, state_gb: float, rounds: int) -> Figures:
    """Suspend and resume one program by the driver's checkpoint."""
    loop = Loop(folder / f"driver-{state_gb}", state_gb)
    found: Figures = {
        "driver: give back (s)": [],
        "driver: next step (s)": [],
        "driver: on the device meanwhile (MiB)": [],
    }
    try:
        for _ in range(rounds):
            began = time.time()
            refused(driver.suspend(loop.shell.pid))
            found["driver: give back (s)"].append(time.time() - began)
            held = sum(size or 0 for size in nvml.processes(0).values())
            found["driver: on the device meanwhile (MiB)"].append(held / 2**20)
            began = time.time()
            refused(driver.resume(loop.shell.pid))
            found["driver: next step (s)"].append(loop.next_step() - began)
    finally:
        loop.end()
    return found


def refused(problem: str) -> None:
    """End with the driver's word if there is one."""
    if problem:
        raise SystemExit(problem)


def by_program(folder: Path, nvml: Nvml, state_gb: float, rounds: int, *, leaves: bool) -> Figures:
    """Suspend and resume one program that speaks the protocol, and have it leave and come back."""
    held: list[float] = []

    def look() -> None:
        held.append(sum(size or 0 for size in nvml.processes(0).values()) / 2**20)

    raw = protocol_benchmark.in_place(folder, 1000 * state_gb, rounds, look)
    found = {
        "cooperative: give back (s)": raw["suspend_s"],
        "cooperative: next step (s)": raw["resume_s"],
        "cooperative: on the device meanwhile (MiB)": held,
    }
    if leaves:
        raw = protocol_benchmark.by_checkpoint(folder, 1000 * state_gb, rounds)
        found |= {
            "leave by checkpoint: directive to exit (s)": raw["leave_s"],
            "restart: attach to the first step (s)": raw["back_s"],
        }
    return found


def packed(folder: Path, rounds: int) -> Figures:
    """Two equal programs on one GPU."""
    first = Loop(folder / "first", 0.2)
    try:
        alone = [first.speed() for _ in range(rounds)]
        second = Loop(folder / "second", 0.2)
        try:
            both = [(first.speed(2.0), second.speed(2.0)) for _ in range(rounds)]
        finally:
            second.end()
    finally:
        first.end()
    base = statistics.median(alone)
    return {"packed: speed of each by its speed alone": [one / base for pair in both for one in pair]}


def row(name: str, values: Sequence[float], state: str) -> str:
    """A row of the table."""
    best, worst = (max, min) if name.startswith("packed") else (min, max)
    words = [f"{value:.3g}" for value in (statistics.median(values), best(values), worst(values))]
    return f"| {name} | {state} | {' | '.join(words)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--state-gb", type=float, nargs="+", default=[0.2, 2.0, 20.0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--leave-most-gb", type=float, default=2.0, help="larger states are not saved to disk"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    nvml = open_nvml()
    if not isinstance(nvml, Nvml):
        raise SystemExit(f"no GPU: {nvml}")
    gpu, driver = NvidiaGpus(nvml).infos()[0], CudaCheckpoint(probe(nvml.driver()))
    print(f"{gpu.type}, driver {nvml.driver()}: {driver.probe.why}; {arguments.rounds} rounds\n")
    print("| figure | state | median | best | worst |\n|---|---|---|---|---|")
    everything: dict[str, Figures] = {}

    def measure(state: str, work: Callable[[Path], Figures]) -> None:
        with tempfile.TemporaryDirectory(prefix="rota-gpu-") as name:
            found = work(Path(name))
        everything.setdefault(state, {}).update(found)
        for figure, values in found.items():
            print(row(figure, values, state), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(everything))

    rounds = arguments.rounds
    for size in arguments.state_gb:
        state, leaves = f"{size:g} GB", size <= arguments.leave_most_gb
        if driver.available:
            measure(state, partial(by_driver, nvml=nvml, driver=driver, state_gb=size, rounds=rounds))
        measure(state, partial(by_program, nvml=nvml, state_gb=size, rounds=rounds, leaves=leaves))
    measure("0.2 GB", partial(packed, rounds=rounds))


if __name__ == "__main__":
    main()
