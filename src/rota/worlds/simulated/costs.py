"""What starting, stopping and moving a job costs, in seconds of holding devices without doing work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rota.errors import InputError
from rota.model.options import parse_options
from rota.model.units import format_duration, parse_duration

_PER_GPU = "/gpu"

RESIZES = {"coddl": ("15s", "2s"), "elan": ("20s", "1s")}
"""By system: how long the new workers prepare while the job works on, and how long it pauses then.

Both papers report pauses of about a second; the times to prepare are our assumption.
"""


@dataclass(frozen=True)
class CostModel:
    """Seconds: a constant, plus seconds per GPU, with other constants for some workloads."""

    constant_s: float = 0.0
    per_gpu_s: float = 0.0
    by_workload: Mapping[str, float] = field(default_factory=dict)
    from_gpus: Mapping[int, float] = field(default_factory=dict)
    """Other constants for jobs of at least this number of GPUs."""

    def of(self, workload: str, gpus: int) -> float:
        constant = self.constant_s
        for least, seconds in sorted(self.from_gpus.items()):
            constant = seconds if gpus >= least else constant
        return self.by_workload.get(workload, constant) + self.per_gpu_s * gpus

    @property
    def words(self) -> str:
        """`30s + 1s a GPU`; empty if it costs nothing."""
        several = {self.constant_s, *self.by_workload.values(), *self.from_gpus.values()}
        least, most = min(several), max(several)
        constant = f"{format_duration(least)} to {format_duration(most)}" if least < most else ""
        constant = constant or (format_duration(most) if most else "")
        each = f"{format_duration(self.per_gpu_s)} a GPU" if self.per_gpu_s else ""
        return " + ".join(filter(None, [constant, each]))

    def __add__(self, other: CostModel) -> CostModel:
        """The cost of both, one after the other."""
        named, sized = {*self.by_workload, *other.by_workload}, {*self.from_gpus, *other.from_gpus}
        return CostModel(
            self.constant_s + other.constant_s,
            self.per_gpu_s + other.per_gpu_s,
            {
                name: self.by_workload.get(name, self.constant_s)
                + other.by_workload.get(name, other.constant_s)
                for name in named
            },
            {least: self._from(least) + other._from(least) for least in sized},
        )

    def _from(self, gpus: int) -> float:
        """The constant of a job of `gpus` GPUs."""
        reached = [least for least in self.from_gpus if gpus >= least]
        return self.from_gpus[max(reached)] if reached else self.constant_s


@dataclass(frozen=True)
class Costs:
    """Overheads of a world.

    A preempted job pays `checkpoint` when it leaves and `restore` when it returns; both are charged at its
    next start, since that is when it holds devices without working.  A migration pays both and `migrate`.
    A job that was suspended in host memory pays neither if it resumes on the same nodes.  A job that starts
    on a device that another job used last pays `switch`.  A running job that gets another number of devices
    pays `resize` in place of a migration, if that is stated.  If it keeps those it has, it first prepares:
    for `prepare` it goes on as before, and only then pays; if it does not, it stands still for both.
    """

    start: CostModel = CostModel()
    checkpoint: CostModel = CostModel()
    restore: CostModel = CostModel()
    migrate: CostModel = CostModel()
    switch: CostModel = CostModel()
    prepare: CostModel = CostModel()
    resize: CostModel | None = None
    """Cost of a resize; None: as a migration."""
    preempt: CostModel = CostModel()
    """Work that each preemption adds to a job, where saving and loading count as work to be done, which
    moves the job in orders by remaining work (Helios, Lucid); `checkpoint` and `restore` do not."""
    checkpoint_every_s: float = 0.0
    """Work between two periodic checkpoints: what a lost node costs at most; 0 loses nothing."""
    scatter: tuple[float, ...] = ()
    """Factors: each start, return or change takes the time stated above multiplied by one of these, drawn for
    each; none: exactly that time."""

    @property
    def free(self) -> bool:
        """True if no start, stop or move takes time."""
        costs = (self.start, self.checkpoint, self.restore, self.migrate, self.switch, self.prepare)
        return all(cost == CostModel() for cost in (*costs, self.resize or CostModel()))

    @property
    def overlap(self) -> bool:
        """True if jobs prepare for other devices while they work."""
        return self.prepare != CostModel()

    @property
    def undo_work(self) -> bool:
        """True if jobs lose work by being preempted."""
        return self.preempt != CostModel()

    @property
    def keep_work(self) -> bool:
        """True if only a failure undoes or adds work."""
        return not self.checkpoint_every_s and not self.undo_work

    @property
    def stops(self) -> dict[str, str]:
        """What interruptions of a running job cost, in words; empty where they are free.

        A restart is one after a failure, which pays a start, or what returning costs.
        """
        again = self.checkpoint + self.restore
        moved = again + self.migrate
        return {
            "preemptions": (again + self.preempt).words,
            "migrations": moved.words,
            "resizes": (moved if self.resize is None else self.resize).words,
            "restarts": max((self.start.words, again.words), key=bool),
        }

    def first_start(self, workload: str, gpus: int) -> float:
        return self.start.of(workload, gpus)

    def resume(self, workload: str, gpus: int) -> float:
        return self.checkpoint.of(workload, gpus) + self.restore.of(workload, gpus)

    def drawn(self, *of: int) -> float:
        """The factor on the stated time of one overhead; `of` identifies the event."""
        return self.scatter[np.random.default_rng(of).integers(len(self.scatter))] if self.scatter else 1.0

    def change(self, workload: str, before: int, gpus: int) -> float:
        """Seconds for a running job that comes to `gpus` other devices, having had `before` devices."""
        if self.resize is not None and before != gpus:
            return self.resize.of(workload, gpus)
        return self.resume(workload, gpus) + self.migrate.of(workload, gpus)


def parse_costs(text: str) -> Costs:
    """The costs that `start=20s,restore=30s+1s/gpu,checkpoint_every=30m` describes.

    `resize=coddl` and `resize=elan` give the costs of resizing in these systems, preparation included.
    """
    events = ("start", "checkpoint", "restore", "migrate", "switch", "prepare", "resize", "preempt")
    options = parse_options(text, field="--costs", known=(*events, "checkpoint_every", "scatter"))
    scatter = _parse_scatter(options.pop("scatter", ""))
    every_s = parse_duration(options.pop("checkpoint_every", "0s"), field="--costs checkpoint_every")
    named = RESIZES.get(options.get("resize", ""))
    if named is not None:
        prepare, options["resize"] = named
        options.setdefault("prepare", prepare)
    costs = {name: _parse_cost(name, value) for name, value in options.items()}
    return Costs(**costs, checkpoint_every_s=every_s, scatter=scatter)


def _parse_scatter(text: str) -> tuple[float, ...]:
    """Parse `0.8/1/1.7`: factors; each start draws one of them."""
    try:
        factors = tuple(float(part) for part in filter(None, text.split("/")))
    except ValueError:
        factors = (math.nan,)
    if any(not 0.0 <= factor < math.inf for factor in factors):
        raise InputError.at(f"scatter={text} is not made of factors", field="--costs", expected="0.8/1/1.7")
    return factors


def _parse_cost(name: str, text: str) -> CostModel:
    """`30s`, `1s/gpu`, `30s+1s/gpu`, or `7s|2:30s|9:60s`: 30 s from 2 GPUs on, 60 s from 9 on.

    `30s|bert:120s` is 120 s for the workload `bert`.
    """
    base, *others = text.split("|")
    terms = [term.strip() for term in base.split("+")]
    per_gpu = [term.removesuffix(_PER_GPU) for term in terms if term.endswith(_PER_GPU)]
    constant = [term for term in terms if not term.endswith(_PER_GPU)]
    if len(per_gpu) > 1 or len(constant) > 1:
        raise InputError.at(f"{name}={text} has too many terms", field="--costs", expected="30s+1s/gpu")
    special = dict(_parse_special(name, text, part) for part in others)
    return CostModel(
        constant_s=sum(parse_duration(term, field=f"--costs {name}") for term in constant),
        per_gpu_s=sum(parse_duration(term, field=f"--costs {name}") for term in per_gpu),
        by_workload={key: seconds for key, seconds in special.items() if not key.isdecimal()},
        from_gpus={int(key): seconds for key, seconds in special.items() if key.isdecimal()},
    )


def _parse_special(name: str, text: str, part: str) -> tuple[str, float]:
    """`9:60s` or `bert:120s`: the constant for jobs of 9 GPUs and more, or of the workload `bert`."""
    key, colon, seconds = part.partition(":")
    if not colon or not key.strip():
        raise InputError.at(
            f"{name}={text} has the part {part!r}", field="--costs", expected="7s|2:30s|9:60s|bert:120s"
        )
    return key.strip(), parse_duration(seconds.strip(), field=f"--costs {name}")
