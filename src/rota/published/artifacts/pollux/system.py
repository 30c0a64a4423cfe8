"""Pollux as the authors' simulator carries it out: `pollux@authors`.

Paper     Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021
Decides   number of GPUs, placement, preemption
Needs     goodput of each job by nodes, GPUs and batch size
Idea      petuum/adaptdl (osdi21-artifact), `simulator/pollux.py`; in its simulator's world it differs in four
          things:
          1. the search: all its generations of NSGA-II with two objectives (`search.py`);
          2. speedups: a fair share lies on one node whatever its size, and as many GPUs as a node has count
             as 1; candidates of batches are not clipped;
          3. no job starts on its least size in the moment of a search;
          4. jobs choose their batches themselves, except that `ncf` has one GPU and its largest batch.
Departs   Large clusters are searched in cells, as under `pollux`; the number of nodes is as it is.
Checked   in the world of the authors' simulator, thirteen workloads (docs/fidelity.md)
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from numpy.random import Generator

from rota.knowledge.needs import Knowledge
from rota.model.columns import Array, Ints
from rota.model.grants import Grant
from rota.published.artifacts.pollux.search import PublishedSearch
from rota.scheduler.decision import Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.systems.pollux.parameters import PolluxParameters
from rota.systems.pollux.policy import PolluxPlan
from rota.systems.pollux.search import Found, SharingProblem
from rota.systems.pollux.speedups import Speedups
from rota.systems.pollux.system import PAPER, Pollux

_PINNED = "ncf"
"""The authors' simulator runs this program on one GPU with its largest batch."""


@dataclass(frozen=True)
class PolluxOfAuthorsParameters:
    """Parameters of `pollux@authors`."""

    p: float = -1.0
    """Power of the mean of speedups: 1 is the mean, 0 the geometric one, less is fairer."""
    interval_s: float = 60.0
    """Seconds between two searches."""
    restart_s: float = 30.0
    """Seconds that a restart is taken to cost (δ)."""
    population: int = 100
    """Members of the population."""
    generations: int = 100
    """Generations of a search."""
    most_gpus: int = 64
    """GPUs of one job."""
    most_nodes: int = 16
    """Nodes of one job."""
    growth: float = 2.0
    """A job may have this many times the most GPUs that it was measured on."""
    avoid_interference: bool = True
    """At most one job on several nodes uses a node."""
    cell_nodes: int = 64
    """Larger clusters are searched in cells of this many nodes."""

    def __post_init__(self) -> None:
        self.as_pollux()

    def as_pollux(self) -> PolluxParameters:
        """These parameters for the paper's policy, without early end of searches; InputError if invalid."""
        return PolluxParameters(**asdict(self), patience=max(self.generations, 1))


@register(
    "pollux@authors",
    "Pollux as the authors' simulator carries it out",
    paper=PAPER,
    needs={Knowledge.GOODPUT},
    levers={Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE},
    parameters=PolluxOfAuthorsParameters,
    rotates=True,
)
class PolluxOfAuthors(Pollux):
    """NSGA-II every interval."""

    def __init__(self, parameters: PolluxOfAuthorsParameters | None = None) -> None:
        super().__init__((parameters or PolluxOfAuthorsParameters()).as_pollux())

    def plan(self, snapshot: Snapshot, rows: Ints, memory: Memory) -> PolluxPlan:
        return PlanOfAuthors(snapshot, rows, self.tables(snapshot), memory)

    def speedups(self, node_gpus: int, gpus: int) -> Speedups:
        return SpeedupsOfAuthors(self.parameters, node_gpus, gpus)


class SpeedupsOfAuthors(Speedups):
    """Speedups with a fair share on one node, in parts of a node's GPUs."""

    clips = False

    def __init__(self, parameters: PolluxParameters, node_gpus: int, gpus: int) -> None:
        super().__init__(parameters, node_gpus, gpus)
        self.unit = float(node_gpus)

    def most_local(self) -> int:
        return self.most

    def largest(self, snapshot: Snapshot, row: int, most: int) -> int:
        return 1 if is_pinned(snapshot, row) else most


def is_pinned(snapshot: Snapshot, row: int) -> bool:
    """True for the program that the authors' simulator does not share out."""
    return snapshot.jobs.table.name_of("workload", row) == _PINNED


class PlanOfAuthors(PolluxPlan):
    """One decision in the making; jobs choose their batches themselves."""

    def run(self, problem: SharingProblem, members: Ints, begins: Array, random: Generator) -> Found:
        p = self.parameters
        search = PublishedSearch(problem, random, p.p, self.table[members])
        return search.run(begins, p.population, p.generations, p.patience)

    def start_waiting(self) -> None:
        if not self.is_searched:
            super().start_waiting()

    def with_batch(self, place: int, grant: Grant, old: Grant | None) -> Grant:
        pinned = is_pinned(self.snapshot, grant.job)
        return grant._replace(batch_size=float(self.models.limits[place, 1]) if pinned else math.nan)
