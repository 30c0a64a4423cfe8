"""Makes a training loop pausable, movable and resizable with three lines, at no cost outside Rota.

job = rota.attach(model=model, optimizer=optimizer, sampler=sampler)
for epoch in job.epochs(10):
    for batch in loader:
        ...
        job.step(loss=loss, samples=len(batch))
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

from rota.training import learning_rate as rates
from rota.training import protocol, state, torch_state
from rota.training.checkpoint import CheckpointError, Checkpoints, Summing, say
from rota.training.environment import Environment
from rota.training.gate import StepGate
from rota.training.restoring import load_alike, own_random_states
from rota.training.sampler import Sampler
from rota.training.tuning import EVERY_S, Tuning, Wishes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.training.tuning import Statistics

VERSION = 1
"""Version of the tree in a checkpoint."""


def attach(
    *,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    keep: int = 2,
    checkpoint_every_s: float | None = 600.0,
    checkpoint_every_steps: int | None = None,
    total_steps: int | None = None,
    batch_size: int | None = None,
    batch_range: tuple[float, float] | None = None,
    local_batch_most: float | None = None,
    batch_every_s: float = EVERY_S,
    learning_rate: rates.Rule = "keep",
    statistics: Statistics = False,
    **objects: Any,
) -> Job:
    """Attach the program's state to Rota, and restore its newest checkpoint if there is one.

    `objects`               what makes up the state, by any names: models, optimizers, schedulers, a
                            `Sampler`, dicts, or anything with `state_dict` and `load_state_dict`; random
                            states are added
    `checkpoint_dir`        in place of ROTA_CHECKPOINT_DIR; without either nothing is saved
    `keep`                  checkpoints that stay
    `checkpoint_every_s`    seconds between saves by rank 0; `checkpoint_every_steps`: saves at multiples of
                            this step, with every rank's random states
    `total_steps`           steps until the program is done, for progress; `epochs` and `steps` set it
    `batch_size`            samples of one step over all workers (a `Sampler` knows it)
    `learning_rate`         its rule when the batch size changes: `keep`, `linear`, `sqrt`, `adascale`
                            or function(old, new) -> factor
    `statistics`            estimate the gradient noise scale (`rota.training.statistics`); or a function
                            without arguments that gives the program's own estimate in samples, or None
    `batch_range`           the fewest and the most samples of a step between which the job may choose, with
                            `statistics`; in place of the range it was submitted with (ROTA_BATCH_RANGE)
    `local_batch_most`      the most samples of one worker, for its device's memory
    `batch_every_s`         how often it looks for a better batch

    Call it when all objects exist and, with DDP, the process group.  Raises TypeError or ValueError.
    """
    for name, one in objects.items():
        state.check(name, one)
    environment = Environment.read()
    if checkpoint_dir is not None:
        environment = dataclasses.replace(environment, checkpoint=os.fspath(checkpoint_dir))
    job = Job(environment, objects, learning_rate=learning_rate, keep=keep, batch_size=batch_size)
    gate = StepGate(
        environment,
        job,
        job.status,
        group=torch_state.group_if_there,
        save_every_s=checkpoint_every_s if environment.checkpoint and environment.rank == 0 else None,
        save_every_steps=checkpoint_every_steps if environment.checkpoint else None,
    )
    job.begin(gate, total_steps, Wishes(statistics, batch_range, local_batch_most, batch_every_s))
    return job


class Job:
    """This program as Rota sees it. Made by `attach`, once in each process."""

    _gate: StepGate

    def __init__(
        self,
        environment: Environment,
        objects: dict[str, Any],
        *,
        learning_rate: rates.Rule,
        keep: int,
        batch_size: int | None,
    ) -> None:
        self.environment = environment
        self.status = protocol.RankState(rank=environment.rank, pid=os.getpid())
        self.epoch = 0
        self.restored = False
        """Whether this run continues from a checkpoint."""
        self._objects = objects
        self._samplers = [one for one in objects.values() if isinstance(one, Sampler)]
        self._tuning = Tuning(
            environment, _flat(objects), self._samplers, batch=batch_size, rule=learning_rate
        )
        self._epochs: int | None = None
        """Number of epochs in all, if `total_steps` follows from it."""
        self._gains: float | None = None
        """Number of steps in all, each counted by its worth, if `total_steps` follows from it."""
        self._suspension: torch_state.Suspension | None = None
        self._frozen: Any = None
        folder = environment.checkpoint
        self._checkpoints = Checkpoints(folder, environment.restore, keep) if folder else None

    def begin(self, gate: StepGate, total_steps: int | None, wishes: Wishes) -> None:
        """Restore, and report the start (called by `attach`)."""
        self._gate = gate
        self.status.total_steps = total_steps
        self.status.capability = {
            "protocol": protocol.VERSION,
            "checkpoint": self._checkpoints is not None,
            "resize": self._checkpoints is not None,
            "batch_size": self._tuning.batch is not None,
            "to_host": True,
        }
        step, samples = self._restore()
        self._tuning.begin(step, wishes)
        gate.start(step, samples)

    # What the program does

    def step(self, loss: Any = None, samples: float | None = None) -> None:
        """Complete a step, optimizer and schedulers included. Call it last in the loop's body, on every rank.

        `loss` is a number or a tensor (read only when a report is due); `samples` are those used by this rank
        (a `Sampler` knows them). May block (pause, suspension) and may end the program: SystemExit 85 after a
        checkpoint.
        """
        taken = 0
        for sampler in self._samplers:
            taken = sampler.done()
        if samples is None:
            samples = taken / self.environment.world_size
        self._tuning.count(taken)
        self._gate.step(loss, samples)
        if self._tuning.go_on(self._gate.step_count):
            self._expect_steps()

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs left of `count`; after a restore it continues where the samplers are."""
        if self.status.total_steps is None:
            self._epochs = count
            self._expect_steps()
        while self.epoch < count:
            for sampler in self._samplers:
                sampler.set_epoch(self.epoch)
            current = self.epoch
            yield current
            if self.epoch == current:
                self.epoch += 1
        self.finish()

    def steps(self, count: int, *, scaled: bool = False) -> Iterator[int]:
        """The steps left of `count`, for loops without epochs; the body calls `step` once.

        With `scaled`, a step counts as the number of steps with the first batch that it is worth
        (`statistics`): the job ends when it has learnt as much as in `count` of those, whatever batches it
        used.
        """
        if self.status.total_steps is None:
            self.status.total_steps = count
            self._gains = float(count) if scaled else None
        while (self._tuning.gained + 1e-6 if scaled else self._gate.step_count) < count:
            before = self._gate.step_count
            yield before
            if self._gate.step_count == before:
                raise RuntimeError("the body of `for ... in job.steps(...)` must call job.step() once")
        self.finish()

    def checkpoint(self) -> None:
        """Save now; all ranks call it at the same step.

        After the last batch of an epoch the epoch counts as completed: call it at the end of the body.
        """
        if self._samplers and not any(len(one) for one in self._samplers):
            self.epoch += 1
            for sampler in self._samplers:
                sampler.set_epoch(self.epoch)
        self.save(together=True)
        self._gate.saved()

    def finish(self) -> None:
        """Report that the training is complete; `epochs` and `steps` call it."""
        self._gate.report(protocol.FINISHED)

    # What the program may want to know

    @property
    def step_count(self) -> int:
        """Steps completed, those before a restart included."""
        return self._gate.step_count

    @property
    def rank(self) -> int:
        """Number of this worker."""
        return self.environment.rank

    @property
    def world_size(self) -> int:
        """Number of workers of this attempt; it may differ between attempts."""
        return self.environment.world_size

    @property
    def batch_size(self) -> int | None:
        """Samples of one step over all workers; directives may change it. None if unknown."""
        return self._tuning.batch

    @property
    def local_batch_size(self) -> int | None:
        """This worker's part of the batch (the first ranks have one more sample if it does not divide)."""
        if self._tuning.batch is None:
            return None
        return max(1, (self._tuning.batch - self.rank + self.world_size - 1) // self.world_size)

    @property
    def gained_steps(self) -> float:
        """Steps completed, each counted as the number of steps with the first batch that it is worth."""
        return self._tuning.gained

    @property
    def should_leave(self) -> bool:
        """Whether this attempt should end soon (the next `step` leaves, or there is a notice file)."""
        directive = self._gate.newest()
        asked = directive is not None and directive.do == protocol.LEAVE
        return asked or bool(self.environment.notice and os.path.exists(self.environment.notice))

    # What the gate asks for (rota.training.gate.StateHolder)

    def save(self, together: bool) -> None:
        """Publish a checkpoint of this step; if the disk fails it prints a message and the job goes on.

        `together` if all ranks call it at this step: it then holds the random states of all.
        """
        if self._checkpoints is None:
            return
        self._checkpoints.check_void()
        randoms = self._random_states(together)
        if self.rank != 0 or self.status.checkpoint_step == self.step_count:
            return
        began = time.monotonic()
        tree = {"version": VERSION, "job": self._facts(), "objects": self._taken(), "random": randoms}

        def write(file: Summing) -> None:
            state.dump(tree, file)

        facts = {"epoch": self.epoch, "world_size": self.world_size}
        try:
            published = self._checkpoints.publish(self.step_count, write, facts)
        except CheckpointError as error:
            self.status.checkpoint_error = str(error)
            say(f"{error}; the job goes on")
        else:
            self.status.checkpoint_error, self.status.checkpoint_step = "", published.step
            self.status.costs["checkpoint"] = (time.monotonic() - began, float(published.bytes))

    def to_host(self) -> tuple[float, float]:
        """Move device state to host memory (nothing to move on a CPU)."""
        self._frozen = (self._taken(), state.random_states())
        suspension = torch_state.Suspension()
        suspension.release(torch_state.device_tensors())
        self._suspension = suspension
        return float(suspension.bytes), float(suspension.residual_bytes)

    def to_device(self) -> float:
        """Move device state back; RuntimeError without room, when a checkpoint can still be written."""
        if self._suspension is None:
            return 0.0
        moved = float(self._suspension.restore())
        self._suspension = self._frozen = None
        return moved

    def settle(self) -> None:
        """Wait until the device has finished its work."""
        torch_state.settle()

    def change_batch_size(self, samples: int) -> None:
        """Use the batch size that the scheduler sets."""
        self._tuning.told(samples)
        self._expect_steps()

    def ends_epoch(self, ahead: int) -> bool:
        """Whether the `ahead`-th step from now is an epoch's last (False if each epoch has a single step)."""
        return any(len(one) == ahead and one.samples > one.batch_size for one in self._samplers)

    def tell(self, status: protocol.RankState) -> None:
        """Add batch size and gradient noise to a report."""
        self._tuning.tell(status)
        if self._gains is not None:
            status.total_steps = self.step_count + self._tuning.steps_for(self._gains - self._tuning.gained)

    # Inside

    def _taken(self) -> dict[str, Any]:
        """State of all objects; if the program is suspended, from host memory."""
        if self._suspension is None or self._frozen is None:
            return {name: state.take(one) for name, one in self._objects.items()}
        on_host: dict[str, Any] = self._suspension.on_host(self._frozen[0])
        return on_host

    def _random_states(self, together: bool) -> list[Any]:
        """Random states by rank; only our own without a process group, or if other ranks do not take part."""
        own = self._frozen[1] if self._frozen is not None else state.random_states()
        group = torch_state.group_if_there() if together else None
        return [own] if group is None else group.gather(own)

    def _facts(self) -> dict[str, Any]:
        """Facts about the job itself, for a checkpoint."""
        return {
            "step": self.step_count,
            "epoch": self.epoch,
            "samples": self._gate.samples,
            "batch_size": self._tuning.batch,
            "asked_batch_size": self._tuning.asked,
            "tuning": self._tuning.facts(),
            "world_size": self.world_size,
        }

    def _restore(self) -> tuple[int, float]:
        """Restore the newest checkpoint; returns the step and the samples to begin with."""
        if self._checkpoints is None:
            return 0, 0.0
        if self.rank == 0:
            self._checkpoints.tidy()
        began = time.monotonic()
        loaded, tree = load_alike(self._checkpoints)
        if tree is None:
            return 0, 0.0
        if tree.get("version") != VERSION:
            version = tree.get("version")
            raise ValueError(f"the checkpoint's tree has version {version}; this library reads {VERSION}")
        self._give(tree["objects"])
        facts = tree["job"]
        self.epoch, self.restored = int(facts["epoch"]), True
        told = {"gained": float(facts["step"]), **facts.get("tuning", {})}
        self._tuning.restore(told, facts["batch_size"], facts["asked_batch_size"])
        self._restore_random(tree["random"], facts)
        size = float(loaded.bytes) if loaded is not None else 0.0
        self.status.costs["restore"] = (time.monotonic() - began, size)
        self.status.checkpoint_step = int(facts["step"])
        if self.rank == 0:
            workers = "1 worker" if self.world_size == 1 else f"{self.world_size} workers"
            say(f"continues at step {facts['step']} (epoch {self.epoch}) on {workers}")
        # The checkpoint has rank 0's own count; each of the present ranks takes an equal part.
        samples = float(facts["samples"]) * int(facts["world_size"]) / self.world_size
        return int(facts["step"]), samples

    def _give(self, states: dict[str, Any]) -> None:
        missing, extra = self._objects.keys() - states.keys(), states.keys() - self._objects.keys()
        if missing or extra:
            raise ValueError(
                f"the checkpoint holds {sorted(states)}, this program attaches {sorted(self._objects)}: "
                "attach the same names, or name another checkpoint folder"
            )
        for name, one in self._objects.items():
            state.give(name, one, states[name])

    def _restore_random(self, states: list[Any], facts: dict[str, Any]) -> None:
        """Restore this rank's random states, and again after a loader in mid-epoch has drawn its seed."""
        own = own_random_states(states, self.rank, self.world_size == facts["world_size"])
        if own is None:
            state.set_random_seeds((int(facts["step"]) + 1) * 1_000_003 + self.rank)
            return
        state.set_random_states(own)
        for sampler in self._samplers:
            if sampler.consumed:
                sampler.before_first = lambda: state.set_random_states(own)

    def _expect_steps(self) -> None:
        """Compute the total steps from the epochs that are left, at the present batch size."""
        if self._epochs is None or not self._samplers:
            return
        sampler = self._samplers[0]
        in_epoch = -(-sampler.samples // sampler.batch_size)
        self.status.total_steps = self.step_count + len(sampler) + (self._epochs - self.epoch - 1) * in_epoch


def _flat(objects: dict[str, Any]) -> list[Any]:
    """The attached objects, with lists expanded."""
    flat: list[Any] = []
    for one in objects.values():
        flat.extend(one if isinstance(one, (list, tuple)) else [one])
    return flat
