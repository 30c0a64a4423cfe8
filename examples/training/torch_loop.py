"""A PyTorch loop that can be paused, moved and restarted anywhere: the five lines marked with `# rota`.

python torch_loop.py --epochs 10 [--checkpoint-dir FOLDER]        # runs with and without Rota
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rota.training as rota  # rota


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=80)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--checkpoint-dir")
    parser.add_argument("--losses", help="append `step loss` here")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(arguments.samples, 16)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).sin())
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)

    sampler = rota.Sampler(data, arguments.batch_size, seed=0)  # rota
    loader = DataLoader(data, batch_sampler=sampler)
    job = rota.attach(  # rota
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        sampler=sampler,
        checkpoint_dir=arguments.checkpoint_dir,
    )
    for epoch in job.epochs(arguments.epochs):  # rota
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            if arguments.losses:
                with open(arguments.losses, "a", encoding="utf-8") as file:
                    file.write(f"{job.step_count} {loss.item().hex()}\n")
            job.step(loss=loss)  # rota
        scheduler.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
