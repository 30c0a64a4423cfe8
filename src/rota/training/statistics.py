"""Estimates how noisy gradients are, from values that training computes anyway.

With b samples per rank and B = N b over all ranks, g the gradient of one rank and G their mean
(McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", appendix A):

    signal |true gradient|^2  ~  (B |G|^2 - b |g|^2) / (B - b)
    noise  tr(covariance)     ~  (|g|^2 - |G|^2) / (1/b - 1/B)
    gradient noise scale      =  noise / signal, in samples: batches well below it lose nothing by growing

A single rank has one gradient per step.  There two consecutive steps stand for two ranks, with |g|^2 the mean
of their squared norms and G their mean (Pollux, OSDI 2021, section 3.1).  The weights change between the two,
so this estimate is less precise, and measurements of several ranks replace it.

Signal and noise are averaged over the last ~20 measured steps (factor 0.95) before they are divided.  Every
eighth step is measured: two norms over the gradients, no further communication, no wait for the device; a
single rank keeps a copy of its gradients from a measured step to the next.
"""

from __future__ import annotations

import math
import time
from typing import Any

DECAY = 0.95
EVERY = 8


class GradientNoise:
    """The estimate of one rank; None until there are enough measurements."""

    def __init__(self, local_batch: float, world_size: int) -> None:
        """`local_batch` samples per rank and step; call `resize` when it changes."""
        self.local_batch = local_batch
        self.world_size = world_size
        self.waited_s = 0.0
        """Mean seconds that a recent measured step waited for other ranks after its own pass.

        Measured only if the host computes the sums: with a GPU, the host goes on while the GPU computes them.
        """
        self.on_host = False
        """True if the host computes the sums, so that `waited_s` is meaningful."""
        self._signal = self._noise = self._weight = 0.0
        self._before: float | None = None
        """Noise scale from an earlier attempt."""
        self._step = 0
        self._ready_s = 0.0
        self._own: Any = 0.0
        self._mean: Any = 0.0
        self._measured: list[tuple[float, Any, Any]] = []
        """Local batch and squared norms (own, mean) of measured steps, still on the device."""
        self._first: list[Any] | None = None
        """Gradients of the first step of a pair."""

    def add(self, own: float, mean: float, local_batch: float | None = None) -> None:
        """Add |g|^2 and |G|^2 of a step, or of two consecutive ones; by default at the present batch."""
        small = self.local_batch if local_batch is None else local_batch
        big = small * max(self.world_size, 2)
        if small <= 0 or not math.isfinite(own + mean):
            return
        signal = (big * mean - small * own) / (big - small)
        noise = (own - mean) / (1.0 / small - 1.0 / big)
        self._signal = DECAY * self._signal + (1.0 - DECAY) * signal
        self._noise = DECAY * self._noise + (1.0 - DECAY) * noise
        self._weight = DECAY * self._weight + (1.0 - DECAY)

    @property
    def scale(self) -> float | None:
        """The noise scale in samples; while the estimate is invalid, an earlier attempt's or None.

        Waits for the device.
        """
        measured, self._measured = self._measured, []
        for local_batch, own, mean in measured:
            self.add(float(own), float(mean), local_batch)
        if self._weight <= 0 or self._signal <= 0 or self._noise < 0:
            return self._before
        return self._noise / self._signal

    def begin_with(self, scale: float | None) -> None:
        """Use an earlier attempt's noise scale until this attempt has measured one."""
        self._before = scale

    def resize(self, local_batch: float) -> None:
        """Set another batch for the ranks; steps before and after the change do not form a pair."""
        if local_batch != self.local_batch:
            self.local_batch, self._first = local_batch, None

    def watch_alone(self, optimizer: Any) -> None:
        """Measure the gradients of a single rank: those that `optimizer` is about to apply."""
        optimizer.register_step_pre_hook(self._pair)

    def _pair(self, optimizer: Any, *_: Any) -> None:
        """Hook before a step of a single rank: stores the first gradients of a pair, measures with the
        second."""
        step, self._step = self._step % EVERY, self._step + 1
        if step > 1 or (step == 1 and self._first is None):
            return
        gradients = [one.grad for group in optimizer.param_groups for one in group["params"]]
        now = [grad.detach().float() for grad in gradients if grad is not None and not grad.is_sparse]
        if step == 0:
            self._first = [grad.clone() for grad in now]
            return
        first, self._first = self._first or [], None
        if now and [one.shape for one in first] == [one.shape for one in now]:
            both = sum(_square(one) for one in (*first, *now)) / 2.0
            mean = sum(_square(first[i] + now[i]) for i in range(len(now))) / 4.0
            self._measured.append((self.local_batch, both, mean))
            del self._measured[:-64]

    def watch(self, model: Any) -> None:
        """Measure the gradients of a DDP model; RuntimeError if it already has a communication hook."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        group = model.process_group
        self.on_host = next(model.parameters()).device.type == "cpu"

        def hook(state: object, bucket: Any) -> Any:
            if self._step % EVERY == 0:
                self._own = self._own + _square(bucket.buffer())
            last = bucket.is_last()
            if last:
                self._ready_s = time.monotonic()
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
        """Complete a measurement after the last bucket of a step."""
        if self._step % EVERY == 0:
            self._measured.append((self.local_batch, self._own, self._mean))
            del self._measured[:-64]
            self._own = self._mean = 0.0
            waited_s = time.monotonic() - self._ready_s
            self.waited_s += (1.0 - DECAY if self._step else 1.0) * (waited_s - self.waited_s)
        self._step += 1


def _square(values: Any) -> Any:
    """Sum of squares in single precision, left on the device."""
    return values.detach().float().pow(2).sum()
