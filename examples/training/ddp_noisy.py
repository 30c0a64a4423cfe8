"""Data-parallel training with known gradient noise and step times, for experiments with elastic policies.

python ddp_noisy.py --steps 200 --batch-size 32 --batch-range 32:512 --step-s 0.02 --sample-s 0.001

The gradient of one sample is a fixed vector of length 1 plus noise of total variance `--noise`, which is the
noise scale.  A step sleeps `--step-s`, and `--sample-s` for each sample of this worker.  The program ends
after the progress of `--steps` steps with its first batch, whichever batches it used.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rota.training as rota

WIDTH = 64


def samples(count: int, noise: float) -> TensorDataset:
    draw = torch.Generator().manual_seed(0)
    truth = torch.full((WIDTH,), WIDTH**-0.5)
    return TensorDataset(truth + torch.randn(count, WIDTH, generator=draw) * (noise / WIDTH) ** 0.5)


def forever(loader: DataLoader[Any], sampler: rota.Sampler) -> Iterator[torch.Tensor]:
    """Batch by batch, epoch after epoch."""
    while True:
        for (batch,) in loader:
            yield batch
        sampler.set_epoch(sampler.epoch + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, required=True, help="at the first batch size")
    parser.add_argument("--batch-size", type=int, default=32, help="samples of a step over all workers")
    parser.add_argument("--batch-range", help="such as 32:512; else what the job was submitted with")
    parser.add_argument("--local-most", type=float, help="samples of a worker, for its device's memory")
    parser.add_argument("--every-s", type=float, default=30.0, help="seconds between batch searches")
    parser.add_argument("--noise", type=float, default=256.0)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--sample-s", type=float, default=0.0)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--checkpoint-dir")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = samples(arguments.samples, arguments.noise)
    model = rota.ddp(nn.Linear(WIDTH, 1, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    sampler = rota.Sampler(data, arguments.batch_size, seed=0)
    least, _, most = (arguments.batch_range or "").partition(":")
    job = rota.attach(
        model=model,
        optimizer=optimizer,
        sampler=sampler,
        checkpoint_dir=arguments.checkpoint_dir,
        batch_range=(float(least), float(most)) if arguments.batch_range else None,
        local_batch_most=arguments.local_most,
        batch_every_s=arguments.every_s,
        learning_rate="adascale",
        statistics=True,
    )
    batches = forever(DataLoader(data, batch_sampler=sampler), sampler)
    for _ in job.steps(arguments.steps, scaled=True):
        x = next(batches)
        due = time.monotonic() + arguments.step_s + arguments.sample_s * len(x)
        optimizer.zero_grad()
        loss = model(x).mean()
        time.sleep(max(0.0, due - time.monotonic()))  # the pass; what follows is for all workers
        loss.backward()
        optimizer.step()
        job.step(loss=loss)
    rate = optimizer.param_groups[0]["lr"]
    print(f"{job.step_count} steps, {job.gained_steps:.3f} gained, batch {job.batch_size}, lr {rate:.6f}")


if __name__ == "__main__":
    main()
