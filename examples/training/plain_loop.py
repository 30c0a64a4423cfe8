"""A loop without torch: least squares by gradient descent, in NumPy if it is there, else in plain Python.

python plain_loop.py --steps 200 [--checkpoint-dir FOLDER]
"""

from __future__ import annotations

import argparse
import operator
import random
from typing import Any

import rota.training as rota

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


def dot(a: Any, b: Any) -> float:
    """Sum of the products."""
    return sum(map(operator.mul, a, b))


def gradient(weights: Any, inputs: list[list[float]], targets: list[float]) -> tuple[Any, float]:
    """Gradient and mean squared error of a linear model on one batch."""
    if numpy is not None:
        x, y = numpy.array(inputs), numpy.array(targets)
        wrong = x @ numpy.array(weights) - y
        return list(2 * x.T @ wrong / len(y)), float(numpy.mean(wrong**2))
    wrongs = [dot(weights, row) - target for row, target in zip(inputs, targets)]  # noqa: B905 (Python 3.9)
    columns = [dot(wrongs, column) for column in zip(*inputs)]  # noqa: B905
    return [2 * c / len(targets) for c in columns], sum(e * e for e in wrongs) / len(targets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint-dir")
    arguments = parser.parse_args()

    draw = random.Random(1)
    truth = [draw.uniform(-1, 1) for _ in range(8)]
    state = {"weights": [0.0] * 8, "loss": 0.0}
    job = rota.attach(state=state, checkpoint_dir=arguments.checkpoint_dir, batch_size=16)
    for step in job.steps(arguments.steps):
        draw.seed(step)
        inputs = [[draw.gauss(0, 1) for _ in truth] for _ in range(job.local_batch_size or 16)]
        targets = [dot(truth, row) for row in inputs]
        slope, state["loss"] = gradient(state["weights"], inputs, targets)
        state["weights"] = list(map(lambda w, g: w - 0.05 * g, state["weights"], slope))
        job.step(loss=state["loss"], samples=len(inputs))
    print(f"loss after {job.step_count} steps: {state['loss']:.3g}")


if __name__ == "__main__":
    main()
