"""How fast a small torch job gives its device back and is back, by the protocol's files alone.

python benchmarks/suspend.py [--state-mb 100] [--rounds 10]       prints one JSON object; seconds, medians

    suspend_s   directive written -> the program says `suspended` (device state in host memory, or on a CPU:
                the program blocked)
    resume_s    directive written -> the first step after it is done
    leave_s     directive written -> the process has exited with 85, its checkpoint on disk
    checkpoint_s  of which: the process's own measure of writing it
    restore_s   the process's own measure: reading, verifying, loading the checkpoint
    back_s      attach called -> the first step after a restart is done; imports and building not counted
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rota.training import protocol

PROGRAM = """
import json, sys, time, torch, rota.training as rota
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
wide = max(8, int((float(sys.argv[1]) * 1e6 / 4 / 3) ** 0.5))  # weights and two moments of Adam, 4 bytes each
model = torch.nn.Linear(wide, wide, bias=False).to(device)
optimizer = torch.optim.AdamW(model.parameters(), fused=False)
began = time.time()
job = rota.attach(model=model, optimizer=optimizer, checkpoint_every_s=None)
batch = torch.randn(4, wide, device=device)
for step in job.steps(10**9):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    job.step()
    now = time.time()
    with open(sys.argv[2] + ".step", "w") as file:
        file.write(str(now))
    if began:
        with open(sys.argv[2], "w") as file:
            json.dump({"back_s": now - began, "device": device}, file)
        began = 0.0
"""


def wait(true: object, timeout_s: float = 120.0) -> float:
    """Unix time at which `true()` first held, to half a millisecond."""
    end = time.monotonic() + timeout_s
    while not true():  # type: ignore[operator]
        if time.monotonic() > end:
            raise SystemExit("the program did not follow within two minutes")
        time.sleep(0.0005)
    return time.time()


def start(folder: Path, number: int, state_mb: float) -> tuple[subprocess.Popen[bytes], Path, Path]:
    """One attempt, restoring those before it."""
    training, facts = folder / f"training-{number}", folder / f"facts-{number}"
    protocol.prepare(training)
    env = os.environ | {
        "ROTA_TRAINING_DIR": str(training),
        "ROTA_CHECKPOINT_DIR": str(folder / "checkpoints" / str(number)),
        "ROTA_RESTORE_DIRS": ":".join(str(folder / "checkpoints" / str(n)) for n in reversed(range(number))),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", PROGRAM, str(state_mb), str(facts)]
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    wait(lambda: facts.exists() and facts.read_text().endswith("}"))
    return process, training, facts


def in_place(
    folder: Path, state_mb: float, rounds: int, look: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """Suspend and resume one process; `look` is called while it is suspended."""
    process, training, facts = start(folder, 0, state_mb)
    last = Path(f"{facts}.step")
    found: dict[str, list[float]] = {"suspend_s": [], "resume_s": [], "bytes": [], "residual_bytes": []}
    try:
        for turn in range(rounds):
            time.sleep(0.05 + 0.013 * turn)
            began = time.time()
            number = protocol.command(training, protocol.Directive("suspend"))
            state = protocol.RankState()

            def suspended(number: int = number) -> bool:
                nonlocal state
                state = protocol.read_rank(training, 0) or state
                return state.state == protocol.SUSPENDED and state.sequence >= number

            found["suspend_s"].append(wait(suspended) - began)
            found["bytes"].append(state.costs["suspend"][1])
            found["residual_bytes"].append(state.residual_bytes)
            time.sleep(0.1)
            look()
            began = time.time()
            protocol.command(training, protocol.Directive("resume"))
            wait(lambda began=began: float(last.read_text() or 0) > began)
            found["resume_s"].append(time.time() - began)
    finally:
        process.kill()
        process.wait()
    return found


def by_checkpoint(folder: Path, state_mb: float, rounds: int) -> dict[str, list[float]]:
    """Leave, and start again, on and on."""
    names = ("leave_s", "checkpoint_s", "restore_s", "back_s", "checkpoint_bytes")
    found: dict[str, list[float]] = {name: [] for name in names}
    process, training, _ = start(folder, 1, state_mb)
    try:
        for turn in range(rounds):
            time.sleep(0.05)
            began = time.time()
            protocol.command(training, protocol.Directive("leave"))
            if process.wait() != protocol.LEAVE_CODE:
                raise SystemExit(f"the program ended with {process.returncode} instead of 85")
            found["leave_s"].append(time.time() - began)
            state = protocol.read_rank(training, 0)
            if state is not None:
                found["checkpoint_s"].append(state.costs["checkpoint"][0])
            process, training, facts = start(folder, turn + 2, state_mb)
            state = protocol.read_rank(training, 0)
            if state is None or "restore" not in state.costs:
                raise SystemExit("the program did not restore its checkpoint")
            found["restore_s"].append(state.costs["restore"][0])
            found["checkpoint_bytes"].append(state.costs["restore"][1])
            found["back_s"].append(json.loads(facts.read_text())["back_s"])
    finally:
        process.kill()
        process.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--state-mb", type=float, default=100.0)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-suspend-") as name:
        folder = Path(name)
        found = in_place(folder, arguments.state_mb, arguments.rounds)
        device = json.loads((folder / "facts-0").read_text())["device"]
        found |= by_checkpoint(folder, arguments.state_mb, arguments.rounds)
    medians = {key: round(statistics.median(values), 4) for key, values in found.items()}
    worst = {key: round(max(values), 4) for key, values in found.items() if key.endswith("_s")}
    print(
        json.dumps(
            {
                "device": device,
                "machine": platform.machine(),
                "state_mb": arguments.state_mb,
                "rounds": arguments.rounds,
                "median": medians,
                "worst": worst,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
