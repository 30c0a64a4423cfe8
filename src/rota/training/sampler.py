"""Uses every sample of an epoch once, in one global order, for any number of workers.

The order of an epoch is a permutation seeded by (seed, epoch). A position is one number: how many samples of
that order have been consumed by completed steps. The next step takes the next `batch_size` samples, and
worker r of N every N-th of them from the r-th on. The one number in the checkpoint is therefore right for any
N, and the samples of a step are the same set for every N.

The end of an epoch may leave a step with fewer samples than workers. Then each worker takes all of them: the
mean over the workers of their mean gradients is the mean over these samples, so each counts once in the
model, no worker is without a batch, and DDP does not hang.
"""

from __future__ import annotations

import random
from array import array
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from rota.training.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Sized(Protocol):
    """Anything with a length."""

    def __len__(self) -> int: ...


def window(start: int, batch: int, end: int, rank: int, workers: int) -> range:
    """Slots of the global order for worker `rank` in the step that starts at slot `start` (empty at the end).

    >>> [list(window(8, 4, 12, r, 2)) for r in range(2)]
    [[8, 10], [9, 11]]
    >>> [list(window(8, 4, 10, r, 3)) for r in range(3)]
    [[8, 9], [8, 9], [8, 9]]
    """
    stop = min(start + batch, end)
    if stop - start < workers:
        return range(start, stop)
    return range(start + rank, stop, workers)


def permutation(samples: int, seed: int, epoch: int) -> Sequence[int]:
    """The global order of an epoch, 8 bytes a sample: the same for every worker and Python since 3.9."""
    order = array("q", range(samples))
    random.Random(seed * 1_000_003 + epoch).shuffle(order)
    return order


class Sampler:
    """Yields lists of indices: the `batch_sampler` of a torch `DataLoader`, or the iterable of a plain loop.

    `batch_size` counts samples of one step over all workers (everywhere in rota.training); a new value
    applies from the next batch that is drawn. Batches may be drawn ahead (loader processes do so): samples
    count as consumed once `done` has confirmed them, once per step; `job.step` calls it.
    """

    def __init__(
        self,
        dataset: int | Sized,
        batch_size: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        rank: int | None = None,
        workers: int | None = None,
    ) -> None:
        """`dataset` or its length. `rank` and `workers` are this program's own if not given.

        `drop_last` leaves out a last step smaller than `batch_size`: those samples are then not used in this
        epoch.
        """
        environment = Environment.read()
        self.samples = dataset if isinstance(dataset, int) else len(dataset)
        self.batch_size = int(batch_size)
        self.seed, self.shuffle, self.drop_last = seed, shuffle, drop_last
        self.rank = environment.rank if rank is None else rank
        self.workers = environment.world_size if workers is None else workers
        if self.batch_size < 1 or self.samples < 0:
            raise ValueError(f"batch_size={batch_size} for {self.samples} samples: at least 1 is needed")
        if not 0 <= self.rank < self.workers:
            raise ValueError(f"rank {self.rank} of {self.workers} workers")
        self.epoch = 0
        self.consumed = 0
        """Samples of this epoch that steps have used, over all workers."""
        self.before_first: Callable[[], None] | None = None
        """Called once when the first batch after a restore in mid-epoch is drawn (to set random states)."""
        self._drawn: deque[int] = deque()

    @property
    def local_batch_size(self) -> int:
        """Samples of one step for this worker (the last step of an epoch may have fewer)."""
        return len(window(0, self.batch_size, self.batch_size, self.rank, self.workers))

    def __len__(self) -> int:
        """Steps left in this epoch, at the present batch size."""
        left = self.samples - self.consumed
        return left // self.batch_size if self.drop_last else -(-left // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        """Batches of this worker for the rest of the epoch."""
        self._drawn.clear()
        start = self.consumed
        hook, self.before_first = self.before_first, None
        if hook is not None:
            hook()
        order = permutation(self.samples, self.seed, self.epoch) if self.shuffle else range(self.samples)
        while start < self.samples:
            batch = self.batch_size
            if self.drop_last and start + batch > self.samples:
                break
            slots = window(start, batch, self.samples, self.rank, self.workers)
            taken = min(batch, self.samples - start)
            self._drawn.append(taken)
            start += taken
            yield [order[slot] for slot in slots]

    def done(self) -> int:
        """Confirm that one step used the oldest batch drawn; returns its samples over all workers, 0 if
        none."""
        if not self._drawn:
            return 0
        taken = self._drawn.popleft()
        self.consumed += taken
        return taken

    def set_epoch(self, epoch: int) -> None:
        """Begin `epoch`; if it is the present one nothing changes, and a restored position stays."""
        if epoch != self.epoch:
            self.epoch, self.consumed = epoch, 0
            self._drawn.clear()

    def state_dict(self) -> dict[str, Any]:
        """Position, and the values that the order depends on."""
        return {
            "epoch": self.epoch,
            "consumed": self.consumed,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "samples": self.samples,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a position; ValueError if it belongs to another dataset."""
        if state["samples"] != self.samples:
            raise ValueError(
                f"the checkpoint's epoch has {state['samples']} samples, this dataset {self.samples}: "
                "a position in one means nothing in the other"
            )
        self.seed, self.shuffle = state["seed"], state["shuffle"]
        self.epoch, self.consumed = state["epoch"], state["consumed"]
        self._drawn.clear()
