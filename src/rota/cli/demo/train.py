"""A small network learns a function for a few seconds: the program of the demo's jobs.

python train.py --seed 3 --steps 30 --step-s 0.1

With NumPy or PyTorch.  The steps are real and small; each is given the same
length (`--step-s`), so that jobs beside each other on few cores do not slow each other down.  On several
slots each takes its part of the batch in a thread, and the gradients are averaged.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import rota.training as rota

INPUTS, HIDDEN, SAMPLES = 16, 128, 64
RATE = 0.05
Improve = Callable[[Any, Any], float]
"""One step on a batch (inputs, targets); returns the loss before it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--step-s", type=float, default=0.1)
    parser.add_argument("--library", choices=["torch", "numpy"], default="numpy")
    arguments = parser.parse_args()

    slots = int(os.environ.get("ROTA_GPUS", "1"))
    start = with_torch if arguments.library == "torch" else with_numpy
    objects, improve = start(arguments.seed, slots)
    job = rota.attach(**objects, batch_size=SAMPLES * slots)
    loss, due = float("nan"), time.monotonic()
    for step in job.steps(arguments.steps):
        due = max(due + arguments.step_s, time.monotonic())  # late by a pause: do not catch up
        loss = improve(*batch(arguments.seed, step, SAMPLES * slots))
        time.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        job.step(loss=loss, samples=SAMPLES * slots)
        due += time.monotonic() - began
    width = "1 slot" if slots == 1 else f"{slots} slots"
    print(f"{job.step_count} steps on {width} with {arguments.library}: loss {loss:.4f}", flush=True)


def batch(seed: int, step: int, samples: int) -> tuple[Any, Any]:
    """The batch of a step; it depends on the step alone."""
    draw = np.random.default_rng((seed, step))
    inputs = draw.standard_normal((samples, INPUTS)).astype(np.float32)
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True) / 2)


def with_numpy(seed: int, slots: int) -> tuple[dict[str, Any], Improve]:
    """A network of two layers in NumPy: its saved state, and how it learns."""
    draw = np.random.default_rng(seed)
    state: dict[str, Any] = {
        "first": draw.standard_normal((INPUTS, HIDDEN)).astype(np.float32) / INPUTS**0.5,
        "second": draw.standard_normal((HIDDEN, 1)).astype(np.float32) / HIDDEN**0.5,
    }
    pool = ThreadPoolExecutor(slots)

    def gradients(shard: tuple[Any, Any]) -> tuple[Any, Any, float]:
        x, y = shard
        hidden = np.tanh(x @ state["first"])
        wrong = hidden @ state["second"] - y
        back = (wrong @ state["second"].T) * (1 - hidden**2)
        return x.T @ back / len(x), hidden.T @ wrong / len(x), float(np.mean(wrong**2))

    def improve(inputs: Any, targets: Any) -> float:
        shards = zip(np.array_split(inputs, slots), np.array_split(targets, slots), strict=True)
        first, second, losses = zip(*pool.map(gradients, shards), strict=True)
        state["first"] = state["first"] - RATE * sum(first) / slots
        state["second"] = state["second"] - RATE * sum(second) / slots
        return float(np.mean(losses))

    return {"state": state}, improve


def with_torch(seed: int, slots: int) -> tuple[dict[str, Any], Improve]:
    """The network in PyTorch; its threads share the batch."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    torch.set_num_threads(slots)
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def improve(inputs: Any, targets: Any) -> float:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(torch.from_numpy(inputs)), torch.from_numpy(targets))
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return {"model": model, "optimizer": optimizer}, improve


if __name__ == "__main__":
    main()
