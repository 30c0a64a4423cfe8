"""A job of exactly N steps of s seconds each: it sleeps, reports, checkpoints, and holds state in memory.

python paced.py --steps 100 --step-s 0.1 [--state-mb 10] [--batch-size 32]

For experiments with a scheduler: programs on neighbouring slots do not disturb each other.  A pause delays
the following steps and does not lengthen the current one.
"""

from __future__ import annotations

import argparse
import time

import rota.training as rota


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step-s", type=float, required=True)
    parser.add_argument("--state-mb", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=1, help="samples of a step over all workers")
    parser.add_argument("--checkpoint-dir")
    parser.add_argument("--checkpoint-every-s", type=float, default=600.0)
    arguments = parser.parse_args()

    state = {"block": bytearray(int(arguments.state_mb * 1e6)), "loss": 1.0}
    job = rota.attach(
        state=state,
        batch_size=arguments.batch_size,
        checkpoint_dir=arguments.checkpoint_dir,
        checkpoint_every_s=arguments.checkpoint_every_s,
    )
    due = time.monotonic()
    for step in job.steps(arguments.steps):
        due = max(due + arguments.step_s, time.monotonic())  # late by a pause: do not catch up
        time.sleep(max(0.0, due - time.monotonic()))
        state["loss"] = 1.0 / (step + 1)
        began = time.monotonic()
        job.step(loss=state["loss"], samples=job.local_batch_size or 1)
        due += time.monotonic() - began
    print(f"{job.step_count} steps of {arguments.step_s:g} s", flush=True)


if __name__ == "__main__":
    main()
