"""Data-parallel training that may restart on any number of workers, each sample of an epoch used once.

torchrun --nproc-per-node 2 ddp_elastic.py --epochs 5 --checkpoint-dir FOLDER     # then with 1, then with 3
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rota.training as rota


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=101)
    parser.add_argument("--batch-size", type=int, default=8, help="samples of a step over all workers")
    parser.add_argument("--step-s", type=float, default=0.0, help="seconds to sleep in each step")
    parser.add_argument("--checkpoint-dir")
    parser.add_argument("--checkpoint-every-steps", type=int)
    parser.add_argument("--statistics", action="store_true")
    parser.add_argument("--used", help="append `epoch step samples...` of each rank to this file + .RANK")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(arguments.samples, 16)
    numbers = torch.arange(arguments.samples)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).sin(), numbers)
    model = rota.ddp(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sampler = rota.Sampler(data, arguments.batch_size, seed=0)
    job = rota.attach(
        model=model,
        optimizer=optimizer,
        sampler=sampler,
        checkpoint_dir=arguments.checkpoint_dir,
        checkpoint_every_steps=arguments.checkpoint_every_steps,
        learning_rate="sqrt",
        statistics=arguments.statistics,
    )
    device = next(model.parameters()).device
    for epoch in job.epochs(arguments.epochs):
        for x, y, number in DataLoader(data, batch_sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            time.sleep(arguments.step_s)
            if arguments.used:
                with open(f"{arguments.used}.{job.rank}", "a", encoding="utf-8") as file:
                    line = " ".join(str(one) for one in number.tolist())
                    file.write(f"{epoch} {job.step_count} {line}\n")
            job.step(loss=loss)
    print(f"rank {job.rank} of {job.world_size}: {job.step_count} steps, loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
