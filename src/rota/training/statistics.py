"""How noisy gradients are, from what data-parallel training computes anyway.

With b samples per rank and B = N b over all ranks, g the gradient of one rank and G their mean
(McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", appendix A):

    signal |true gradient|^2  ~  (B |G|^2 - b |g|^2) / (B - b)
    noise  tr(covariance)     ~  (|g|^2 - |G|^2) / (1/b - 1/B)
    gradient noise scale      =  noise / signal, in samples: batches well below it lose nothing by growing

Both are averaged over the last ~20 measured steps (factor 0.95) before they are divided.  Every eighth step
is measured: two norms over the gradients, no further communication, no wait for the device.
"""

from __future__ import annotations

import math
from typing import Any

DECAY = 0.95
EVERY = 8


class GradientNoise:
    """The estimate of one rank; None until enough is known (also always with one rank: there g = G)."""

    def __init__(self, local_batch: float, world_size: int) -> None:
        """`local_batch` samples per rank and step; may be set anew when it changes."""
        self.local_batch = local_batch
        self.world_size = world_size
        self._signal = self._noise = self._weight = 0.0
        self._step = 0
        self._own: Any = 0.0
        self._mean: Any = 0.0
        self._measured: list[tuple[Any, Any]] = []
        """Squared norms (own, mean) of measured steps, still on the device."""

    def add(self, own: float, mean: float) -> None:
        """Count one step: |g|^2 and |G|^2."""
        small, big = self.local_batch, self.local_batch * self.world_size
        if small <= 0 or self.world_size < 2 or not math.isfinite(own + mean):
            return
        signal = (big * mean - small * own) / (big - small)
        noise = (own - mean) / (1.0 / small - 1.0 / big)
        self._signal = DECAY * self._signal + (1.0 - DECAY) * signal
        self._noise = DECAY * self._noise + (1.0 - DECAY) * noise
        self._weight = DECAY * self._weight + (1.0 - DECAY)

    @property
    def scale(self) -> float | None:
        """The noise scale in samples, None while it makes no sense.  Waits for the device."""
        measured, self._measured = self._measured, []
        for own, mean in measured:
            self.add(float(own), float(mean))
        if self._weight <= 0 or self._signal <= 0 or self._noise < 0:
            return None
        return self._noise / self._signal

    def watch(self, model: Any) -> None:
        """Measure the gradients of a DDP model; RuntimeError if it has a communication hook already."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        group = model.process_group

        def hook(state: object, bucket: Any) -> Any:
            if self._step % EVERY == 0:
                self._own = self._own + _square(bucket.buffer())
            last = bucket.is_last()
            return default_hooks.allreduce_hook(group, bucket).then(lambda done: after(done.value(), last))

        def after(reduced: Any, last: bool) -> Any:
            if isinstance(reduced, (list, tuple)):
                reduced = reduced[0]
            if self._step % EVERY == 0:
                self._mean = self._mean + _square(reduced)
            if last:
                self._finish()
            return reduced

        hook.__annotations__.clear()  # DDP would compare them with its own, and these are strings
        model.register_comm_hook(None, hook)

    def _finish(self) -> None:
        """The last bucket of a step is through."""
        if self._step % EVERY == 0:
            self._measured.append((self._own, self._mean))
            del self._measured[:-64]
            self._own = self._mean = 0.0
        self._step += 1


def _square(values: Any) -> Any:
    """Sum of squares in single precision, left on the device."""
    return values.detach().float().pow(2).sum()
