"""Chooses and applies the batch size of a job, measures its steps, and adapts the learning rate.

A batch size that the scheduler sets is used. If the scheduler leaves it free, and the job has a range and
measures the noise of its gradient, rank 0 looks every half minute for the batch with the best goodput on the
job's workers; all ranks switch to it after the same step. Measurements go into checkpoints, so that a job
that resumes on other workers still has them.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rota.training import learning_rate as rates
from rota.training import torch_state
from rota.training.checkpoint import say
from rota.training.goodput import BatchRange, OwnStepTimes, best_batch, gain
from rota.training.statistics import GradientNoise

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.training.environment import Environment
    from rota.training.protocol import RankState
    from rota.training.sampler import Sampler

    Statistics = bool | Callable[[], float | None]

FIRST_STEPS = 16
"""Steps before an attempt first looks for a better batch; they measure the one it began with."""
EVERY_S = 30.0
"""Seconds between later looks (Pollux, section 4.1)."""
FRESH = 0.1
"""Weight of the newest step in the mean step time."""
SAME = 0.01
"""Smallest relative change of a step's worth that changes the learning rates."""
NEVER = 1 << 62


@dataclass(frozen=True)
class Wishes:
    """Options of the program, as `rota.training.attach` describes them."""

    statistics: Statistics
    batch_range: tuple[float, float] | None
    local_most: float | None
    every_s: float


class Tuning:
    """The batch size, and the values that depend on it."""

    def __init__(
        self,
        environment: Environment,
        objects: list[Any],
        samplers: list[Sampler],
        *,
        batch: int | None,
        rule: rates.Rule,
    ) -> None:
        """`objects` may be optimizers and schedulers, whose learning rates follow by `rule`."""
        self.asked = samplers[0].batch_size if samplers else batch
        self.batch = self.asked
        """Samples of one step over all workers; None if unknown."""
        self.gained = 0.0
        """Number of steps with the program's own batch that all steps so far were worth."""
        self.scale: float | None = None
        """Noise scale that all ranks use, in samples."""
        self._environment, self._objects, self._samplers, self._rule = environment, objects, samplers, rule
        self._nodes = -(-environment.world_size // max(environment.local_world_size, 1))
        self._times = OwnStepTimes()
        self._limits: BatchRange | None = None
        self._noise: GradientNoise | None = None
        self._own: Callable[[], float | None] | None = None
        """Function for the program's own estimate of the noise."""
        self._is_told = False
        """True if this attempt's batch was set from outside."""
        self._worth = 1.0
        """Factor by which AdaScale has multiplied the learning rates."""
        self._every_s = EVERY_S
        self._due = NEVER
        self._began: float | None = None
        self._step_s = 0.0
        """Recent mean step time; it decides when to look next, so that one odd step does not delay it."""

    def begin(self, step: int, wishes: Wishes) -> None:
        """Start measuring and choosing, as far as the options say; ValueError for invalid options."""
        statistics, self._every_s = wishes.statistics, wishes.every_s
        given = wishes.batch_range or self._environment.batch_range
        if given is not None and self.asked is not None:
            self._limits = _limits(self.asked, given, wishes.local_most)
        if callable(statistics):
            self._own = statistics
        elif statistics:
            self._watch()
        elif self._rule == rates.ADASCALE:
            raise ValueError(
                "learning_rate='adascale' goes by the noise of the gradient: add statistics=True"
            )
        if self._noise is not None or self._own is not None:
            self._due = step + FIRST_STEPS

    def _watch(self) -> None:
        wrapped = [one for one in self._objects if type(one).__name__ == "DistributedDataParallel"]
        optimizers = [one for one in self._objects if hasattr(one, "register_step_pre_hook")]
        is_alone = self._environment.world_size == 1
        if not (optimizers if is_alone else wrapped):
            say(
                "statistics=True measures torch optimizers on one worker and DDP models on several; none is "
                "attached, so there will be none"
            )
            return
        self._noise = GradientNoise(self._local(), self._environment.world_size)
        self._noise.begin_with(self.scale)
        if is_alone:
            self._noise.watch_alone(optimizers[0])
        else:
            self._noise.watch(wrapped[0])

    def _local(self) -> float:
        return float(self.batch or 0) / self._environment.world_size

    # -- step by step ------------------------------------------------------------------------------

    def count(self, taken: int) -> None:
        """Count a step with this number of samples over all workers; 0 if unknown."""
        batch, asked = taken or self.batch, self.asked
        is_other = batch and asked and batch != asked
        self.gained += gain(batch or 0.0, asked or 0.0, self.scale) if is_other else 1.0
        if self._began is not None:
            seconds = time.monotonic() - self._began
            self._step_s += (FRESH if self._step_s else 1.0) * (seconds - self._step_s)
            if batch and batch == self.batch:
                self._times.add(self._nodes, self._environment.world_size, float(batch), seconds)

    def go_on(self, step: int) -> bool:
        """Begin the next step; True if it has another batch size than the last."""
        if self._due == NEVER:
            return False
        is_new = step >= self._due and self._decide(step)
        self._began = time.monotonic()
        return is_new

    def _decide(self, step: int) -> bool:
        """Decide on all ranks, after the same step, with rank 0's values."""
        size, group = self._environment.world_size, torch_state.group_if_there()
        if size > 1 and group is None:  # plain loops have no means to agree
            self._due = NEVER
            return False
        word: Any = self._word(step) if self._environment.rank == 0 else None
        batch, self.scale, self._due = word if group is None else group.broadcast(word)
        is_new: bool = batch != self.batch
        if is_new:
            self.use(batch)
        self._follow()
        return is_new

    def _word(self, step: int) -> tuple[int | None, float | None, int]:
        """Rank 0's batch, its noise scale, and the step of the next look."""
        ahead = max(1, round(self._every_s / self._step_s)) if self._step_s > 0.0 else FIRST_STEPS
        scale, batch = self._known(), self.batch
        if self._limits is not None and batch is not None and not self._is_told:
            shape = self._nodes, self._environment.world_size
            batch = round(best_batch(self._limits, self._times, *shape, float(batch), scale))
        return batch, scale, step + ahead

    def _known(self) -> float | None:
        """The noise scale as it is known now."""
        if self._noise is not None:
            return self._noise.scale
        said = self._own() if self._own is not None else None
        return said if said is not None and math.isfinite(said) and said >= 0.0 else self.scale

    # -- another batch -----------------------------------------------------------------------------

    def told(self, samples: int) -> None:
        """Use a batch that the scheduler sets: this attempt keeps it until the scheduler sets another."""
        self._is_told = True
        self.use(samples)
        self._follow()

    def use(self, samples: int) -> None:
        """Make samplers draw batches of this size, and adapt the learning rate by the user's rule."""
        old, self.batch = self.batch, samples
        for sampler in self._samplers:
            sampler.batch_size = samples
        if self._noise is not None:
            self._noise.resize(self._local())
        if old is not None and old != samples:
            rates.scale(self._objects, rates.factor(self._rule, old, samples))

    def _follow(self) -> None:
        """For AdaScale: set the rate to that of the first batch times what a step is worth."""
        if self._rule != rates.ADASCALE or self.scale is None or not self.batch or not self.asked:
            return
        worth = gain(self.batch, self.asked, self.scale)
        by = worth / self._worth
        if abs(by - 1.0) > SAME:
            rates.scale(self._objects, by, adaptive=math.sqrt(by))
            self._worth = worth

    # -- reports and checkpoints -------------------------------------------------------------------

    def tell(self, status: RankState) -> None:
        """Add batch, noise and times to a report."""
        status.batch_size = self.batch
        if self._limits is not None:
            status.local_most = self._limits.local_most
        if self._noise is not None or self._own is not None:
            status.gradient_noise = self._known()
        waited_s = 0.0 if self._environment.world_size == 1 else self._waited_s()
        if status.step_s is not None and waited_s is not None:
            status.gradient_s = max(status.step_s - waited_s, 0.0)

    def _waited_s(self) -> float | None:
        return self._noise.waited_s if self._noise is not None and self._noise.on_host else None

    def steps_for(self, gained: float) -> int:
        """Steps at the present batch that are worth `gained` steps."""
        if not self.batch or not self.asked:
            return math.ceil(gained)
        return math.ceil(gained / gain(self.batch, self.asked, self.scale))

    def facts(self) -> dict[str, Any]:
        """The measurements and choices, for a checkpoint."""
        return {
            "gained": self.gained,
            "scale": self._known() if self._noise is not None else self.scale,
            "worth": self._worth,
            "times": self._times.plain(),
        }

    def restore(self, facts: dict[str, Any], stored: int | None, asked: int | None) -> None:
        """Continue with the batch `stored` in a checkpoint, unless the program now asks for another."""
        self.gained, self.scale = float(facts.get("gained", 0.0)), facts.get("scale")
        self._worth, self._times = float(facts.get("worth", 1.0)), OwnStepTimes.of(facts.get("times", []))
        if stored is None or self.asked is None:
            return
        target = stored if asked == self.asked else self.asked
        self.batch = stored
        self.use(target)


def _limits(asked: int, given: tuple[float, float], local_most: float | None) -> BatchRange:
    least, most = given
    if not 0 < least <= most:
        raise ValueError(f"a batch from {least:g} to {most:g} samples is no range")
    if local_most is not None and local_most < 1:
        raise ValueError(f"at most {local_most:g} samples of one worker: at least 1 is needed")
    return BatchRange(float(asked), least, most, local_most)
